"""The page in headless Chromium: sentences are filtered, ordered and marked, without errors."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium")
pytestmark = pytest.mark.skipif(not (DRIVER and BROWSER), reason="no chromium and chromedriver")
COUNT = 10_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentence n has n mod 7 words that one system got wrong, and one in 10 has an error."""
    folder = tmp_path_factory.mktemp("report")
    words = [f"word{number} stays the same as all the others do".split() for number in range(COUNT)]
    gold, right, wrong = [], [], []
    for number, line in enumerate(words):
        edit = f"A 1 2|||R:{'VERB' if number % 20 else 'NOUN'}|||stayed|||REQUIRED|||-NONE-|||0\n"
        has_error = number % 10 == 0
        gold.append(f"S {' '.join(line)}\n{edit if has_error else ''}\n")
        fixed = [line[0], "stayed", *line[2:]] if has_error else line
        right.append(" ".join(fixed))
        wrong.append(" ".join([*["bad"] * (number % 7), *line[number % 7 :]]))
    (folder / "gold.m2").write_text("".join(gold))
    for name, lines in (("good", right), ("poor", wrong)):
        (folder / f"runs/{name}.1").mkdir(parents=True)
        (folder / f"runs/{name}.1/test.txt").write_text("\n".join(lines) + "\n")
    words_of_command = ["report", folder / "runs", "-o", folder / "r.html"]
    assert main([*map(str, words_of_command), "--gold", str(folder / "gold.m2")]) == 0
    return folder / "r.html"


@pytest.fixture
def shown(browser: Any, page: Path) -> Any:
    browser.get(f"file://{page}")
    return browser


def until(condition: Callable[[], bool]) -> float:
    """Wait; return how many seconds it took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < 20
        time.sleep(0.01)
    return time.monotonic() - begun


def told(driver: Any) -> str:
    return str(driver.find_element(By.ID, "told").text)


def headings(driver: Any) -> list[str]:
    return [one.text for one in driver.find_elements(By.CSS_SELECTOR, "#list h3")]


def choose(driver: Any, name: str, text: str) -> None:
    Select(driver.find_element(By.NAME, name)).select_by_visible_text(text)


def test_all_sentences_are_there_a_page_at_a_time(shown: Any) -> None:
    assert told(shown) == f"{COUNT} of {COUNT} sentences"
    assert len(headings(shown)) == 25
    assert shown.find_element(By.ID, "place").text == "Page 1 of 400"
    assert not shown.find_element(By.ID, "before").is_enabled()
    shown.find_element(By.ID, "after").send_keys(Keys.ENTER)
    until(lambda: headings(shown)[0].startswith("Sentence 26"))
    assert not shown.get_log("browser")


def test_sentences_are_filtered_by_text_type_and_difference(shown: Any) -> None:
    shown.find_element(By.NAME, "text").send_keys("WORD99 ")
    until(lambda: told(shown).startswith("1 of"))
    assert headings(shown) == ["Sentence 100"]
    shown.find_element(By.NAME, "text").clear()
    shown.find_element(By.NAME, "text").send_keys(" " + Keys.BACKSPACE)
    until(lambda: told(shown).startswith(str(COUNT)))
    choose(shown, "type", "NOUN (500)")
    until(lambda: told(shown).startswith("500 of"))
    assert headings(shown)[:2] == ["Sentence 1: NOUN", "Sentence 21: NOUN"]
    choose(shown, "type", "all")
    shown.find_element(By.NAME, "differ").send_keys(Keys.SPACE)
    same = sum(1 for number in range(COUNT) if number % 7 == 0 and number % 10)
    until(lambda: told(shown).startswith(f"{COUNT - same} of"))
    assert not shown.get_log("browser")


def test_sentences_are_ordered_by_the_difference_of_scores(shown: Any) -> None:
    choose(shown, "first", "good")
    choose(shown, "second", "poor")
    choose(shown, "sort", "first lost most")
    until(lambda: headings(shown)[0] == "Sentence 8")  # the first that both left as it was
    choose(shown, "sort", "first gained most")
    until(lambda: headings(shown)[0] == "Sentence 1: NOUN")
    gains = []
    for item in shown.find_elements(By.CSS_SELECTOR, "#list > li"):
        good, poor = (float(one.text) for one in item.find_elements(By.CLASS_NAME, "score"))
        gains.append(good - poor)
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0
    assert not shown.get_log("browser")


def test_changes_are_marked_against_what_is_chosen(shown: Any) -> None:
    first = shown.find_element(By.CSS_SELECTOR, "#list > li")
    assert [one.text for one in first.find_elements(By.TAG_NAME, "del")] == ["stays"]
    assert [one.text for one in first.find_elements(By.TAG_NAME, "ins")] == ["stayed"]
    choose(shown, "against", "good")
    until(lambda: bool(shown.find_elements(By.CSS_SELECTOR, "#list > li ins")))
    first = shown.find_element(By.CSS_SELECTOR, "#list > li")
    assert [one.text for one in first.find_elements(By.TAG_NAME, "ins")] == ["stays"]
    choose(shown, "against", "nothing")
    until(lambda: not shown.find_elements(By.CSS_SELECTOR, "#list ins"))
    assert not shown.get_log("browser")


def test_every_control_has_a_name_and_a_place_in_the_order_of_keys(shown: Any) -> None:
    for control in shown.find_elements(By.CSS_SELECTOR, "input, select, button"):
        assert control.accessible_name
        assert control.get_attribute("tabindex") in (None, "0", "")
    assert [one.text for one in shown.find_elements(By.TAG_NAME, "h1")] == ["Systems side by side"]
    shown.set_window_size(360, 640)
    wide = shown.execute_script("return document.documentElement.scrollWidth")
    assert wide <= shown.execute_script("return window.innerWidth")
