"""Alignment of two sentences with minimum edit distance.

Insertions and deletions cost 1. Substitutions cost 1 plus 0.001 times the difference of the word
lengths in characters (PIE, appendix A.1). Costs are added from the start of the sentences, as in
the authors' code. A different order would change the rounding, and thereby the alignment of 12
pairs in the JFLEG dev set (3,016 pairs).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from fairseq_ssl.text.raw_text import TokenEdit

MAX_COST = float("inf")
"""Cost of cells outside the band."""
NO_TOKENS = " "
"""Padding token, which differs from all tokens because tokens do not contain spaces."""
MAX_CELLS = 4_000_000
"""Maximum cost table size in cells. A table of this size takes about one second and 150 MB."""


class Change(NamedTuple):
    """An edit at a source token or at the start of the sentence."""

    position: int
    """Position of the token, starting at 1. Position 0 is the start of the sentence."""
    kept: bool
    """True if the source token is kept."""
    inserted: tuple[str, ...]
    """Target tokens that follow the kept token, or that replace the token."""
    merge: str | None = None
    """Name in `MERGES` if `inserted` replaces both the token and the next token, otherwise None."""


def align_tokens(source: Sequence[str], target: Sequence[str]) -> list[Change] | None:
    """Return the edits from `source` to `target`, or None if the table exceeds `MAX_CELLS`.

    Insertions at the same position are joined into one edit, together with a substitution or
    deletion of the token before them (PIE, figure 1). Ties are broken as in the authors' code: from
    the end backward, a copy or a substitution is preferred to an insertion, and an insertion to a
    deletion. Of two equal adjacent tokens, the first one is therefore inserted or deleted.
    """
    if source == target:
        return []
    first, i, j = _trim_common(source, target)
    table = None
    if i > first and j > first:
        table = _cost_table(source[first:i], target[first:j])
        if table is None:
            return None
    return _trace_back(source, target, i, j, first, table)


def token_edits(source: Sequence[str], target: Sequence[str]) -> list[TokenEdit]:
    """Return the token edits that change `source` to `target`.

    Adjacent edits are joined. If the sentences are too long to align, one edit replaces all tokens.
    """
    changes = align_tokens(source, target)
    if changes is None:
        return [TokenEdit(0, len(source), tuple(target))]
    edits: list[TokenEdit] = []
    for change in changes:
        start = change.position if change.kept else change.position - 1
        edit = TokenEdit(start, change.position, change.inserted)
        if edits and edits[-1].end == start:
            edit = TokenEdit(edits[-1].start, edit.end, edits[-1].tokens + edit.tokens)
            edits.pop()
        edits.append(edit)
    return edits


def find_merges(
    source: Sequence[str], changes: Sequence[Change], kinds: Collection[str]
) -> list[Change]:
    """Join each pair of neighboring edits that is equivalent to a merge in `kinds`."""
    result: list[Change] = []
    for change in changes:
        merged = _merge(source, result[-1], change) if result else None
        if merged is None or merged.merge not in kinds:
            result.append(change)
        else:
            result[-1] = merged
    return result


def _merge(source: Sequence[str], left: Change, right: Change) -> Change | None:
    """Return the merge that is equivalent to two edits, or None if there is none."""
    apart = right.position - left.position
    at = left.position if apart == 1 else right.position - 1
    if apart not in (1, 2):
        return None
    first, second = source[at - 1], source[at]
    pair = (left.kept, left.inserted, right.kept, right.inserted)
    if apart == 2:  # the second token moves to the left
        is_swap = pair == (True, (second,), False, ())
    else:
        for kind, merged in (("space", (first + second,)), ("hyphen", (f"{first}-{second}",))):
            if pair in ((False, merged, False, ()), (False, (), False, merged)):
                return Change(at, False, merged, kind)
        is_swap = pair in ((False, (), True, (first,)), (False, (second,), False, (first,)))
    return Change(at, False, (second, first), "swap") if is_swap else None


def find_splits(source: Sequence[str], changes: Sequence[Change]) -> list[Change]:
    """If two edits together split a token at its hyphens, join them into one edit at this token.

    For example, the alignment replaces "so-called" with "called" and inserts "so" after the
    previous token.
    """
    result = list(changes)
    for at in range(len(result) - 1, 0, -1):  # right to left: the right split gets its parts first
        left, change = result[at - 1 : at + 1]
        if change.kept or left.position != change.position - 1:
            continue
        parts = tuple(source[change.position - 1].split("-"))
        lead = len(parts) - len(change.inserted)
        if all(parts) and lead > 0 and left.inserted[-lead:] + change.inserted == parts:
            result[at - 1] = left._replace(inserted=left.inserted[:-lead])
            result[at] = change._replace(inserted=parts)
    return [change for change in result if change.inserted or not change.kept]


def _trim_common(source: Sequence[str], target: Sequence[str]) -> tuple[int, int, int]:
    """Return the length of the common prefix, and the start of the common suffix on each side.

    The cost table covers only the tokens between them. All tokens of the suffix are kept. If there
    are ties, an insertion or a deletion can move to the left, into the prefix.
    """
    last = first = 0
    for word, new_word in zip(reversed(source), reversed(target)):  # noqa: B905 - strict costs
        if word != new_word:
            break
        last += 1
    i, j = len(source) - last, len(target) - last
    for word, new_word in zip(source[:i], target[:j]):  # noqa: B905
        if word != new_word:
            break
        first += 1
    return first, i, j


def _trace_back(
    source: Sequence[str],
    target: Sequence[str],
    i: int,
    j: int,
    first: int,
    table: _CostTable | None,
) -> list[Change]:
    """Return the edits of the cheapest alignment up to source position i and target position j.

    The alignment is traced backward. Once one side has reached the common prefix, tokens that
    differ are inserted or deleted without the table.
    """
    changes = []
    end = j  # end of the insertion after the next source token
    while i != j or i > first:
        if i and j and source[i - 1] == target[j - 1]:
            if end > j:
                changes.append(Change(i, True, tuple(target[j:end])))
            i, j = i - 1, j - 1
            end = j
            continue
        if table is not None and i > first and j > first:
            deleted, inserted = table.step(i - first, j - first)
        else:
            deleted, inserted = i > j, j > i
        j -= inserted
        if deleted:
            changes.append(Change(i, False, tuple(target[j:end])))
            i, end = i - 1, j
    if end > j:
        changes.append(Change(i, True, tuple(target[j:end])))
    changes.reverse()
    return changes


class _CostTable(NamedTuple):
    """Banded table with the cost from the start to each cell (i, j) (Ukkonen, 1985).

    Row i contains the columns j = i + low, i + low + 1, ..., and MAX_COST as its last entry.
    """

    source: Sequence[str]
    target: Sequence[str]
    low: int
    rows: list[list[float]]

    def step(self, i: int, j: int) -> tuple[bool, bool]:
        """Return (is_deletion, is_insertion) for the last step to a cell with unequal tokens."""
        row, at = self.rows[i], j - i - self.low
        difference = abs(len(self.source[i - 1]) - len(self.target[j - 1]))
        if self.rows[i - 1][at] + (1 + difference / 1000) == row[at]:
            return True, True
        if row[at - 1] + 1 == row[at]:  # index -1 is the last entry, MAX_COST
            return False, True
        return True, False


def _cost_table(source: Sequence[str], target: Sequence[str]) -> _CostTable | None:
    """Return a cost table with a band that is wide enough for all cheapest alignments.

    An alignment that leaves a band with `margin` extra diagonals on each side needs at least
    `margin` + 1 additional insertions and as many additional deletions. The band grows until such
    an alignment is more expensive. Return None if the band exceeds `MAX_CELLS`.
    """
    apart = abs(len(source) - len(target))
    margin, widest = 1, min(len(source), len(target))
    while True:
        width = apart + 2 * margin + 1
        if len(source) * width > MAX_CELLS:
            return None
        low = min(0, len(target) - len(source)) - margin
        rows = _band(source, target, low, width)
        cost = round(rows[-1][len(target) - len(source) - low], 3)
        if cost < width + 1:
            return _CostTable(source, target, low, rows)
        enough = int(cost - apart) // 2
        margin = min(enough, 2 * margin + 2, widest)


def _band(source: Sequence[str], target: Sequence[str], low: int, width: int) -> list[list[float]]:
    """Return the rows of a cost table, limited to a band of `width` columns."""
    columns = [
        *[NO_TOKENS] * -low,
        *target,
        *[NO_TOKENS] * (len(source) + width + low - len(target)),
    ]
    row = [float(abs(j)) for j in range(low, low + width)]
    row.append(MAX_COST)
    rows = [row]
    for i, token in enumerate(source):
        above, row, best = row, [], MAX_COST
        for column, across, up in zip(columns[i : i + width], above, above[1:]):  # noqa: B905
            if token == column:
                best = across
            else:
                if up < best:
                    best = up
                if across < best:
                    across += 1 + abs(len(token) - len(column)) / 1000
                    best += 1.0
                    if across < best:
                        best = across
                else:
                    best += 1.0
            row.append(best)
        row.append(MAX_COST)
        rows.append(row)
    return rows
