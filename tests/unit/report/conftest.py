"""Headless Chromium, and what is asked of a page in it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    path, service = shutil.which("chromium"), shutil.which("chromedriver")
    if not (path and service):
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.binary_location = path
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    yield driver
    driver.quit()


class Shown:
    """A page that is shown."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        """Load it anew, in a window of a desktop."""
        self.driver.set_window_size(1280, 900)
        self.driver.get("about:blank")
        self.driver.get(address)
        self.settle()

    def settle(self) -> None:
        """Wait until the sentences are drawn."""
        busy = "return document.querySelector('#list[aria-busy=true]')"
        until(lambda: self.driver.execute_script(busy) is None)

    def all(self, selector: str, of: Any = None) -> list[Any]:
        found: list[Any] = (of or self.driver).find_elements("css selector", selector)
        return found

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def field(self, name: str) -> Any:
        return self.one(f"[name={name}]")

    def type(self, text: str) -> None:
        """Look for a text."""
        self.field("text").send_keys(text)

    def press(self, name: str) -> None:
        """Press the space bar on a box."""
        self.field(name).send_keys(" ")

    def choose(self, name: str, text: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.field(name)).select_by_visible_text(text)

    def told(self) -> str:
        return str(self.one("#told").text)

    def until_told(self, beginning: str) -> None:
        until(lambda: self.told().startswith(beginning))
        self.settle()

    def until_first(self, beginning: str) -> None:
        until(lambda: self.headings()[:1] != [] and self.headings()[0].startswith(beginning))
        self.settle()

    def headings(self) -> list[str]:
        script = "return [...document.querySelectorAll('#list h3')].map((one) => one.textContent)"
        found: list[str] = self.driver.execute_script(script)
        return found

    def texts(self, selector: str, number: int = 0) -> list[str]:
        """Return texts of a sentence, as a script sees them."""
        script = (
            "return [...document.querySelectorAll('#list > li')[arguments[0]]"
            ".querySelectorAll(arguments[1])].map((one) => one.textContent)"
        )
        found: list[str] = self.driver.execute_script(script, number, selector)
        return found


@pytest.fixture
def shown(browser: Any) -> Iterator[Shown]:
    """A page, of which no script may complain."""
    page = Shown(browser)
    yield page
    assert not browser.get_log("browser")


def until(condition: Callable[[], bool]) -> None:
    """Wait."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < 20
        time.sleep(0.01)
