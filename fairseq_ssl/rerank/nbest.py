"""N-best lists in Moses format: ``0 ||| text ||| name= score ... ||| total``.

An optional fifth field, which Moses ignores, names the lists that contain the candidate, for
example ``from= l2r r2l``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import checked_lines, read_lines
from fairseq_ssl.text.postprocessing import parse_generated_lines
from fairseq_ssl.text.specs import parse_integer
from fairseq_ssl.text.tokenization import LineRewriter

SEPARATOR = "|||"
SOURCES = "from="


@dataclass(frozen=True)
class Candidate:
    """A candidate text with its scores."""

    text: str
    scores: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    """Weighted sum of the scores, or fairseq-generate's hypothesis score (default: 0)."""
    sources: tuple[str, ...] = ()
    """Names of the lists that contain the candidate."""


@dataclass(frozen=True)
class SentenceCandidates:
    """The candidates for one sentence, in list order."""

    index: int
    candidates: list[Candidate]


@dataclass(frozen=True)
class NBest:
    """An n-best list, with one or more candidates for each sentence. Sentence indices start at 0.

    Example:
        >>> nbest = NBest.parse(["0 ||| a cat ||| s= -1 t= -4", "0 ||| cat ||| s= -2 t= -1"])
        >>> nbest.features
        ['s', 't']
        >>> [candidate.text for candidate in nbest.sentences[0].candidates]
        ['a cat', 'cat']
    """

    sentences: list[SentenceCandidates]
    name: str = "the list"
    """Name of the list in messages, such as its file."""

    @classmethod
    def parse(
        cls,
        lines: Iterable[str],
        name: str = "the list",
        score: str = "score",
        rewrite: LineRewriter = str,
        right_to_left: bool = False,
    ) -> NBest:
        """Parse the lines of a list in Moses format or of fairseq-generate output.

        Args:
            lines: lines of the list
            name: name of the list in messages
            score: name for the score in fairseq-generate output
            rewrite: function that converts the tokens in fairseq-generate output to text
            right_to_left: whether to reverse the tokens in fairseq-generate output
        """
        texts = checked_lines(lines, name)
        groups = parse_list(texts, name, score, rewrite, right_to_left)
        return cls(list(check_indices(groups, name)), name)

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> NBest:
        """Read a list from a plain or compressed file.

        `options` are keyword arguments of `parse`, except `name`.
        """
        return cls.parse(read_lines(path), str(as_path(path)), **options)

    @property
    def features(self) -> list[str]:
        """Names of the scores that every candidate has."""
        scores = [candidate.scores for group in self.sentences for candidate in group.candidates]
        names = dict.fromkeys(chain.from_iterable(scores))
        return [name for name in names if all(name in row for row in scores)]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the list in Moses format."""
        yield from format_nbest(self.sentences)


def check_indices(groups: Iterable[SentenceCandidates], name: str) -> Iterator[SentenceCandidates]:
    """Yield the sentences of a list. Raise DataError if a sentence is missing."""
    for index, group in enumerate(groups):
        if group.index != index:
            raise DataError(
                f"{name} contains sentence {group.index} where sentence {index} was expected. "
                "Sentences are numbered from 0, and each sentence needs a candidate."
            )
        yield group


def merge(lists: Mapping[str, NBest]) -> NBest:
    r"""Merge n-best lists for the same sentences, without duplicates.

    Candidates with the same text become one candidate with the scores from all lists.

    Args:
        lists: n-best lists by name

    Example:
        >>> left = NBest.parse(["0 ||| a cat ||| l2r= -1"])
        >>> right = NBest.parse(["0 ||| cat ||| r2l= -1", "0 ||| a cat ||| r2l= -2"])
        >>> print(*merge({"l2r": left, "r2l": right}).lines(), sep="\n")
        0 ||| a cat ||| l2r= -1 r2l= -2 ||| 0 ||| from= l2r r2l
        0 ||| cat ||| r2l= -1 ||| 0 ||| from= r2l
    """
    if not lists:
        raise UsageError("There are no n-best lists. Expected at least one list.")
    return NBest(list(merge_sentences({name: nbest.sentences for name, nbest in lists.items()})))


@dataclass
class MergedLines:
    """Iterable over the lines of merged n-best lists, for lists that do not fit into memory."""

    lists: Mapping[str, Iterable[SentenceCandidates]]
    """Sentences of each list, by the name of the list."""
    sentences: int = 0
    """Number of sentences iterated so far."""
    candidates: int = 0
    """Number of merged candidates iterated so far."""

    def __iter__(self) -> Iterator[str]:
        """Yield the lines in Moses format."""
        for group in merge_sentences(self.lists):
            self.sentences += 1
            self.candidates += len(group.candidates)
            yield from format_nbest([group])


def parse_nbest(lines: Iterable[str], name: str) -> Iterator[SentenceCandidates]:
    """Yield the sentences of a list in Moses format.

    Sentence indices must increase. A score with several values becomes several scores: NAME_0,
    NAME_1.

    Args:
        lines: lines of the list
        name: name of the list in messages
    """
    group: SentenceCandidates | None = None
    for number, line in enumerate(lines, 1):
        index, candidate = parse_candidate(line, f"{name}:{number}")
        if group is None or index != group.index:
            if group is not None:
                yield group
                if index < group.index:
                    raise DataError(
                        f"{name}:{number} contains sentence {index} after sentence {group.index}. "
                        "Sort the list by its first field."
                    )
            group = SentenceCandidates(index, [])
        group.candidates.append(candidate)
    if group is None:
        raise DataError(f"{name} is empty. Expected lines such as: {_EXAMPLE}")
    yield group


_EXAMPLE = "0 ||| text ||| name= -1.5 ||| -1.5"


def parse_candidate(line: str, where: str) -> tuple[int, Candidate]:
    """Parse a line in Moses format. Return the sentence index and the candidate."""
    fields = [part.strip(" ") for part in line.split(SEPARATOR)]
    index = parse_integer(fields[0])
    if not 3 <= len(fields) <= 6 or index is None:
        raise DataError(f"{where} is {line[:60]!r}. Expected 3 to 6 fields, such as: {_EXAMPLE}")
    total = _parse_number(fields[3], "the total", where) if len(fields) > 3 and fields[3] else 0.0
    last = fields[4] if len(fields) > 4 else ""
    sources = tuple(last.split()[1:]) if last.startswith(SOURCES) else ()
    return index, Candidate(fields[1], _parse_scores(fields[2], where), total, sources)


def _parse_scores(words: str, where: str) -> dict[str, float]:
    values_of: dict[str, list[float]] = {}
    name = None
    for word in words.split():
        if word.endswith("=") and len(word) > 1:
            name = word[:-1]
            if name in values_of:
                raise DataError(
                    f"{where} contains the score {name!r} twice. Names must be different."
                )
            values_of[name] = []
        elif name is None:
            raise DataError(
                f"{where} contains {word!r} before the first name. Expected scores with names, "
                "such as: name= -1.5"
            )
        else:
            values_of[name].append(_parse_number(word, f"the score {name!r}", where))
    scores: dict[str, float] = {}
    for name, values in values_of.items():
        if not values:
            raise DataError(f"{where} contains no number after {name}=. Expected at least one.")
        names = [name] if len(values) == 1 else [f"{name}_{n}" for n in range(len(values))]
        scores.update(zip(names, values, strict=True))
    return scores


def _parse_number(word: str, what: str, where: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise DataError(f"{where} contains {word!r} as {what}. Expected a number.") from None
    if not math.isfinite(value):
        raise DataError(f"{where} contains {word} as {what}. Expected a finite number.")
    return value


def format_nbest(groups: Iterable[SentenceCandidates]) -> Iterator[str]:
    """Yield the lines of a list in Moses format."""
    for group in groups:
        for candidate in group.candidates:
            yield format_candidate(group.index, candidate)


def format_candidate(index: int, candidate: Candidate) -> str:
    """Format a candidate of sentence `index` in Moses format. Raise DataError for text with |||."""
    if SEPARATOR in candidate.text:
        raise DataError(
            f"A candidate of sentence {index} contains {SEPARATOR}, the separator of n-best "
            f"lists: {candidate.text[:80]!r}. Remove it from the text."
        )
    scores = " ".join(f"{name}= {value:.12g}" for name, value in candidate.scores.items())
    line = f"{index} ||| {candidate.text} ||| {scores} ||| {candidate.total:.12g}"
    if candidate.sources:
        line += f" ||| {SOURCES} {' '.join(candidate.sources)}"
    return line


def parse_generated(
    lines: Iterable[str], name: str, score: str, rewrite: LineRewriter, right_to_left: bool = False
) -> Iterator[SentenceCandidates]:
    """Yield the sentences in fairseq-generate output, sorted by index, with all hypotheses.

    The score is fairseq-generate's hypothesis score, converted from base 2 to the natural
    logarithm. Its length normalization depends on the options of fairseq-generate.

    Args:
        lines: fairseq-generate output, of which only the lines that start with H- are read
        name: name of the file in messages
        score: name for the score
        rewrite: function that converts tokens to text
        right_to_left: whether to reverse the tokens, for models that generate from right to left
    """
    groups: dict[int, list[Candidate]] = {}
    for place, index, base_2, text in parse_generated_lines(lines, "H", name):
        tokens = text.split(" ")
        text = rewrite(" ".join(reversed(tokens) if right_to_left else tokens))
        value = math.log(2) * _parse_number(base_2, "the score", place)
        groups.setdefault(index, []).append(Candidate(text, {score: value}, value))
    if not groups:
        raise DataError(
            f"{name} is not an n-best list. Expected fairseq-generate output with H- lines, or "
            f"lines in Moses format, such as: {_EXAMPLE}"
        )
    for index in sorted(groups):
        yield SentenceCandidates(index, groups[index])


def parse_list(
    lines: Iterable[str], name: str, score: str, rewrite: LineRewriter, right_to_left: bool = False
) -> Iterator[SentenceCandidates]:
    """Yield the candidates for each sentence in an n-best list.

    The list is in Moses format, or is output of fairseq-generate (see `parse_generated`).
    """
    stream = iter(lines)
    first = next(stream, None)
    if first is None:
        raise DataError(f"{name} is empty. Expected an n-best list or fairseq-generate output.")
    every = chain([first], stream)
    if re.match(r"\d+ \|\|\|", first):
        if right_to_left:
            raise UsageError(
                f"{name} is in Moses format, but `right_to_left` needs fairseq-generate output. "
                "Remove `right_to_left`."
            )
        return parse_nbest(every, name)
    return parse_generated(every, name, score, rewrite, right_to_left)


def merge_sentences(
    lists: Mapping[str, Iterable[SentenceCandidates]],
) -> Iterator[SentenceCandidates]:
    """Yield the candidates for each sentence from all lists, without duplicates.

    Candidates with the same text become one candidate with the scores from all lists. If one list
    contains duplicates, the first of them is kept.

    Args:
        lists: n-best lists for the same sentences, by name
    """
    for groups in zip_longest(*lists.values()):
        indices = [None if group is None else group.index for group in groups]
        if len(set(indices)) > 1:
            lowest = min(index for index in indices if index is not None)
            without = next(n for n, index in zip(lists, indices, strict=True) if index != lowest)
            raise DataError(
                f"Sentence {lowest} is not in {without}. All lists must contain the same sentences."
            )
        united: dict[str, Candidate] = {}
        for name, group in zip(lists, groups, strict=True):
            own: set[str] = set()
            for candidate in group.candidates:
                if candidate.text not in own:
                    own.add(candidate.text)
                    before = united.get(candidate.text)
                    united[candidate.text] = _unite(before, candidate, name, group.index)
        yield SentenceCandidates(groups[0].index, list(united.values()))


def _unite(before: Candidate | None, new: Candidate, name: str, index: int) -> Candidate:
    sources = new.sources or (name,)
    if before is None:
        return Candidate(new.text, new.scores, new.total, sources)
    for score, value in new.scores.items():
        if not math.isclose(before.scores.get(score, value), value):
            raise DataError(
                f"In sentence {index}, the score {score!r} of the candidate {new.text[:40]!r} is "
                f"{before.scores[score]:.12g} in an earlier list and {value:.12g} in {name}. "
                "Scores of different models need different names."
            )
    added = tuple(source for source in sources if source not in before.sources)
    scores = {**before.scores, **new.scores}
    return Candidate(before.text, scores, before.total, before.sources + added)
