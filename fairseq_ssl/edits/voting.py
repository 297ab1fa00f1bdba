"""Combination of the corrections of several systems by votes on their edits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fairseq_ssl.edits.alignment import Change, align_tokens
from fairseq_ssl.edits.extraction import apply_labels
from fairseq_ssl.edits.labels import KEEP, Label
from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.text_files import read_parallel
from fairseq_ssl.signature import Signature


def vote(source: str, corrections: Sequence[str], min_votes: int | None = None) -> str:
    """Return a sentence with the edits that at least `min_votes` corrections have in common.

    An edit is a change at a token, as in `extract`. If several edits of a token have enough votes,
    the one with the most votes is applied, and of equal ones that of the first correction. A
    correction that is too long and too different to align has no votes.

    Args:
        source: sentence, tokens separated by spaces
        corrections: the corrected sentence by each system
        min_votes: min number of votes, 1 or more (default: more than half of the corrections)

    >>> vote("he go to school", ["he goes to school", "he goes to the school", "He go to school"])
    'he goes to school'
    """
    needed = required_votes(len(corrections), min_votes)
    tokens = source.split()
    votes: defaultdict[int, Counter[Change]] = defaultdict(Counter)
    for correction in corrections:
        for change in align_tokens(tokens, correction.split()) or ():
            votes[change.position][change] += 1
    labels = [KEEP] * (len(tokens) + 1)
    for position, found in votes.items():
        ((change, count),) = found.most_common(1)
        if count >= needed:
            labels[position] = Label(change.kept, change.inserted)
    return " ".join(apply_labels(tokens, labels))


def vote_files(
    source: Path, corrections: Iterable[Path], min_votes: int | None = None
) -> tuple[Iterator[str], Signature]:
    """Return the results of `vote` for the lines of parallel files, and their signature.

    Args:
        source: text file, gzip if the name ends with ``.gz``
        corrections: corrected text file of each system
        min_votes: min number of votes, 1 or more (default: more than half of the corrections)
    """
    paths = list(corrections)
    needed = required_votes(len(paths), min_votes)
    rows = read_parallel([source, *paths])
    counts = {"systems": len(paths), "min_votes": needed}
    files = {"source": str(source), "corrections": list(map(str, paths))}
    lines = (vote(line, corrected, needed) for line, *corrected in rows)
    return lines, Signature("edits-vote", {**counts, **files})


def required_votes(systems: int, min_votes: int | None = None) -> int:
    """Return `min_votes`, or by default more than half of the number of systems.

    Raise UsageError if there are no systems, or more votes than systems.
    """
    needed = systems // 2 + 1 if min_votes is None else min_votes
    if not 1 <= needed <= systems:
        raise UsageError(
            f"`min_votes` is {needed} for {systems} corrections. Expected 1 to the number of "
            "corrections."
        )
    return needed
