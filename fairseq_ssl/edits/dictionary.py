"""The edits that a model can choose from: the dictionary of PIE, section 2.2, as a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairseq_ssl.edits.labels import DELETE, KEEP, Gram, Label, gram_name, parse_gram, parse_label
from fairseq_ssl.edits.transforms import Transform, Transforms
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.atomic import atomic_lines
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.specs import MAX_DIGITS, parse_integer

HEADER = "fairseq-ssl edit dictionary, form 1"
"""A file's first line. A reader refuses forms that it does not know."""


KEEP_ID, DELETE_ID = 0, 1


@dataclass(frozen=True)
class EditDictionary:
    """Keep, delete, append any of some q-grams, replace by any of them, and transforms.

    A label's id is its number in this order, and the same for ever in one dictionary.
    """

    grams: tuple[Gram, ...]
    """The most frequent first."""
    counts: tuple[int, ...]
    """How often each was put in."""
    longest: int
    """Tokens put in together at most; longer q-grams were not counted."""
    transforms: Transforms

    @classmethod
    def of_counts(
        cls, counts: Mapping[Gram, int], size: int, longest: int, transforms: Transforms
    ) -> EditDictionary:
        """Take the most frequent q-grams; of equally frequent ones the first by the alphabet."""
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        grams = tuple(gram for gram, _ in ordered[:size])
        return cls(grams, tuple(counts[gram] for gram in grams), longest, transforms)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """All of them, by id."""
        appends, replaces = ([Label(kept, gram) for gram in self.grams] for kept in (True, False))
        transforms = [Label(False, transform=one) for one in self.transforms.table]
        return (KEEP, DELETE, *appends, *replaces, *transforms)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all labels, by id."""
        return tuple(map(str, self.labels))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of all labels, by id."""
        return tuple(label.kind for label in self.labels)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each name."""
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def appends(self) -> dict[Gram, int]:
        """The id of the label that appends a q-gram."""
        return {gram: number for number, gram in enumerate(self.grams, 2)}

    @cached_property
    def replaces(self) -> dict[Gram, int]:
        """The id of the label that replaces a token by a q-gram."""
        return {gram: number for number, gram in enumerate(self.grams, 2 + len(self.grams))}

    @property
    def first_transform(self) -> int:
        """The id of the first transform; those from there on need a token that they fit."""
        return 2 + 2 * len(self.grams)

    @property
    def fingerprint(self) -> str:
        """A few letters that stand for all of it, for signatures and checkpoints."""
        return hashlib.sha256(self.text().encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def possible_transforms(self, token: str) -> list[int]:
        """Return the ids of the transforms that a token can get."""
        first = self.first_transform
        return [first + number for number in self.transforms.possible(token)]

    def is_possible(self, label: int, token: str | None) -> bool:
        """Tell whether a token can get a label; None is the start, which can only be kept."""
        if token is None:
            return self.labels[label].kept
        return label < self.first_transform or label in self.possible_transforms(token)

    def text(self) -> str:
        """Return it as lines to read and to change."""
        return "".join(f"{line}\n" for line in self._lines())

    def write(self, path: Path) -> None:
        """Write its lines."""
        with atomic_lines(path) as file:
            file.write(self.text())

    def write_for_fairseq(self, path: Path) -> None:
        """Write the labels' names as a dictionary for fairseq-preprocess --srcdict."""
        with atomic_lines(path) as file:
            file.writelines(f"{name} 1\n" for name in self.names)

    @classmethod
    def read(cls, path: Path) -> EditDictionary:
        """Read what `write` wrote, or what was changed by hand."""
        lines = read_lines(path)
        if next(lines, "") != HEADER:
            raise DataError(
                f"{path} is no edit dictionary: its first line is not {HEADER!r}. Make one with: "
                "fairseq-ssl edits dictionary"
            )
        entries = _Entries()
        for number, line in enumerate(lines, 2):
            try:
                entries.add(line)
            except DataError as error:
                raise DataError(f"{path}:{number}: {error}") from None
        if entries.longest is None:
            raise DataError(f"{path} has no line such as: longest 2")
        transforms = Transforms(tuple(entries.transforms), tuple(entries.transforms.values()))
        counts = tuple(entries.grams.values())
        return cls(tuple(entries.grams), counts, entries.longest, transforms)

    def _lines(self) -> Iterator[str]:
        yield HEADER
        yield f"longest {self.longest}"
        for gram, count in zip(self.grams, self.counts, strict=True):
            yield f"gram {gram_name(gram)} {count}"
        names = self.names[self.first_transform :]
        for name, spared in zip(names, self.transforms.spared, strict=True):
            yield " ".join(["transform", name, *sorted(gram_name((word,)) for word in spared)])


class _Entries:
    """The lines of a file, after the first."""

    def __init__(self) -> None:
        self.longest: int | None = None
        self.grams: dict[Gram, int] = {}
        self.transforms: dict[Transform, frozenset[str]] = {}

    def add(self, line: str) -> None:
        """Take a line in; raise DataError if it is wrong."""
        kind, *words = line.split(" ")
        if kind == "longest" and len(words) == 1 and self.longest is None:
            self.longest = _number(words[0], 1)
        elif kind == "gram" and len(words) == 2 and self.longest is not None:
            self._add_gram(parse_gram(words[0]), _number(words[1], 0), self.longest)
        elif kind == "transform" and words:
            self._add_transform(parse_label(words[0]), words[1:])
        else:
            raise DataError(
                f"{line!r} is not understood; expected first a line such as: longest 2, then such "
                "as: gram of_the 12, and: transform SUFFIX_+s a I"
            )

    def _add_gram(self, gram: Gram, count: int, longest: int) -> None:
        if len(gram) > longest:
            raise DataError(f"{gram_name(gram)} has {len(gram)} tokens, more than {longest}.")
        if gram in self.grams:
            raise DataError(f"{gram_name(gram)} is there twice.")
        self.grams[gram] = count

    def _add_transform(self, label: Label, spared: list[str]) -> None:
        if label.transform is None:
            raise DataError(f"{label} is no transform; expected as in SUFFIX_+s or CASE_lower.")
        if label.transform in self.transforms:
            raise DataError(f"{label} is there twice.")
        self.transforms[label.transform] = frozenset(parse_gram(word)[0] for word in spared)


def _number(word: str, least: int) -> int:
    number = parse_integer(word)
    if number is None or number < least:
        raise DataError(f"{word!r} is no number, {least} or more, of at most {MAX_DIGITS} digits.")
    return number
