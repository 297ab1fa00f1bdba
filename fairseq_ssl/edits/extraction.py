"""Extraction and application of edit labels (PIE, sections 2.1 and 2.2), and voting on edits.

Voting combines the corrections of several systems.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fairseq_ssl.edits.alignment import Change, align_tokens, find_merges, find_splits
from fairseq_ssl.edits.dictionary import DELETE_ID, KEEP_ID, EditDictionary
from fairseq_ssl.edits.labels import KEEP, Label, parse_label
from fairseq_ssl.edits.transforms import Transforms
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.blocks import read_parallel
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import path_list
from fairseq_ssl.signature import Signature

CONTINUATION = "##"
"""BERT's prefix for word pieces that continue a word."""


def extract(source: str, target: str, dictionary: EditDictionary | None = None) -> list[str]:
    """Return the labels that change the source into the target.

    Args:
        source: sentence with tokens separated by spaces
        target: corrected sentence
        dictionary: allowed labels; other edits are ignored (default: all, except transforms)

    Returns:
        A label for the start of the sentence, and a label for each source token.

    >>> extract("he go home", "However , he goes home")
    ['APPEND_However_,', 'KEEP', 'REPLACE_goes', 'KEEP']
    """
    tokens, new_tokens = source.split(), target.split()
    labels: list[str] | None = None
    if dictionary is not None:
        extracted = LabelExtractor(dictionary)(tokens, new_tokens)
        labels = None if extracted is None else [dictionary.names[label] for label in extracted.ids]
    elif (changes := align_tokens(tokens, new_tokens)) is not None:
        labels = [str(KEEP)] * (len(tokens) + 1)
        for change in changes:
            labels[change.position] = str(Label(change.kept, change.inserted))
    if labels is None:
        raise DataError(
            f"The source ({len(tokens)} tokens) and the target ({len(new_tokens)} tokens) are too "
            "long and too different to align. Split them into sentences."
        )
    return labels


def apply(source: str, labels: Sequence[str]) -> str:
    """Apply edit labels, such as the output of `extract`, and return the new sentence.

    Args:
        source: sentence with tokens separated by spaces
        labels: a label for the start of the sentence, and a label for each token

    >>> apply("he go home", ["APPEND_However_,", "KEEP", "SUFFIX_+es", "KEEP"])
    'However , he goes home'
    """
    return " ".join(apply_labels(source.split(), [parse_label(name) for name in labels]))


class ExtractedLabels(NamedTuple):
    """Edits between two sentences, and their labels in a dictionary."""

    ids: list[int]
    """Label ids for the sentence start and for each token."""
    changes: list[Change]
    """All edits, in order. Edits without a label in the dictionary have the id `KEEP_ID`."""

    @property
    def lost(self) -> list[Change]:
        """Edits without a label in the dictionary."""
        return [change for change in self.changes if self.ids[change.position] == KEEP_ID]


@dataclass(frozen=True)
class LabelExtractor:
    """Callable that labels sentence pairs with edit labels from a dictionary."""

    dictionary: EditDictionary

    def __call__(self, source: Sequence[str], target: Sequence[str]) -> ExtractedLabels | None:
        """Return the labels, or None if the sides are too long and too different to align.

        Edits without a label are ignored: the source token is kept, and nothing is inserted.
        """
        changes = align_tokens(source, target)
        if changes is None:
            return None
        changes = join_changes(self.dictionary.transforms, source, changes)
        ids = [KEEP_ID] * (len(source) + 1)
        for change in changes:
            ids[change.position] = self._label(source, change)
        return ExtractedLabels(ids, changes)

    def _label(self, source: Sequence[str], change: Change) -> int:
        dictionary = self.dictionary
        index = transform_index(dictionary.transforms, source, change)
        if index is not None:
            return dictionary.first_transform + index
        if not change.inserted:
            return DELETE_ID
        grams = dictionary.append_ids if change.kept else dictionary.replace_ids
        return grams.get(change.inserted, KEEP_ID)


def join_changes(
    transforms: Transforms, source: Sequence[str], changes: list[Change]
) -> list[Change]:
    """Join edits that a single merge or split transform can make. Return all resulting edits."""
    if transforms.merges:
        changes = find_merges(source, changes, transforms.merges)
    return find_splits(source, changes) if transforms.splits else changes


def transform_index(transforms: Transforms, source: Sequence[str], change: Change) -> int | None:
    """Return the index of the first transform that makes `change`, or None if there is none.

    As in the authors' code, the insertion of "##s" after "play" is the transform SUFFIX_+s.
    """
    if change.merge:
        return transforms.merges[change.merge]
    if not change.inserted or not change.position:
        return None
    word, inserted = source[change.position - 1], " ".join(change.inserted)
    if not change.kept:
        may_match = len(change.inserted) == 1 or transforms.splits
        return transforms.match(word, inserted) if may_match else None
    if len(change.inserted) == 1 and inserted.startswith(CONTINUATION):
        return transforms.match(word, word + inserted.removeprefix(CONTINUATION))
    return None


def apply_labels(source: Sequence[str], labels: Sequence[Label]) -> list[str]:
    """Return the tokens of a sentence after applying a label to its start and to each token.

    Raise DataError if the number of labels is wrong or a label cannot be applied to its token.
    """
    if len(labels) != len(source) + 1:
        raise DataError(
            f"There are {len(labels)} labels for {len(source)} tokens. Expected "
            f"{len(source) + 1}: one for the start of the sentence and one for each token."
        )
    if not labels[0].kept:
        raise DataError(
            f"{labels[0]} cannot label the start of a sentence. Expected KEEP or an APPEND label."
        )
    result = list(labels[0].gram)
    is_merged = False
    for at, (token, label) in enumerate(zip(source, labels[1:], strict=True), 1):
        if is_merged:
            is_merged = False
        elif label == KEEP:
            result.append(token)
        elif label.merge is None:
            result += label.edited(token)
        elif at == len(source) or labels[at + 1] != KEEP:
            raise DataError(
                f"{label} merges {token!r} with the next token. Expected a next token whose "
                "label is KEEP."
            )
        else:
            result += label.merge.merged(token, source[at])
            is_merged = True
    return result


def vote(source: str, corrections: Sequence[str], min_votes: int | None = None) -> str:
    """Return the source after applying the edits that at least `min_votes` corrections share.

    An edit is a change at a token, as in `extract`. If several edits of a token have enough votes,
    the one with the most votes is applied. Ties go to the edit that occurs first in `corrections`.
    A correction that is too long and too different to align has no votes.

    Args:
        source: sentence with tokens separated by spaces
        corrections: corrected sentence of each system
        min_votes: minimum number of votes, 1 or more (default: more than half of the corrections)

    >>> vote("he go to school", ["he goes to school", "he goes to the school", "He go to school"])
    'he goes to school'
    """
    if isinstance(corrections, str):
        raise TypeError("`corrections` is a string. Expected a list of sentences.")
    needed = required_votes(len(corrections), min_votes)
    tokens = source.split()
    votes: defaultdict[int, Counter[Change]] = defaultdict(Counter)
    for correction in corrections:
        for change in align_tokens(tokens, correction.split()) or ():
            votes[change.position][change] += 1
    labels = [KEEP] * (len(tokens) + 1)
    for position, counts in votes.items():
        ((change, count),) = counts.most_common(1)
        if count >= needed:
            labels[position] = Label(change.kept, change.inserted)
    return " ".join(apply_labels(tokens, labels))


def vote_files(
    source: str | Path, corrections: Iterable[str | Path], min_votes: int | None = None
) -> tuple[Iterator[str], Signature]:
    """Apply `vote` to the lines of parallel files. Return the resulting lines and their signature.

    Args:
        source: uncorrected text file, which can be compressed
        corrections: corrected text file of each system
        min_votes: minimum number of votes, 1 or more (default: more than half of the corrections)
    """
    paths = path_list(corrections)
    needed = required_votes(len(paths), min_votes)
    rows = read_parallel([source, *paths])
    counts = {"systems": len(paths), "min_votes": needed}
    files = {"source": str(as_path(source)), "corrections": list(map(str, paths))}
    lines = (vote(line, corrected, needed) for line, *corrected in rows)
    return lines, Signature("edits-vote", counts, files)


def required_votes(systems: int, min_votes: int | None = None) -> int:
    """Return `min_votes` or, if it is None, the smallest majority of the systems.

    Raise UsageError if the result is less than 1 or greater than the number of systems.
    """
    needed = systems // 2 + 1 if min_votes is None else min_votes
    if not 1 <= needed <= systems:
        raise UsageError(
            f"`min_votes` is {needed}, but there are {systems} corrections. Expected at least one "
            "correction, and `min_votes` from 1 to the number of corrections."
        )
    return needed
