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
    greedy: bool = False

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
        max_ngram: int | None = None
        grams: dict[Gram, int] = {}
        transforms: dict[Transform, frozenset[str]] = {}
        for number, line in enumerate(lines, 2):
            kind, *words = line.split(" ")
            try:
                if kind == "longest" and len(words) == 1 and max_ngram is None:
                    max_ngram = _number(words[0], 1)
                elif kind == "gram" and len(words) == 2 and max_ngram is not None:
                    grams[parse_gram(words[0])] = _number(words[1], 0)
                elif (
                    kind == "transform" and words and (transform := parse_label(words[0]).transform)
                ):
                    transforms[transform] = frozenset(parse_gram(word)[0] for word in words[1:])
                else:
                    raise DataError(
                        f"{line!r} is not an entry. Expected one line such as 'longest 2', then "
                        "lines such as 'gram of_the 12' and 'transform SUFFIX_+s a I'."
                    )
            except DataError as error:
                raise DataError(f"{name}:{number}: {error}") from None
        if max_ngram is None:
            raise DataError(
                f"{name} does not set the max length of q-grams. Expected a second line such as: "
                "longest 2"
            )
        table = Transforms(tuple(transforms), tuple(transforms.values()))
        return cls(tuple(grams), tuple(grams.values()), max_ngram, table)

    def _lines(self) -> Iterator[str]:
        yield HEADER
        yield f"longest {self.max_ngram}"
        for gram, count in zip(self.grams, self.counts, strict=True):
            yield f"gram {gram_name(gram)} {count}"
        names = self.names[self.first_transform :]
        for name, spared in zip(names, self.transforms.spared, strict=True):
            yield " ".join(["transform", name, *sorted(gram_name((word,)) for word in spared)])


def _number(word: str, minimum: int) -> int:
    number = parse_integer(word)
    if number is None or number < minimum:
        raise DataError(
            f"{word!r} is not an integer of {minimum} or more with at most {MAX_DIGITS} digits."
        )
    return number
