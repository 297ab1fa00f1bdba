"""Many sentences in headless Chromium: filtered, ordered and marked, without errors."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_ssl.cli.main import main

COUNT = 10_000
TOP, BOTTOM = ".pages:first-of-type [data-turn='1']", ".pages:last-of-type [data-turn='1']"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
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
    return f"file://{folder / 'r.html'}"


@pytest.fixture
def many(shown: Any, page: str) -> Any:
    shown.open(page)
    return shown


def test_all_sentences_are_there_a_page_at_a_time(many: Any) -> None:
    assert many.told() == f"{COUNT} of {COUNT} sentences"
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


def test_who_turns_pages_at_the_end_goes_on_at_the_top_by_the_same_key(many: Any) -> None:
    many.one(BOTTOM).send_keys("\n")
    many.until_first("Sentence 26")
    assert many.driver.switch_to.active_element == many.one(TOP)
    many.driver.switch_to.active_element.send_keys("\n")
    many.until_first("Sentence 51")
    assert many.one("#told").location_once_scrolled_into_view["y"] >= 0


def test_sentences_are_filtered_by_text_type_and_difference(many: Any) -> None:
    many.type("WORD99 ")
    many.until_told("1 of")
    assert many.headings() == ["Sentence 100"]
    many.one("[type=reset]").click()
    many.until_told(str(COUNT))
    many.choose("type", "NOUN (500)")
    many.until_told("500 of")
    assert many.headings()[:2] == ["Sentence 1: NOUN", "Sentence 21: NOUN"]
    many.choose("type", "R:VERB (500)")
    many.until_first("Sentence 11: VERB")
    many.choose("type", "all")
    many.press("differ")
    same = sum(1 for number in range(COUNT) if number % 7 == 0 and number % 10)
    many.until_told(f"{COUNT - same} of")


def test_errors_that_a_system_missed_are_found(many: Any) -> None:
    many.choose("type", "VERB (500)")
    many.choose("outcome", "missed by good")
    many.until_told("0 of")
    many.choose("outcome", "missed by poor")
    many.until_told("500 of")
    assert many.texts(".errors li") == ["R:VERB stays → stayed: corrected by good; missed by poor"]


def test_a_text_is_looked_for_where_it_was_changed(many: Any) -> None:
    many.choose("in", "source")
    many.type("stay")
    many.until_told(f"{COUNT} of")
    many.press("whole")
    many.until_told("0 of")
    many.type("s")
    many.until_told(f"{COUNT} of")
    assert many.texts("dd mark") == ["stays"] * 4  # what is taken out too
    many.press("changed")
    changed = sum(1 for number in range(COUNT) if number % 10 == 0 or number % 7 > 1)
    many.until_told(f"{changed} of")


def test_sentences_are_ordered_by_the_difference_of_scores(many: Any) -> None:
    many.choose("first", "good")
    many.choose("second", "poor")
    many.choose("sort", "A lost most to B")
    many.until_first("Sentence 8")  # the first that both left as it was
    many.choose("sort", "A gained most over B")
    many.until_first("Sentence 1: NOUN")
    gains = []
    for number in range(25):
        good, poor = map(float, many.texts(".score", number))
        gains.append(good - poor)
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0


def test_sentences_are_ordered_by_how_many_words_differ(many: Any) -> None:
    many.choose("sort", "words of A and B least alike")
    many.until_first("Sentence 7")  # six words of each are not of the other
    assert many.headings()[1] == "Sentence 14"


def test_changes_are_marked_against_what_is_chosen(many: Any) -> None:
    assert many.texts("del") == ["stays"] * 2  # of the reference and of what is good
    assert many.texts("ins") == ["stayed"] * 2
    many.choose("against", "good")
    many.until_told(str(COUNT))
    assert many.texts("ins") == ["stays"]
    many.choose("against", "nothing")
    many.until_told(str(COUNT))
    assert not many.all("#list ins")


def test_the_address_tells_what_is_asked_for(many: Any, page: str) -> None:
    many.type("a&b#c=d")
    many.until_told("0 of")
    many.one("[name=text]").clear()
    many.type("as")
    many.choose("type", "NOUN (500)")
    many.until_told("500 of")
    many.one(TOP).click()
    many.until_first("Sentence 501")
    address = many.driver.current_url
    assert address == f"{page}#text=as&type=NOUN&page=2"
    many.open(address)
    assert many.told().startswith("500 of")
    assert many.headings()[0] == "Sentence 501: NOUN"
    many.one("[type=reset]").click()
    many.until_told(str(COUNT))
    assert many.driver.current_url == page
