"""Errors that learners of English make, counted in a corpus: words added, omitted and confused."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.io.atomic import atomic_lines
from fairseq_ssl.io.text_files import parse_json
from fairseq_ssl.signature import Signature, json_text
from fairseq_ssl.text.casing import match_case

MAX_FORMS = 1_000_000
"""Words to remember; a larger vocabulary is looked up anew from time to time."""


class VerbForms(dict[str, tuple[str, ...]]):
    """For each word the other forms of the same verb, none where it is no verb.

    Every word that can be a verb is one ("people", "well"): nothing is known of its use. One
    that is a form of two verbs ("saw") has the forms of both. What follows a capital letter,
    or is in capitals, does so in the other forms too. Words with another sign than letters
    ("'s") are no verbs here.
    """

    def __init__(self) -> None:
        super().__init__()
        with _without_spacy():
            package = import_optional("lemminflect", "Changing verbs", "noise")
        self.lemmas_of, self.forms_of = package.getAllLemmas, package.getAllInflections

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= MAX_FORMS:
            self.clear()
        forms = self[word] = self._others(word)
        return forms

    def _others(self, word: str) -> tuple[str, ...]:
        if not word.isalpha():
            return ()
        lower = word.lower()
        lemmas = self.lemmas_of(lower)
        found = {
            form
            for kind in ("VERB", "AUX")
            for lemma in lemmas.get(kind, ())
            for forms in self.forms_of(lemma, kind).values()
            for form in forms
        }
        return tuple(match_case(word, form) for form in sorted(found - {lower}))


@contextmanager
def _without_spacy() -> Iterator[None]:
    """Hide spaCy, which lemminflect would load to extend it, and with it all of torch: seconds."""
    sys.meta_path.insert(0, _NoSpacy)
    try:
        yield
    finally:
        sys.meta_path.remove(_NoSpacy)


class _NoSpacy:
    """Says that there is no spaCy, when it is asked for."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """Find no module; others are left to those that come after."""
        if name == "spacy":
            raise ModuleNotFoundError(name)


ERROR_KINDS = ("append", "verb", "replace", "delete")
"""What each error asks a corrector to do; append: to put in what is left out."""
MAX_ERRORS = 4
"""Lines with more are counted as if they had these."""
MAX_GRAM_TOKENS = 1000
"""On either side of a pair; longer ones are passed over."""


@dataclass(frozen=True)
class LearnerErrors:
    """The words of learners' errors, each with how often it was seen, and how many errors."""

    deleted: Mapping[str, int]
    """Words that writers put in, alone or with others, and correctors deleted."""
    missing: Mapping[str, int]
    """Words that writers left out and correctors put in."""
    replaced: Mapping[str, Mapping[str, int]]
    """For a correct word what was written in its place, between words that are right; forms of
    the same verb are left to verb errors."""
    errors: tuple[int, ...]
    """How many lines have 0, 1, 2, 3, and 4 or more errors."""
    kinds: Mapping[str, int]
    """How many errors there are of each of `ERROR_KINDS`."""

    def common(self, least: int) -> LearnerErrors:
        """Leave out words, and pairs of words, seen less often than that."""
        pairs = {word: _frequent(others, least) for word, others in self.replaced.items()}
        return LearnerErrors(
            _frequent(self.deleted, least),
            _frequent(self.missing, least),
            {word: others for word, others in pairs.items() if others},
            self.errors,
            self.kinds,
        )

    def write(self, path: Path, signature: Signature) -> None:
        """Write them as JSON, the most frequent first, with the signature on top."""
        weight = {word: sum(others.values()) for word, others in self.replaced.items()}
        content = {
            "signature": str(signature),
            **signature.parameters,
            **asdict(self),
            "deleted": _sorted(self.deleted),
            "missing": _sorted(self.missing),
            "replaced": {word: _sorted(self.replaced[word]) for word in _sorted(weight)},
        }
        with atomic_lines(path) as file:
            file.write(f"{json_text(content, indent=1)}\n")

    @classmethod
    def read(cls, path: Path) -> LearnerErrors:
        """Read what `write` wrote, or what was written by hand in that form."""
        content = _read_json(path)
        _check_names(path, content)
        errors = content["errors"]
        if not (isinstance(errors, list) and errors and all(map(_is_count, errors))):
            raise _value_error(
                path, "errors", errors, "a list of counts: lines with 0, 1, 2, ... errors"
            )
        _check_counts(path, "kinds", content["kinds"])
        if set(content["kinds"]) != set(ERROR_KINDS):
            raise _value_error(
                path, "kinds", content["kinds"], f"a count of each of {', '.join(ERROR_KINDS)}"
            )
        for name in ("deleted", "missing"):
            _check_counts(path, name, content[name])
        if not any(content["deleted"].values()):
            raise _value_error(
                path, "deleted", content["deleted"], "one word or more, to be put in"
            )
        if not isinstance(content["replaced"], dict):
            raise _value_error(
                path, "replaced", content["replaced"], "words, with what is written for them"
            )
        for word, others in content["replaced"].items():
            _check_counts(path, f"replaced: {word}", others)
            if not any(others.values()):
                raise _value_error(path, f"replaced: {word}", others, "one word or more")
        return cls(**{name: content[name] for name in _NAMES} | {"errors": tuple(errors)})


_NAMES = [field.name for field in fields(LearnerErrors)]


class LearnerErrorCounter:
    """Counts the errors of pairs of lines, what was written and what it was corrected to."""

    def __init__(self) -> None:
        distance = import_optional("rapidfuzz.distance", "Comparing lines", "noise")
        self._operations = distance.Levenshtein.opcodes
        self._forms = VerbForms()
        self._deleted: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()
        self._replaced: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._errors = [0] * (MAX_ERRORS + 1)
        self._kinds = dict.fromkeys(ERROR_KINDS, 0)
        self.blank = self.long = 0
        """Pairs passed over: one side has no word, or too many."""

    def add(self, written: str, corrected: str) -> None:
        """Compare two lines by the fewest words put in, left out and replaced."""
        source, target = written.split(), corrected.split()
        if not source or not target:
            self.blank += 1
        elif max(len(source), len(target)) > MAX_GRAM_TOKENS:
            self.long += 1
        else:
            number = 0 if source == target else self._compare(source, target)
            self._errors[min(number, MAX_ERRORS)] += 1

    def words(self) -> LearnerErrors:
        """Return what has been counted."""
        return LearnerErrors(
            dict(self._deleted),
            dict(self._missing),
            {word: dict(others) for word, others in self._replaced.items()},
            tuple(self._errors),
            dict(self._kinds),
        )

    def _compare(self, source: list[str], target: list[str]) -> int:
        """Count each word that differs as one error, as the noise makes them; return how many."""
        operations = self._operations(source, target)
        stretches = groupby(operations, key=lambda part: part.tag == "equal")
        return sum(
            self._stretch(
                source[parts[0].src_start : parts[-1].src_end],
                target[parts[0].dest_start : parts[-1].dest_end],
            )
            for equal, parts in ((equal, list(parts)) for equal, parts in stretches)
            if not equal
        )

    def _stretch(self, written: list[str], correct: list[str]) -> int:
        """Count words between those that are equal.

        Which of them stands for which is clear where there is one on each side, and where one
        is another form of the same verb.
        """
        replaced = min(len(written), len(correct))
        verbs = sum(not set(written).isdisjoint(self._forms[word]) for word in correct)
        self._kinds["verb"] += min(verbs, replaced)
        self._kinds["replace"] += replaced - min(verbs, replaced)
        self._kinds["delete"] += len(written) - replaced
        self._kinds["append"] += len(correct) - replaced
        if not correct:
            self._deleted.update(written)
        elif not written:
            self._missing.update(correct)
        elif len(written) == len(correct) == 1 and not verbs:
            self._replaced[correct[0]][written[0]] += 1
        return max(len(written), len(correct))


def _frequent(counts: Mapping[str, int], least: int) -> dict[str, int]:
    return {word: count for word, count in counts.items() if count >= least}


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _value_error(path: Path, name: str, found: object, expected: str) -> DataError:
    shown = json.dumps(found, ensure_ascii=False)
    shown = f"{shown[:40]}..." if len(shown) > 43 else shown
    return DataError(f"{path}: {name!r} is {shown}; expected {expected}.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise DataError(
            f"{path} does not exist. Make it: fairseq-ssl learner-errors SOURCE TARGET -o {path}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} can not be read: {error}.") from None
    except ValueError as error:
        raise DataError(
            f"{path} is no JSON: {error}. Expected a file of fairseq-ssl learner-errors."
        ) from None
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no learner words, but a {type(content).__name__}.")
    return content


def _check_names(path: Path, content: Mapping[str, Any]) -> None:
    for name in _NAMES:
        if name not in content:
            close = get_close_matches(name, content, n=1)
            hint = f" Is {close[0]!r} meant to be it?" if close else ""
            raise DataError(f"{path} has no {name!r}; expected {', '.join(_NAMES)}.{hint}")


def _check_counts(path: Path, name: str, counts: Any) -> None:
    """Refuse what is not words, each with a whole number."""
    if not isinstance(counts, dict):
        raise _value_error(path, name, counts, "words, each with its count")
    for word, count in counts.items():
        if word.split() != [word]:
            raise _value_error(path, name, word, "words without spaces")
        if not _is_count(count):
            raise _value_error(path, f"{name}: {word}", count, "a count, 0 or more")
