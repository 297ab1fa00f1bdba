"""The edit dictionary, the label vocabulary of an edit tagger (PIE, section 2.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairseq_ssl.edits.labels import (
    DELETE,
    KEEP,
    Gram,
    Label,
    gram_name,
    parse_gram,
    parse_label,
)
from fairseq_ssl.edits.transforms import Transform, Transforms
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.specs import MAX_DIGITS, parse_integer

HEADER = "fairseq-ssl edit dictionary, form 1"
"""First line of a dictionary file. Files with another first line are rejected."""

KEEP_ID, DELETE_ID = 0, 1


@dataclass(frozen=True)
class EditDictionary:
    """Vocabulary of edit labels.

    Ids are assigned in this order: keep, delete, append each q-gram, replace by each q-gram,
    transforms.
    """

    grams: tuple[Gram, ...]
    """Q-grams in order of decreasing count."""
    counts: tuple[int, ...]
    """Count of each q-gram."""
    max_ngram: int
    """Max tokens of a q-gram."""
    transforms: Transforms

    @classmethod
    def of_counts(
        cls, counts: Mapping[Gram, int], size: int, max_ngram: int, transforms: Transforms
    ) -> EditDictionary:
        """Build a dictionary of the `size` most frequent q-grams, ties in alphabetical order."""
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        grams = tuple(gram for gram, _ in ordered[:size])
        return cls(grams, tuple(counts[gram] for gram in grams), max_ngram, transforms)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Labels by id."""
        appends, replaces = ([Label(kept, gram) for gram in self.grams] for kept in (True, False))
        transforms = [Label(False, transform=transform) for transform in self.transforms.table]
        return (KEEP, DELETE, *appends, *replaces, *transforms)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the labels by id."""
        return tuple(map(str, self.labels))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the labels by id."""
        return tuple(label.kind for label in self.labels)

    @cached_property
    def appends(self) -> dict[Gram, int]:
        """Ids of the append labels by q-gram."""
        return {gram: number for number, gram in enumerate(self.grams, 2)}

    @cached_property
    def replaces(self) -> dict[Gram, int]:
        """Ids of the replace labels by q-gram."""
        return {gram: number for number, gram in enumerate(self.grams, 2 + len(self.grams))}

    @property
    def first_transform(self) -> int:
        """Id of the first transform. Labels with lower ids apply to all tokens."""
        return 2 + 2 * len(self.grams)

    @property
    def fingerprint(self) -> str:
        """Digest of the dictionary, for signatures and checkpoints."""
        return hashlib.sha256(self.text().encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def possible_transforms(self, token: str) -> list[int]:
        """Return the ids of the transforms that can change a token."""
        first = self.first_transform
        return [first + number for number in self.transforms.possible(token)]

    def text(self) -> str:
        """Return the content of a dictionary file."""
        return "".join(f"{line}\n" for line in self._lines())

    def write(self, path: str | Path) -> None:
        """Write the dictionary to a file."""
        with atomic_lines(path) as file:
            file.write(self.text())

    def write_for_fairseq(self, path: str | Path) -> None:
        """Write the names of the labels as a dictionary for fairseq-preprocess."""
        with atomic_lines(path) as file:
            file.writelines(f"{name} 1\n" for name in self.names)

    @classmethod
    def read(cls, path: str | Path) -> EditDictionary:
        """Read a file of `write`. Raise DataError if a line is invalid."""
        return cls.parse(read_lines(path), str(path))

    @classmethod
    def parse(cls, content: Iterable[str], name: str) -> EditDictionary:
        """Parse the lines of a dictionary file. `name` is for error messages."""
        lines = iter(content)
        if next(lines, "") != HEADER:
            raise DataError(
                f"{name} is not an edit dictionary: its first line is not {HEADER!r}. Create one "
                "with: fairseq-ssl edits dictionary"
            )
        entries = _Entries()
        for number, line in enumerate(lines, 2):
            try:
                entries.add(line)
            except DataError as error:
                raise DataError(f"{name}:{number}: {error}") from None
        if entries.max_ngram is None:
            raise DataError(
                f"{name} does not set the max length of q-grams. Expected a second line such as: "
                "longest 2"
            )
        transforms = Transforms(tuple(entries.transforms), tuple(entries.transforms.values()))
        counts = tuple(entries.grams.values())
        return cls(tuple(entries.grams), counts, entries.max_ngram, transforms)

    def _lines(self) -> Iterator[str]:
        yield HEADER
        yield f"longest {self.max_ngram}"
        for gram, count in zip(self.grams, self.counts, strict=True):
            yield f"gram {gram_name(gram)} {count}"
        names = self.names[self.first_transform :]
        for name, spared in zip(names, self.transforms.spared, strict=True):
            yield " ".join(["transform", name, *sorted(gram_name((word,)) for word in spared)])


class _Entries:
    """Parser of the lines of a dictionary file after the header."""

    def __init__(self) -> None:
        self.max_ngram: int | None = None
        self.grams: dict[Gram, int] = {}
        self.transforms: dict[Transform, frozenset[str]] = {}

    def add(self, line: str) -> None:
        """Parse a line. Raise DataError if it is invalid or repeats an entry."""
        kind, *words = line.split(" ")
        if kind == "longest" and len(words) == 1 and self.max_ngram is None:
            self.max_ngram = _number(words[0], 1)
        elif kind == "gram" and len(words) == 2 and self.max_ngram is not None:
            self._add_gram(parse_gram(words[0]), _number(words[1], 0), self.max_ngram)
        elif kind == "transform" and words:
            self._add_transform(parse_label(words[0]), words[1:])
        else:
            raise DataError(
                f"{line!r} is not an entry. Expected one line such as 'longest 2', then lines "
                "such as 'gram of_the 12' and 'transform SUFFIX_+s a I'."
            )

    def _add_gram(self, gram: Gram, count: int, max_ngram: int) -> None:
        if len(gram) > max_ngram:
            raise DataError(
                f"{gram_name(gram)} has {len(gram)} tokens. Expected {max_ngram} or fewer."
            )
        if gram in self.grams:
            raise DataError(f"{gram_name(gram)} is listed twice.")
        self.grams[gram] = count

    def _add_transform(self, label: Label, spared: list[str]) -> None:
        if label.transform is None:
            raise DataError(
                f"{label} is not a transform. Expected a label such as SUFFIX_+s or CASE_lower."
            )
        if label.transform in self.transforms:
            raise DataError(f"{label} is listed twice.")
        self.transforms[label.transform] = frozenset(parse_gram(word)[0] for word in spared)


def _number(word: str, minimum: int) -> int:
    number = parse_integer(word)
    if number is None or number < minimum:
        raise DataError(
            f"{word!r} is not an integer of {minimum} or more with at most {MAX_DIGITS} digits."
        )
    return number
