"""The page of ``fairseq-ssl serve`` in headless Chromium."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from pictures import correct_text

from tests.cli.conftest import ServerProcess
from tests.conftest import until

WORDS = ["go", "childs", "very", "but", "end", "!", "😀", "e\u0301", "a", ",", "<b>", '"', "&amp;"]
TEXT = "He go.\nI am very tired 😀 but  see childs!\n<img src=x onerror=alert(1)> end"
CORRECTED = (
    "He goes.\nI am tired 😀, but  see children there!\n<img src=x onerror=alert(1)> the end"
)


class Page:
    """The page of a server in the browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str, width: int = 1280) -> None:
        self.driver.set_window_size(width, 900)
        self.driver.get(address)

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """Return the text contents of matching elements."""
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        contents: list[str] = self.driver.execute_script(script, selector)
        return contents

    def set(self, text: str) -> None:
        """Set the text, also to characters that the driver cannot type."""
        script = "document.querySelector('#text').value = arguments[0]"
        self.driver.execute_script(script, text)

    def press(self, *keys: str, at: str = "#text") -> None:
        self.one(at).send_keys(*keys)

    def status(self) -> str:
        return self.texts("#status")[0]

    def edits(self) -> Any:
        return self.driver.find_elements("css selector", "#result [role=button]")

    def parts(self, line: Any) -> tuple[list[Any], list[Any]]:
        """Return the parts of a line, and those that are edits, after a check of their text."""
        parts = self.driver.execute_script("return parts(arguments[0])", line)
        for side, text in (("removed", line["source"]), ("added", line["text"])):
            strings = [part if isinstance(part, str) else part[side] for part in parts]
            assert "".join(strings) == text
        return parts, [part for part in parts if isinstance(part, dict)]

    def copied(self) -> str:
        """Copy the result, and return it."""
        self.driver.execute_script(
            "navigator.clipboard.writeText = async (it) => { window.copied = it; }"
        )
        self.one("#copy").click()
        until(lambda: self.status() == "Copied")
        text: str = self.driver.execute_script("return window.copied")
        return text

    def correct(self, text: str) -> None:
        """Correct a text by Ctrl+Enter."""
        self.set(text)
        self.press("\ue009", "\ue007")
        until(lambda: self.status() not in ("", "Correcting …", "Copied"))


@pytest.fixture
def page(browser: Any, server: ServerProcess) -> Iterator[Page]:
    """Yield the page. Fail if a script logs an error."""
    page = Page(browser)
    page.open(server.url)
    yield page
    assert not browser.get_log("browser")


def test_edits_are_shown_in_place(page: Page) -> None:
    page.correct(TEXT)
    assert page.status() == "5 of 5 edits accepted"
    result = (
        "He gogoes.\nI am very tired 😀 but, but  see childschildren there!\n"
        "<img src=x onerror=alert(1)> the end"
    )
    assert page.texts("#result") == [result]
    assert page.texts("#result del") == ["go", "very", "but", "childs"]
    assert page.texts("#result ins") == ["goes", ", but", "children there", "the"]
    labels = [edit.get_attribute("aria-label") for edit in page.edits()]
    assert labels == [
        "Replace “go” with “goes”: subject-verb agreement (R:VERB:SVA), probability 91%",
        "Delete “very”: unnecessary adverb (U:ADV), probability 91%",
        "Replace “but” with “, but”: wording (R:OTHER), probability 91%",
        "Replace “childs” with “children there”: noun number (R:NOUN:NUM), probability 91%",
        "Insert “the”: missing determiner (M:DET), probability 91%",
    ]
    page.correct("Fine.")
    assert page.status() == "No edits"
    assert page.texts("#result") == ["Fine."]
    assert not page.one("#accept").is_displayed()


def test_removed_and_added_parts_are_the_source_and_the_corrected_text(page: Page) -> None:
    draw = random.Random(1)
    gaps = ["", " ", "  ", "\t", "\u00a0"]
    lines = [
        "".join(draw.choice(gaps) + draw.choice(WORDS) for _ in range(draw.randint(1, 12)))
        for _ in range(80)
    ]
    address = page.driver.current_url + "correct"
    corrected = httpx.post(address, json={"text": "\n".join(lines)[:1000]}, timeout=60).json()
    edited = [line for line in corrected["lines"] if line["edits"]]
    assert len(edited) > 25
    for line in edited:
        parts, edits = page.parts(line)
        assert [part["edit"] for part in edits] == line["edits"]
        for part, edit in zip(edits, line["edits"], strict=True):
            assert part["removed"].strip() == edit["source"].strip()
            assert part["added"].replace(" ", "").strip() == edit["target"].replace(" ", "")
    # other text changed as well
    line = {"source": "He go now", "text": "He goes later", "edits": line["edits"][:1]}
    line["edits"][0] |= {"start": 3, "end": 5, "source": "go", "target": "goes"}
    parts, _ = page.parts(line)
    assert len(parts) == 1


def test_edits_are_explained(page: Page) -> None:
    page.correct("He go.\nThe end")
    assert not page.one("#note").is_displayed()
    page.press("\ue004", at="#correct")  # Tab
    until(lambda: bool(page.one("#note").is_displayed()))
    explanation = "subject-verb agreement (R:VERB:SVA), probability 91%"
    assert page.texts("#note") == [f"{explanation}\nClick or press Enter to reject it."]
    page.edits()[0].send_keys("\ue00c")  # Escape
    assert not page.one("#note").is_displayed()
    webdriver = pytest.importorskip("selenium.webdriver")
    webdriver.ActionChains(page.driver).move_to_element(page.edits()[1]).perform()
    assert page.texts("#note")[0].startswith("missing determiner (M:DET), probability 91%\n")


def test_edits_are_rejected_and_accepted(page: Page) -> None:
    def pressed() -> list[str]:
        return [edit.get_attribute("aria-pressed") for edit in page.edits()]

    page.correct(TEXT)
    page.edits()[1].click()
    assert pressed() == ["true", "false", "true", "true", "true"]
    assert page.status() == "4 of 5 edits accepted"
    assert page.copied() == CORRECTED.replace("am tired", "am very tired")
    page.edits()[1].send_keys(" ")
    page.edits()[3].send_keys("\ue007")  # Enter
    assert pressed() == ["true", "true", "true", "false", "true"]
    assert page.copied() == CORRECTED.replace("children there", "childs")
    page.one("#reject").click()
    assert page.status() == "0 of 5 edits accepted"
    assert page.copied() == TEXT
    page.one("#accept").click()
    assert page.copied() == CORRECTED


def test_edits_are_reached_by_the_tab_key(page: Page) -> None:
    page.correct("He go end")
    page.press("\ue004", at="#correct")
    for edit in page.edits():
        assert page.driver.switch_to.active_element == edit
        edit.send_keys("\ue004")
    assert page.driver.switch_to.active_element == page.one("#copy")


def test_nothing_is_copied_before_a_correction(page: Page) -> None:
    assert page.one("#copy").get_attribute("aria-disabled") == "true"
    page.one("#copy").click()
    assert page.status() == ""


def test_errors_are_shown(
    browser: Any, start_server: Callable[..., ServerProcess], page: Page
) -> None:
    server = start_server("--max-length", 20)
    page.open(server.url)
    page.correct("a" * 21)
    assert page.status() == "The text has 21 characters. Expected up to 20."
    assert page.one("#status").get_attribute("class") == "error"
    page.correct("a fail")
    assert page.status() == "The correction of this text failed."
    page.correct("He go")
    assert page.status() == "1 of 1 edit accepted"
    server.stop()
    page.correct("He go")
    assert page.status() == "The server does not respond."
    page.driver.execute_script("fetch = async () => new Response('<html>', {status: 502})")
    page.correct("He go")
    assert page.status() == "The server answered with the error 502."
    messages = [entry["message"] for entry in browser.get_log("browser")]
    assert len(messages) == 3  # the three failed requests
    assert all("Failed to load resource" in message for message in messages)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_and_has_contrast(page: Page, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": 320, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.correct(f"He go.\n{'a' * 300} end very\n{'very ' * 40}")
        script = "return document.documentElement.scrollWidth"
        assert page.driver.execute_script(script) <= 320
        for edit in (*page.edits()[:9], page.edits()[-1]):
            page.driver.execute_script("arguments[0].focus({preventScroll: true})", edit)
            note = page.one("#note").rect
            assert note["x"] >= 0
            assert note["x"] + note["width"] <= 320
            assert note["width"] > 250  # also beside an edit at the right edge
        for name in ("text", "faint", "ins", "del", "link"):
            for below in ("page", "box", *([f"{name}-page"] if name in ("ins", "del") else [])):
                assert contrast(page, name, below) >= 4.5, (name, below)
        assert contrast(page, "on-link", "link") >= 4.5
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def contrast(page: Page, first: str, second: str) -> float:
    """Return the contrast of two colors of the page, as WCAG 2 defines it."""
    script = (
        "return getComputedStyle(document.documentElement).getPropertyValue(`--${arguments[0]}`)"
    )

    def luminance(name: str) -> float:
        digits = page.driver.execute_script(script, name).strip().removeprefix("#")
        digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted([luminance(first), luminance(second)])
    return (lighter + 0.05) / (darker + 0.05)


def test_the_page_is_self_contained(server: ServerProcess) -> None:
    answer = httpx.get(server.url)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src 'sha256-" in policy
    assert "unsafe" not in policy
    assert "http" not in answer.text.replace("http-equiv", "")
    assert "innerHTML" not in answer.text
    assert httpx.head(server.url).status_code == 200


def test_the_picture_shows_edits_in_the_browser(browser: Any) -> None:
    correct_text(browser)
    page = Page(browser)
    assert page.status() == "4 of 5 edits accepted"
    assert page.one("#note").is_displayed()
    assert page.copied() == (
        "She likes playing football with her friend in the weekend. "
        "In my opinion, public transport is very important, but it depends on the weather."
    )
