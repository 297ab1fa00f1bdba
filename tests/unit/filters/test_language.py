"""Language identification: checked sides, candidates, and lines without a language."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters.rules import LanguageFilter

ENGLISH = "The committee will meet again on Tuesday to discuss the new proposal for the city."
GERMAN = "Der Ausschuss wird am Dienstag über den neuen Vorschlag für die Stadt beraten."
JAPANESE = "委員会は火曜日に再び会合を開きます\u3002"
ROWS = [(ENGLISH, GERMAN), (ENGLISH, ENGLISH), (GERMAN, GERMAN), (GERMAN, ENGLISH), ("12", "--")]


def verdicts(one: LanguageFilter, rows: Sequence[tuple[str, ...]]) -> list[bool]:
    return [one.accept(score) for score in one.score(rows)]


def test_both_sides_must_have_their_language() -> None:
    one = LanguageFilter(2, "en", "de")
    assert one.score(ROWS) == [("en", "de"), ("en", "en"), ("de", "de"), ("de", "en"), ("", "")]
    assert verdicts(one, ROWS) == [True, False, False, False, True]


def test_a_single_side_can_be_checked() -> None:
    assert verdicts(LanguageFilter(2, source="en"), ROWS) == [True, True, False, False, True]
    assert verdicts(LanguageFilter(2, target="en"), ROWS) == [False, True, False, True, True]
    assert verdicts(LanguageFilter(1, "ja"), [(JAPANESE,), (ENGLISH,)]) == [True, False]


def test_languages_equal_those_of_langid() -> None:
    import py3langid

    lines = [*ENGLISH.split(), *GERMAN.split(), ENGLISH, GERMAN, JAPANESE]
    found = LanguageFilter(1, "en").score([(line,) for line in lines])
    classified = [py3langid.classify(line) for line in lines]
    assert found == [(language if score > -1e38 else "",) for language, score in classified]
    assert ("",) in found


def test_candidates_restrict_the_languages() -> None:
    word = ("Hallo",)
    assert LanguageFilter(1, "de").score([word]) == [("it",)]
    assert LanguageFilter(1, "de", candidates="en+de").score([word]) == [("en",)]
    assert LanguageFilter(1, "de").score([word]) == [("it",)], "each chooses among its own"


def test_invalid_utf8_is_accepted() -> None:
    line = b"caf\xe9 and more of the same".decode("utf-8", "surrogateescape")
    assert LanguageFilter(1, "en").score([(line,)]) == [("en",)]


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"source": "eng"}, "eng"),
        ({"source": "en", "candidates": "en+xx"}, "xx"),
        ({"source": "en", "target": "de", "candidates": "en+fr"}, "de"),
    ],
)
def test_wrong_options_name_the_culprit(options: dict[str, str], culprit: str) -> None:
    with pytest.raises(UsageError, match=f"'{culprit}'"):
        LanguageFilter(2, **options)
