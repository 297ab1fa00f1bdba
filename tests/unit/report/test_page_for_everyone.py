"""Accessibility of a report in Chromium: keyboard, phone width, languages and scripts."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from fairseq_ssl.cli.main import main

SOURCE = ["A budget </script>.", "I live here.", "x"]
REFERENCE = ["年間予算を承認した。", "私は今東京に住んでいる。", ""]
OUTPUTS = {
    "good": ["年次予算を承認した。", "私は今東京に住んでいる。", "word " * 2000],
    "poor": ["予算 </script> & <b>", "أعيش هنا الآن.", "a <i>"],
    "a-long-name-of-a-system-that-is-a-big-ensemble-of-eight": REFERENCE,
}
SEEDS = [40.0, 50.0]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    for name, lines in {"source": SOURCE, "reference": REFERENCE, **OUTPUTS}.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    scores = {
        name: {"chrF": {"seeds": [value + index for value in SEEDS]}}
        for index, name in enumerate(("good", "poor", "zero"))
    }
    (folder / "scores").mkdir()
    content = json.dumps({"systems": scores, "signature": "chrF|lines:3"})
    (folder / "scores/test.json").write_text(content)
    inputs = [*(f"{name}={folder / name}" for name in OUTPUTS), f"{folder / 'scores'}"]
    texts = ["--source", f"{folder / 'source'}", "--reference", f"{folder / 'reference'}"]
    flags = ["-o", f"{folder / 'r.html'}", "--tokenize", "char", "-s", "en", "-t", "ja"]
    assert main(["report", *inputs, *texts, *flags]) == 0
    return f"file://{folder / 'r.html'}"


@pytest.fixture
def few(browser_page: Any, page: str) -> Any:
    """Return a page with few sentences, opened in the browser."""
    browser_page.open(page)
    return browser_page


def test_controls_have_accessible_names_and_are_in_the_tab_order(few: Any) -> None:
    controls = few.all("input, select, button")
    assert len(controls) > 20
    for control in controls:
        if control.is_displayed():
            assert control.accessible_name
        assert control.get_attribute("tabindex") in (None, "0", "")
    assert [one.text for one in few.all("h1")] == ["Systems side by side"]
    levels = [int(one.tag_name[1]) for one in few.all("h1, h2, h3")]
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("width", [360, 1280])
def test_page_does_not_scroll_horizontally(few: Any, width: int) -> None:
    metrics = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": width < 500}
    few.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        wide = few.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width
    finally:
        few.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_tables_are_sorted_by_keyboard(few: Any) -> None:
    def systems() -> list[str]:
        return [one.text for one in few.all("section:first-of-type tbody th")]

    heading = few.all("section:first-of-type thead th")[1]
    assert "chrF" in heading.text
    heading.find_element("css selector", "button").send_keys("\n")
    assert systems()[:3] == ["zero", "poor", "good"]
    assert heading.get_attribute("aria-sort") == "descending"
    heading.find_element("css selector", "button").send_keys("\n")
    assert systems()[-3:] == ["good", "poor", "zero"]  # systems without a score come first
    assert heading.get_attribute("aria-sort") == "ascending"


def test_scripts_without_spaces_are_compared_by_character(few: Any) -> None:
    few.choose("against", "reference")
    few.until_status("3 of")
    assert few.texts("del")[0] == "間"
    assert few.texts("ins")[0] == "次"
    assert few.texts("dd")[:4] == [
        SOURCE[0],
        REFERENCE[0],
        "年間次予算を承認した。",
        "年間予算を承認した。 </script> & <b>",
    ]


def test_deleted_first_word_is_separated_by_a_space(few: Any) -> None:
    few.choose("against", "source")
    few.until_status("3 of")
    assert few.texts("dd", 2)[3] == "x a <i>"  # x is deleted


def test_texts_have_their_language_and_direction(few: Any) -> None:
    few.choose("against", "nothing")
    few.until_status("3 of")
    first, second = few.all("#list > li")[:2]
    assert [one.get_attribute("lang") for one in few.all("dd", first)] == ["en", *["ja"] * 4]
    script = "return getComputedStyle(arguments[0]).direction"
    directions = [few.driver.execute_script(script, text) for text in few.all("dd", second)]
    assert directions == ["ltr", "ltr", "ltr", "rtl", "ltr"]


def test_changes_are_announced_to_screen_readers(few: Any) -> None:
    content = "return getComputedStyle(document.querySelector(arguments[0]), '::before').content"
    few.choose("against", "reference")
    few.until_status("3 of")
    for kind, words in (("del", "deleted"), ("ins", "inserted")):
        assert words in few.driver.execute_script(content, kind)


def test_systems_can_be_hidden(few: Any) -> None:
    few.one("#filter summary").click()
    few.all("[name=show]")[2].click()
    few.until_status("3 of")
    names = [text.split()[0] for text in few.texts("dt")]
    assert names == ["source", "reference", "good", "poor"]
    few.all("[name=show]")[1].click()
    few.press("differ")
    few.until_status("0 of")  # only one system is shown
