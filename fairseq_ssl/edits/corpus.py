"""What is done with the edits of a corpus, one block of lines after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from fairseq_ssl.edits.alignment import align_tokens
from fairseq_ssl.edits.coverage import Coverage
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import Extracted, Extraction, apply_labels
from fairseq_ssl.edits.labels import Gram, Label, parse_label
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import PairBlock

Drop: TypeAlias = Literal["never", "long", "lost"]
"""Which pairs get no labels: none; those that put in too many tokens at once, as in the code of
PIE's authors; or all whose target labels can not give back."""


@dataclass(frozen=True)
class CountedGrams:
    """What is put in, in a block, and how often."""

    pairs: int
    share: float
    grams: Counter[Gram]
    long: int
    """How often too many tokens are put in at once; these are not among `grams`."""
    incomparable: int
    changed: int
    """Pairs whose sides differ, as far as they were compared."""


@dataclass(frozen=True)
class GramCount:
    """Counts the q-grams that targets put in, after a token or in its place."""

    longest: int

    def __call__(self, block: PairBlock) -> CountedGrams:
        """Count those of a block."""
        grams: Counter[Gram] = Counter()
        pairs = long = incomparable = changed = 0
        for source, target in block.pairs():
            pairs += 1
            found = align_tokens(source.split(), target.split())
            if found is None:
                incomparable += 1
                continue
            changed += bool(found)
            for change in found:
                if len(change.inserted) > self.longest:
                    long += 1
                elif change.inserted:
                    grams[change.inserted] += 1
        return CountedGrams(pairs, block.share, grams, long, incomparable, changed)


@dataclass(frozen=True)
class Rewritten:
    """What a block's lines became."""

    pairs: int
    share: float
    lines: str
    without_labels: int = 0
    """Pairs that were dropped, or lines that stayed as they are."""
    coverage: Coverage = field(default_factory=Coverage)


@dataclass(frozen=True)
class Labeling:
    """Writes the names of a pair's labels as a line, and an empty one for a pair dropped."""

    dictionary: EditDictionary
    drop: Drop = "never"

    def __call__(self, block: PairBlock) -> Rewritten:
        """Label the pairs of a block."""
        coverage, dropped, lines = Coverage(), 0, []
        names = self.dictionary.names.__getitem__
        for found in extracted(block, self.dictionary):
            coverage.add(self.dictionary, found)
            if found is None or self._is_dropped(found):
                dropped += 1
                lines.append("\n")
            else:
                lines.append(" ".join(map(names, found.ids)) + "\n")
        return Rewritten(len(lines), block.share, "".join(lines), dropped, coverage)

    def _is_dropped(self, found: Extracted) -> bool:
        if self.drop == "never" or not found.changes:
            return False
        if self.drop == "lost":
            return bool(found.lost)
        longest = self.dictionary.longest
        return any(len(change.inserted) > longest for change in found.changes)


@dataclass(frozen=True)
class Measuring:
    """Counts which edits have a label."""

    dictionary: EditDictionary

    def __call__(self, block: PairBlock) -> Rewritten:
        """Count those of a block."""
        coverage = Coverage()
        for found in extracted(block, self.dictionary):
            coverage.add(self.dictionary, found)
        return Rewritten(coverage.pairs, block.share, "", coverage=coverage)


@dataclass(frozen=True)
class Applying:
    """Carries out labels by their names; a line without labels leaves its source as it is."""

    dictionary: EditDictionary | None
    """Labels that are not there are refused."""

    def __call__(self, block: PairBlock) -> Rewritten:
        """Edit the source lines of a block."""
        lines, alone = [], 0
        for number, (source, names) in enumerate(block.pairs()):
            tokens = source.split()
            if names and not names.isspace():
                try:
                    tokens = apply_labels(tokens, [self._label(name) for name in names.split()])
                except DataError as error:
                    raise DataError(f"{block.place(1, number)}: {error}") from None
            else:
                alone += 1
            lines.append(" ".join(tokens) + "\n")
        return Rewritten(len(lines), block.share, "".join(lines), alone)

    def _label(self, name: str) -> Label:
        label = _parsed(name)
        if self.dictionary is not None and name not in self.dictionary.ids:
            raise DataError(f"{name} is not in the dictionary.")
        return label


_parsed = lru_cache(maxsize=100_000)(parse_label)


def extracted(block: PairBlock, dictionary: EditDictionary) -> Iterator[Extracted | None]:
    """Yield the labels of each pair of a block."""
    extraction = Extraction(dictionary)
    for source, target in block.pairs():
        yield extraction(source.split(), target.split())
