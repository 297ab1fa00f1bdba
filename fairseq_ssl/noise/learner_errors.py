"""Counts of English learner errors in a corrected corpus: added, omitted and replaced words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.io.blocks import read_parallel
from fairseq_ssl.io.jobs import ProgressFactory, check_distinct, counted, silent_progress
from fairseq_ssl.io.outputs import atomic_lines, exclusive
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import checked_pairs, json_text, read_json
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.inflection import inflection


@lru_cache(maxsize=1_000_000)
def verb_forms(word: str) -> tuple[str, ...]:
    """Return the other forms of a verb, or an empty tuple if the word is not a verb.

    For a form of two verbs, such as "saw", the result contains the forms of both verbs.
    """
    return tuple(inflection().verb_forms(word))


ERROR_KINDS = ("append", "verb", "replace", "delete")
"""Kinds of errors, named after the correction: the correction of an omitted word is ``append``."""
MAX_ERRORS = 4
"""Cap on the number of errors per line. Lines with more errors count as having this number."""
MAX_GRAM_TOKENS = 1000
"""Maximum number of tokens per line. Pairs with a longer line are skipped."""


@dataclass(frozen=True)
class LearnerErrors:
    """Counts of learner errors by word, by number of errors per line, and by kind."""

    deleted: Mapping[str, int]
    """Counts of words that writers added and correctors deleted."""
    missing: Mapping[str, int]
    """Counts of words that writers omitted and correctors inserted."""
    replaced: Mapping[str, Mapping[str, int]]
    """Counts by correct word, then by written word. Only replacements of one word with one
    word are counted. Verb errors are excluded."""
    errors: tuple[int, ...]
    """Number of lines with 0, 1, 2, 3, and 4 or more errors."""
    kinds: Mapping[str, int]
    """Number of errors by kind, for the kinds in `ERROR_KINDS`."""

    def common(self, min_count: int) -> LearnerErrors:
        """Return a copy without words and word pairs that occur fewer than `min_count` times.

        `errors` and `kinds` do not change.
        """
        pairs = {word: _frequent(others, min_count) for word, others in self.replaced.items()}
        return LearnerErrors(
            _frequent(self.deleted, min_count),
            _frequent(self.missing, min_count),
            {word: others for word, others in pairs.items() if others},
            self.errors,
            self.kinds,
        )

    def write(self, path: str | Path, signature: Signature) -> None:
        """Write the signature and the counts as JSON, with words sorted by decreasing count."""
        weight = {word: sum(others.values()) for word, others in self.replaced.items()}
        content = {
            "signature": str(signature),
            **signature.parameters,
            **signature.details,
            **asdict(self),
            "deleted": _sorted(self.deleted),
            "missing": _sorted(self.missing),
            "replaced": {word: _sorted(self.replaced[word]) for word in _sorted(weight)},
        }
        with atomic_lines(path) as file:
            file.write(f"{json_text(content, indent=1)}\n")

    @classmethod
    def read(cls, path: str | Path) -> LearnerErrors:
        """Read a file that `write` created. Raise DataError if counts are missing or invalid."""
        if not as_path(path).exists():
            raise DataError(
                f"{path} does not exist. Create it with: fairseq-ssl learner-errors SOURCE TARGET "
                f"-o {path}"
            )
        content = read_json(path)
        for name in _NAMES:
            if not (isinstance(content, dict) and _is_valid(name, content.get(name))):
                raise DataError(
                    f"In {path}, {name!r} is missing or invalid. Expected a file from fairseq-ssl "
                    "learner-errors. Create it again."
                )
        return cls(
            **{name: content[name] for name in _NAMES} | {"errors": tuple(content["errors"])}
        )


_NAMES = [field.name for field in fields(LearnerErrors)]


class LearnerErrorCounter:
    """Counter of learner errors in pairs of an uncorrected and a corrected line."""

    def __init__(self) -> None:
        distance = import_optional("rapidfuzz.distance", "Comparing lines", "noise")
        self._operations = distance.Levenshtein.opcodes
        self._deleted: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()
        self._replaced: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._errors = [0] * (MAX_ERRORS + 1)
        self._kinds = dict.fromkeys(ERROR_KINDS, 0)
        self.blank = self.long = 0
        """Numbers of pairs skipped because of a blank line (`blank`) or a long line (`long`)."""

    def add(self, written: str, corrected: str) -> None:
        """Align the words of a pair with the minimum edit distance, and count its errors."""
        source, target = written.split(), corrected.split()
        if not source or not target:
            self.blank += 1
        elif max(len(source), len(target)) > MAX_GRAM_TOKENS:
            self.long += 1
        else:
            number = 0 if source == target else self._compare(source, target)
            self._errors[min(number, MAX_ERRORS)] += 1

    def words(self) -> LearnerErrors:
        """Return the counts over all pairs added so far."""
        return LearnerErrors(
            dict(self._deleted),
            dict(self._missing),
            {word: dict(others) for word, others in self._replaced.items()},
            tuple(self._errors),
            dict(self._kinds),
        )

    def _compare(self, source: list[str], target: list[str]) -> int:
        """Count the errors of a pair and return their number. Each differing word is one error."""
        operations = self._operations(source, target)
        spans = groupby(operations, key=lambda part: part.tag == "equal")
        return sum(
            self._count_span(
                source[parts[0].src_start : parts[-1].src_end],
                target[parts[0].dest_start : parts[-1].dest_end],
            )
            for equal, parts in ((equal, list(parts)) for equal, parts in spans)
            if not equal
        )

    def _count_span(self, written: list[str], correct: list[str]) -> int:
        """Count the errors of a span between equal words, and return their number.

        A correct word that is another form of a written verb counts as a verb error. Another word
        pair is recorded as a replacement only if each side of the span contains a single word.
        """
        replaced = min(len(written), len(correct))
        verbs = sum(not set(written).isdisjoint(verb_forms(word)) for word in correct)
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


def count_learner_errors(pairs: Iterable[tuple[str, str]], min_count: int = 1) -> LearnerErrors:
    """Count the learner errors in pairs of uncorrected and corrected lines.

    Args:
        pairs: pairs of an uncorrected and a corrected line, with tokens separated by spaces
        min_count: min count of words and word pairs; rarer ones are removed

    >>> errors = count_learner_errors([("I like the nature", "I like nature")])
    >>> errors.deleted, errors.kinds["delete"]
    ({'the': 1}, 1)
    """
    counter = LearnerErrorCounter()
    for written, corrected in checked_pairs(pairs):
        counter.add(written, corrected)
    return counter.words().common(min_count)


@dataclass(frozen=True)
class LearnerErrorsSummary:
    """Counts that `count_learner_errors_file` wrote, with the numbers of skipped pairs."""

    signature: Signature
    errors: LearnerErrors
    """Counts, without words and word pairs that occur fewer than `min_count` times."""
    blank: int
    """Number of pairs skipped because of a blank line."""
    long: int
    """Number of pairs skipped because of a line of more than `MAX_GRAM_TOKENS` tokens."""


def count_learner_errors_file(
    source: str | Path,
    target: str | Path,
    output: str | Path,
    *,
    min_count: int = 2,
    progress: ProgressFactory = silent_progress,
) -> LearnerErrorsSummary:
    """Count the learner errors in a corrected corpus. Write the counts to a file.

    Args:
        source: file with uncorrected text, decompressed according to its suffix
        target: file with corrected text
        output: JSON file, for `LearnerErrors.read`
        min_count: min count of words and word pairs; rarer ones are removed, but still
            contribute to `errors` and `kinds`
        progress: creates the progress report, which receives the number of pairs compared
    """
    source, target, output = as_path(source), as_path(target), as_path(output)
    check_distinct([source, target], [output])
    with exclusive(output):
        counter = LearnerErrorCounter()
        report = progress("learner errors", "pairs")
        for written, corrected in counted(read_parallel([source, target]), report):
            counter.add(written, corrected)
        errors = counter.words()
        common = errors.common(min_count)
        if not common.deleted:
            raise DataError(
                f"No word of {source} is deleted at least {min_count} times in {target}, so the "
                f"noise would have no word to insert. {sum(errors.errors)} pairs were compared, "
                f"and {counter.blank + counter.long} pairs with a blank or long line were skipped. "
                "Expected the uncorrected text first, then the corrected text. Use a lower "
                "`min_count` to keep rarer words."
            )
        numbers = {"min_count": min_count, "pairs": sum(errors.errors)}
        files = {"source": str(source), "target": str(target)}
        signature = Signature("learner-errors", numbers, files)
        common.write(output, signature)
    return LearnerErrorsSummary(signature, common, counter.blank, counter.long)


def _frequent(counts: Mapping[str, int], min_count: int) -> dict[str, int]:
    return {word: count for word, count in counts.items() if count >= min_count}


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_counts(counts: Any) -> bool:
    return isinstance(counts, dict) and all(
        word.split() == [word] and "\0" not in word and _is_count(count)
        for word, count in counts.items()
    )


def _is_valid(name: str, value: Any) -> bool:
    """Return True if a parsed JSON value is valid for the field `name` of `LearnerErrors`."""
    if name == "errors":
        return isinstance(value, list) and len(value) > 0 and all(map(_is_count, value))
    if name == "replaced":
        return isinstance(value, dict) and all(
            _are_counts(others) and any(others.values()) for others in value.values()
        )
    if name == "kinds" and isinstance(value, dict) and value.keys() != set(ERROR_KINDS):
        return False
    return _are_counts(value) and (name != "deleted" or any(value.values()))
