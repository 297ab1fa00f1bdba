"""Filtering, sorting and marking of many sentences in headless Chromium."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_ssl.cli.main import main

COUNT = 10_000
TOP, BOTTOM = ".pages:first-of-type [data-turn='1']", ".pages:last-of-type [data-turn='1']"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a report. In sentence n, n mod 7 words are wrong; each tenth has a gold error."""
    folder = tmp_path_factory.mktemp("report")
    words = [f"word{number} stays the same as all the others do".split() for number in range(COUNT)]
    gold, correct, wrong = [], [], []
    for number, line in enumerate(words):
        edit = f"A 1 2|||R:{'VERB' if number % 20 else 'NOUN'}|||stayed|||REQUIRED|||-NONE-|||0\n"
        has_error = number % 10 == 0
        gold.append(f"S {' '.join(line)}\n{edit if has_error else ''}\n")
        fixed = [line[0], "stayed", *line[2:]] if has_error else line
        correct.append(" ".join(fixed))
        wrong.append(" ".join([*["bad"] * (number % 7), *line[number % 7 :]]))
    (folder / "gold.m2").write_text("".join(gold))
    for name, lines in (("good", correct), ("poor", wrong)):
        (folder / f"runs/{name}.1").mkdir(parents=True)
        (folder / f"runs/{name}.1/test.txt").write_text("\n".join(lines) + "\n")
    command = ["report", folder / "runs", "-o", folder / "r.html"]
    assert main([*map(str, command), "--gold", str(folder / "gold.m2")]) == 0
    return f"file://{folder / 'r.html'}"


@pytest.fixture
def many(browser_page: Any, page: str) -> Any:
    """Return a page with many sentences, opened in the browser."""
    browser_page.open(page)
    return browser_page


@pytest.mark.slow
def test_sentences_are_shown_in_pages(many: Any) -> None:
    assert many.status() == f"{COUNT} of {COUNT} sentences"
    assert len(many.headings()) == 25
    assert many.one(".place").text == "Page 1 of 400"
    many.one(TOP).send_keys("\n")
    many.until_first("Sentence 26")
    many.one("#page").clear()
    many.one("#page").send_keys("400\n")
    many.until_first("Sentence 9976")
    many.one(TOP).send_keys("\n")  # there is no page after the last
    assert many.one(TOP).get_attribute("aria-disabled") == "true"
    assert many.one("#page").get_attribute("value") == "400"


def test_bottom_button_moves_the_focus_to_the_top_button(many: Any) -> None:
    many.one(BOTTOM).send_keys("\n")
    many.until_first("Sentence 26")
    assert many.driver.switch_to.active_element == many.one(TOP)
    many.driver.switch_to.active_element.send_keys("\n")
    many.until_first("Sentence 51")
    assert many.one("#status").location_once_scrolled_into_view["y"] >= 0


def test_sentences_are_filtered_by_text_type_and_difference(many: Any) -> None:
    many.type("WORD99 ")
    many.until_status("1 of")
    assert many.headings() == ["Sentence 100"]
    many.one("[type=reset]").click()
    many.until_status(str(COUNT))
    many.choose("type", "NOUN (500)")
    many.until_status("500 of")
    assert many.headings()[:2] == ["Sentence 1: NOUN", "Sentence 21: NOUN"]
    many.choose("type", "R:VERB (500)")
    many.until_first("Sentence 11: VERB")
    many.choose("type", "all")
    many.press("differ")
    identical = sum(1 for number in range(COUNT) if number % 7 == 0 and number % 10)
    many.until_status(f"{COUNT - identical} of")


def test_sentences_are_filtered_by_outcome(many: Any) -> None:
    many.choose("type", "VERB (500)")
    many.choose("outcome", "missed by good")
    many.until_status("0 of")
    many.choose("outcome", "missed by poor")
    many.until_status("500 of")
    assert many.texts(".errors li") == ["R:VERB stays → stayed: corrected by good; missed by poor"]


def test_search_in_changed_sentences(many: Any) -> None:
    many.choose("in", "source")
    many.type("stay")
    many.until_status(f"{COUNT} of")
    many.press("whole")
    many.until_status("0 of")
    many.type("s")
    many.until_status(f"{COUNT} of")
    assert many.texts("dd mark") == ["stays"] * 4  # also in deleted text
    many.press("changed")
    changed = sum(1 for number in range(COUNT) if number % 10 == 0 or number % 7 > 1)
    many.until_status(f"{changed} of")


def test_sentences_are_sorted_by_score_difference(many: Any) -> None:
    many.choose("first", "good")
    many.choose("second", "poor")
    many.choose("sort", "largest loss of A to B")
    many.until_first("Sentence 8")  # the first sentence that both systems left unchanged
    many.choose("sort", "largest gain of A over B")
    many.until_first("Sentence 1: NOUN")
    gains = []
    for number in range(25):
        good, poor = map(float, many.texts(".score", number))
        gains.append(good - poor)
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0
    many.choose("sort", "largest word difference")
    many.until_first("Sentence 7")  # six words of each system are not in the other output
    assert many.headings()[1] == "Sentence 14"


def test_changes_are_marked_against_the_selected_side(many: Any) -> None:
    assert many.texts("del") == ["stays"] * 2  # in the reference and in the output of good
    assert many.texts("ins") == ["stayed"] * 2
    many.choose("against", "good")
    many.until_status(str(COUNT))
    assert many.texts("ins") == ["stays"]
    many.choose("against", "nothing")
    many.until_status(str(COUNT))
    assert not many.all("#list ins")


def test_filter_is_stored_in_the_address(many: Any, page: str) -> None:
    many.type("a&b#c=d")
    many.until_status("0 of")
    many.one("[name=text]").clear()
    many.type("as")
    many.choose("type", "NOUN (500)")
    many.until_status("500 of")
    many.one(TOP).click()
    many.until_first("Sentence 501")
    address = many.driver.current_url
    assert address == f"{page}#text=as&type=NOUN&page=2"
    many.open(address)
    assert many.status().startswith("500 of")
    assert many.headings()[0] == "Sentence 501: NOUN"
    many.one("[type=reset]").click()
    many.until_status(str(COUNT))
    assert many.driver.current_url == page
