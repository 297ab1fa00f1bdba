"""Fixtures that open a report in the browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import until


class BrowserPage:
    """A report in the browser, with methods that operate its filter form."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        """Load an address in a window of desktop size."""
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
        """Type into the search field."""
        self.field("text").send_keys(text)

    def press(self, name: str) -> None:
        """Press the space bar on a checkbox."""
        self.field(name).send_keys(" ")

    def choose(self, name: str, text: str) -> None:
        """Select an option by its text."""
        from selenium.webdriver.support.ui import Select

        Select(self.field(name)).select_by_visible_text(text)

    def status(self) -> str:
        """Return the line above the list, such as "2 of 3 sentences"."""
        return str(self.one("#status").text)

    def until_status(self, beginning: str) -> None:
        """Wait until the status starts with `beginning` and the sentences are drawn."""
        until(lambda: self.status().startswith(beginning))
        self.settle()

    def until_first(self, beginning: str) -> None:
        """Wait until the first heading starts with `beginning` and the sentences are drawn."""
        until(lambda: self.headings()[:1] != [] and self.headings()[0].startswith(beginning))
        self.settle()

    def headings(self) -> list[str]:
        """Return the headings of the sentences on the current page."""
        script = "return [...document.querySelectorAll('#list h3')].map((one) => one.textContent)"
        headings: list[str] = self.driver.execute_script(script)
        return headings

    def texts(self, selector: str, number: int = 0) -> list[str]:
        """Return the text contents of matching elements in sentence `number` of the page."""
        script = (
            "return [...document.querySelectorAll('#list > li')[arguments[0]]"
            ".querySelectorAll(arguments[1])].map((one) => one.textContent)"
        )
        contents: list[str] = self.driver.execute_script(script, number, selector)
        return contents


@pytest.fixture
def browser_page(browser: Any) -> Iterator[BrowserPage]:
    """Yield a page. Fail if a script logs an error."""
    page = BrowserPage(browser)
    yield page
    assert not browser.get_log("browser")
