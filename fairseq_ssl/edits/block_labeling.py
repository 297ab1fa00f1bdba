"""Processing of blocks of pairs: counting q-grams and labeling pairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fairseq_ssl.edits.alignment import align_tokens
from fairseq_ssl.edits.coverage import Coverage
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import (
    LabelExtractor,
    join_changes,
    transform_index,
)
from fairseq_ssl.edits.labels import Gram
from fairseq_ssl.edits.transforms import Transforms
from fairseq_ssl.io.blocks import RowBlock


@dataclass
class GramCounts:
    """Counts of inserted q-grams. Add the counts of parts of a corpus with `update`."""

    grams: Counter[Gram] = field(default_factory=Counter)
    pairs: int = 0
    too_long: int = 0
    """Number of insertions of more than `max_ngram` tokens, which are not in `grams`."""
    incomparable: int = 0
    """Number of pairs that are too long and too different to align."""
    changed: int = 0
    """Number of aligned pairs whose sides differ."""
    share: float = 0.0
    """Share of the input that is read after the last block, 0 to 1."""

    def add(
        self, source: str, target: str, max_ngram: int, transforms: Transforms | None = None
    ) -> None:
        """Count the q-grams that the target inserts after a source token or instead of it.

        Edits that `transforms` can make are not counted.
        """
        self.pairs += 1
        tokens = source.split()
        changes = align_tokens(tokens, target.split())
        if changes is None:
            self.incomparable += 1
            return
        self.changed += bool(changes)
        if transforms is not None:
            changes = join_changes(transforms, tokens, changes)
            changes = [one for one in changes if transform_index(transforms, tokens, one) is None]
        for change in changes:
            if len(change.inserted) > max_ngram:
                self.too_long += 1
            elif change.inserted:
                self.grams[change.inserted] += 1

    def update(self, other: GramCounts) -> None:
        """Add the counts of another part of the corpus."""
        self.grams.update(other.grams)
        self.pairs += other.pairs
        self.too_long += other.too_long
        self.incomparable += other.incomparable
        self.changed += other.changed


@dataclass(frozen=True)
class GramCounter:
    """Picklable function that counts the q-grams inserted in a block of pairs."""

    max_ngram: int
    transforms: Transforms | None
    """Transforms whose edits are not counted."""

    def __call__(self, block: RowBlock) -> GramCounts:
        """Return the counts of the block."""
        counts = GramCounts(share=block.share)
        for source, target in block.pairs():
            counts.add(source, target, self.max_ngram, self.transforms)
        return counts


@dataclass(frozen=True)
class LabeledBlock:
    """Labels and counts of a block."""

    pairs: int
    share: float
    """Share of the input that is read after this block, 0 to 1."""
    lines: str
    """Text with one line per pair."""
    dropped: int
    """Number of pairs without labels."""
    coverage: Coverage


@dataclass(frozen=True)
class BlockLabeler:
    """Picklable function that labels the pairs of a block.

    Lines of pairs that are too long and too different to align are empty.
    """

    dictionary: EditDictionary

    def __call__(self, block: RowBlock) -> LabeledBlock:
        """Return the labels and the coverage of a block of source and target lines."""
        extractor, coverage, dropped, lines = LabelExtractor(self.dictionary), Coverage(), 0, []
        names = self.dictionary.names.__getitem__
        for source, target in block.pairs():
            found = extractor(source.split(), target.split())
            coverage.add(self.dictionary, found)
            if found is None:
                dropped += 1
                lines.append("\n")
            else:
                lines.append(" ".join(map(names, found.ids)) + "\n")
        return LabeledBlock(len(lines), block.share, "".join(lines), dropped, coverage)
