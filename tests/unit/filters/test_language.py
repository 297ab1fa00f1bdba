"""Languages of lines in a batch, compared with langid's, and their filter."""

from __future__ import annotations

import random
from collections.abc import Sequence

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from fairseq_ssl.filters.language import LanguageFilter

ENGLISH = "The committee will meet again on Tuesday to discuss the new proposal for the city."
GERMAN = "Der Ausschuss wird am Dienstag über den neuen Vorschlag für die Stadt beraten."
JAPANESE = "委員会は火曜日に再び会合を開きます\u3002"
ROWS = [(ENGLISH, GERMAN), (ENGLISH, ENGLISH), (GERMAN, GERMAN), (GERMAN, ENGLISH), ("12", "--")]


def verdicts(one: LanguageFilter, rows: Sequence[tuple[str, ...]]) -> list[bool]:
    return [one.accept(score) for score in one.score(rows)]


def test_each_checked_side_must_have_its_language() -> None:
    both = LanguageFilter(2, "en", "de")
    assert both.score(ROWS) == [("en", "de"), ("en", "en"), ("de", "de"), ("de", "en"), ("", "")]
    assert verdicts(both, ROWS) == [True, False, False, False, True]
    assert verdicts(LanguageFilter(2, source="en"), ROWS) == [True, True, False, False, True]
    assert verdicts(LanguageFilter(2, target="en"), ROWS) == [False, True, False, True, True]
    assert verdicts(LanguageFilter(1, "ja"), [(JAPANESE,), (ENGLISH,)]) == [True, False]


def test_candidates_restrict_the_languages() -> None:
    word = ("Hallo",)
    assert LanguageFilter(1, "de").score([word]) == [("it",)]
    assert LanguageFilter(1, "de", candidates="en+de").score([word]) == [("en",)]
    assert LanguageFilter(1, "de").score([word]) == [("it",)], "each chooses among its own"
    invalid = b"caf\xe9 and more of the same".decode("utf-8", "surrogateescape")
    assert LanguageFilter(1, "en").score([(invalid,)]) == [("en",)]


def test_languages_equal_those_of_langid() -> None:
    """Lines of all lengths, some in capitals, with and without features."""
    draw = random.Random(3)
    sentences = (ENGLISH, GERMAN, "одбор ће се састати", JAPANESE, "12 -- \u3000 ...")  # noqa: RUF001
    words = [sentence.split(" ") for sentence in sentences]
    lines = [" ".join(draw.choices(draw.choice(words), k=draw.randrange(9))) for _ in range(200)]
    lines += [*map(str.upper, lines[:50]), "", "7", "the " * 300, "über " * 240]
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    classified = [identifier.classify(line) for line in lines]
    expected = [language if score > -1e38 else "" for language, score in classified]
    assert LanguageFilter(1, "en").identify(lines) == expected
    assert {"en", "de", "sr", "ja", ""} <= set(expected)
    assert LanguageFilter(1, "en").identify([""] * 99) == [""] * 99
