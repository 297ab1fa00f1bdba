"""The edit dictionary: the label vocabulary of an edit tagger (PIE, section 2.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from fairseq_ssl.edits.labels import DELETE, KEEP, Gram, Label, gram_name, parse_gram, parse_label
from fairseq_ssl.edits.transforms import (
    Transform,
    Transforms,
    WordTransform,
    escape,
    unescape,
    with_forms,
)
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.specs import MAX_DIGITS, parse_integer

HEADER = "fairseq-ssl edit dictionary, form 1"
"""First line of a dictionary file. Files with a different first line are rejected."""

KEEP_ID, DELETE_ID = 0, 1


@dataclass(frozen=True)
class EditDictionary:
    """Vocabulary of edit labels.

    Ids are assigned in this order: keep, delete, append each q-gram, replace with each q-gram,
    transforms.
    """

    appends: tuple[Gram, ...]
    """Q-grams to append after a token. `of_counts` sorts them by decreasing count."""
    replaces: tuple[Gram, ...]
    """Q-grams that replace a token. With `of_counts`, they are the same as `appends`."""
    max_ngram: int
    """Maximum number of tokens in a q-gram."""
    transforms: Transforms
    counts: tuple[int, ...] = ()
    """Count of each q-gram, in the order of `appends`. Empty if the counts are unknown."""
    greedy: bool = False
    """True to decode as in GECToR. The most probable label is chosen even if it cannot change the
    token, which is then kept. Rounds continue even if an earlier version of a sentence recurs."""

    def __repr__(self) -> str:
        """Return the class name and the number of labels."""
        return f"{type(self).__name__}({len(self.labels)} labels)"

    @classmethod
    def of_counts(
        cls, counts: Mapping[Gram, int], size: int, max_ngram: int, transforms: Transforms
    ) -> EditDictionary:
        """Build a dictionary with the `size` most frequent q-grams. Break ties alphabetically."""
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        grams = tuple(gram for gram, _ in ordered[:size])
        ordered_counts = tuple(counts[gram] for gram in grams)
        return cls(grams, grams, max_ngram, transforms, ordered_counts)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Labels by id."""
        appends = [Label(True, gram) for gram in self.appends]
        replaces = [Label(False, gram) for gram in self.replaces]
        transforms = [Label(False, transform=transform) for transform in self.transforms.table]
        return (KEEP, DELETE, *appends, *replaces, *transforms)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Label names by id."""
        return tuple(map(str, self.labels))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Label kinds by id."""
        return tuple(label.kind for label in self.labels)

    @cached_property
    def append_ids(self) -> dict[Gram, int]:
        """Ids of the append labels by q-gram."""
        return {gram: number for number, gram in enumerate(self.appends, 2)}

    @cached_property
    def replace_ids(self) -> dict[Gram, int]:
        """Ids of the replace labels by q-gram."""
        return {gram: number for number, gram in enumerate(self.replaces, 2 + len(self.appends))}

    @property
    def first_transform(self) -> int:
        """Id of the first transform. Labels with lower ids can be applied to any token."""
        return 2 + len(self.appends) + len(self.replaces)

    @property
    def fingerprint(self) -> str:
        """First 12 hex digits of the file's SHA-256 hash, for signatures and checkpoints."""
        return hashlib.sha256(self.text().encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def text(self) -> str:
        """Return the dictionary as text, in the format that `parse` reads."""
        return "".join(f"{line}\n" for line in self._lines())

    def write(self, path: str | Path) -> None:
        """Write the dictionary to a file, which `read` can load."""
        with atomic_lines(path) as file:
            file.write(self.text())

    def write_for_fairseq(self, path: str | Path) -> None:
        """Write the label names as a dictionary for fairseq-preprocess."""
        with atomic_lines(path) as file:
            file.writelines(f"{name} 1\n" for name in self.names)

    @classmethod
    def read(cls, path: str | Path) -> EditDictionary:
        """Read a file written by `write`. Raise DataError if a line is invalid."""
        return cls.parse(read_lines(path), str(path))

    @classmethod
    def parse(cls, content: Iterable[str], name: str) -> EditDictionary:
        """Parse the lines of a dictionary file. `name` is the file name for error messages."""
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
                f"{name} does not set the maximum length of q-grams. Expected a second line such "
                "as: longest 2"
            )
        appends, replaces = (tuple(table) for table in entries.tables.values())
        is_counted = tuple(entries.counts) == appends == replaces
        transforms = entries.transforms.values()
        return cls(
            appends,
            replaces,
            entries.max_ngram,
            Transforms(*(tuple(part) for part in zip(*transforms, strict=True))),
            tuple(entries.counts.values()) if is_counted else (),
            entries.greedy,
        )

    def _lines(self) -> Iterator[str]:
        yield HEADER
        yield f"longest {self.max_ngram}"
        if self.greedy:
            yield "greedy"
        if self.counts:
            for gram, count in zip(self.appends, self.counts, strict=True):
                yield f"gram {gram_name(gram)} {count}"
        else:
            yield from (f"append {gram_name(gram)}" for gram in self.appends)
            yield from (f"replace {gram_name(gram)}" for gram in self.replaces)
        names = self.names[self.first_transform :]
        for name, transform, spared in zip(
            names, self.transforms.table, self.transforms.spared, strict=True
        ):
            yield " ".join(["transform", name, *sorted(gram_name((word,)) for word in spared)])
            if isinstance(transform, WordTransform) and transform.forms is not None:
                pairs = chain.from_iterable(sorted(transform.forms.items()))
                yield " ".join(["forms", name, *(escape(word, r"[%\s]") for word in pairs)])


class _Entries:
    """Entries that have been parsed from a dictionary file."""

    def __init__(self) -> None:
        self.max_ngram: int | None = None
        self.greedy = False
        self.counts: dict[Gram, int] = {}
        self.tables: dict[str, dict[Gram, None]] = {"append": {}, "replace": {}}
        self.transforms: dict[str, tuple[Transform, frozenset[str]]] = {}

    def add(self, line: str) -> None:
        """Add the entry in a line. Raise DataError if the line is invalid."""
        kind, *words = line.split(" ")
        if kind == "longest" and len(words) == 1 and self.max_ngram is None:
            self.max_ngram = _number(words[0], 1)
        elif kind == "greedy" and not words:
            self.greedy = True
        elif kind == "gram" and len(words) == 2 and self.max_ngram is not None:
            gram = parse_gram(words[0])
            self.counts[gram] = _number(words[1], 0)
            self.tables["append"][gram] = self.tables["replace"][gram] = None
        elif kind in self.tables and len(words) == 1 and self.max_ngram is not None:
            self.tables[kind][parse_gram(words[0])] = None
        elif kind == "transform" and words and (transform := parse_label(words[0]).transform):
            spared = frozenset(parse_gram(word)[0] for word in words[1:])
            self.transforms[words[0]] = transform, spared
        elif kind == "forms" and words and words[0] in self.transforms:
            transform, spared = self.transforms[words[0]]
            self.transforms[words[0]] = with_forms(transform, _pairs(words[1:])), spared
        else:
            raise DataError(
                f"{line!r} is not an entry of an edit dictionary. Expected one line such as "
                "'longest 2', then lines such as 'gram of_the 12' and 'transform SUFFIX_+s a I'."
            )


def _pairs(words: list[str]) -> dict[str, str]:
    """Return the form of each word. In `words`, each word is followed by its form."""
    plain = [unescape(word) if "%" in word else word for word in words]
    if len(plain) % 2 or not all(plain):
        raise DataError(
            f"{' '.join(words)[:60]!r} contains a word without a form, an empty word or an "
            "invalid escape such as %FF. Expected words, each followed by its form."
        )
    return dict(zip(plain[::2], plain[1::2], strict=True))


def _number(word: str, minimum: int) -> int:
    number = parse_integer(word)
    if number is None or number < minimum:
        raise DataError(
            f"{word!r} is not an integer of {minimum} or more with at most {MAX_DIGITS} digits."
        )
    return number
