"""A pseudo future that begins after the source prefix aligned to the target prefix.

In PBD, target position t attends to the source positions after t. After an inserted or deleted
token, source position t no longer corresponds to target position t. `PrefixAlignment` finds the
corresponding source position with the edit distance. This is not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.modules.attention import Attention, EncodedSource, KeysValues

TIES = 1 << 20
"""Weight of edit distances, which is larger than tie-breaking terms (at most 4 * length + 1)."""


class PrefixAlignment:
    """Batched alignment of target prefixes to source prefixes with the edit distance.

    The first t target tokens have consumed the first j source tokens, where j minimizes the
    Levenshtein distance D(t, j). Among several minima, j is the one closest to t, then the lowest.

    The table contains the score t + j - D(t, j), which adds 2 for each pair of equal tokens and 1
    for each substitution. Scores never decrease within a row, so a cumulative maximum replaces the
    loop over j.
    """

    def __init__(self, source: Tensor, real: Tensor) -> None:
        """Align an empty target prefix to each source.

        Args:
            source: [rows, time], ids, padded on either side.
            real: [rows, time], True at positions that are not padding.
        """
        self.source = source.masked_fill(~real, -1)
        self.real = real.long()
        self.lengths = functional.pad(real.cumsum(1), (1, 0))
        self.row = torch.zeros_like(self.lengths)
        self.written = -1

    def extend(self, tokens: Tensor) -> Tensor:
        """Append `tokens` [rows, 1] to the prefixes. Return the consumed source lengths [rows, 1].

        The first call is for the start symbol, which is not part of the prefix.
        """
        self.written += 1
        if self.written:
            self._add_row(self.real + (tokens == self.source))
        return self._consumed(self.row, self.lengths, self.written)[:, None]

    def extend_all(self, tokens: Tensor, real: Tensor) -> Tensor:
        """Return the consumed source lengths [rows, time] for all positions of the decoder input.

        Args:
            tokens: [rows, time], start symbol and prefix, padded on either side.
            real: [rows, time], True at positions that are not padding.
        """
        written = real.cumsum(1) - 1
        is_pair = (real & (written > 0))[:, :, None] & self.real.bool()[:, None, :]
        is_equal = tokens[:, :, None] == self.source[:, None, :]
        table = []
        for scores in (is_pair.int() + (is_pair & is_equal)).unbind(1):
            self._add_row(scores)
            table.append(self.row)
        return self._consumed(torch.stack(table, 1), self.lengths[:, None], written[:, :, None])

    def _add_row(self, scores: Tensor) -> None:
        """Set `row` to the next table row, given the next token's `scores` [rows, source time]."""
        longer = torch.maximum(self.row[:, 1:], self.row[:, :-1] + scores)
        self.row = functional.pad(longer, (1, 0)).cummax(1).values

    def _consumed(self, scores: Tensor, lengths: Tensor, written: Tensor | int) -> Tensor:
        """Return the length of the lowest-cost source prefix for rows `scores` [..., time + 1]."""
        tie = (4 * (lengths - written) + 1).abs()
        cost = torch.add(tie, lengths - scores, alpha=TIES)
        return lengths.expand_as(scores).gather(-1, cost.argmin(-1, keepdim=True))[..., 0]

    def reorder(self, order: Tensor, has_same_source: bool) -> None:
        """Select the rows with the indices `order`, and their sources unless `has_same_source`."""
        self.row = self.row[order]
        if not has_same_source:
            self.source, self.real = self.source[order], self.real[order]
            self.lengths = self.lengths[order]


class AlignedIncrementalTarget:
    """`TargetContext` for targets generated token by token, with an aligned pseudo future.

    For each sentence, a layer's cache contains the keys and values of the source, then of all
    hypotheses' tokens at each step. A mask selects the tokens of each hypothesis, so beam search
    reorders only the mask.
    """

    def __init__(self, encoded: EncodedSource, future: Sequence[KeysValues]) -> None:
        """Fill the cache with each layer's pseudo future."""
        rows = encoded.row_indices()
        real = encoded.real[rows]
        self.alignment = PrefixAlignment(encoded.tokens[rows], real)
        self.positions = (real.cumsum(1) - 1).masked_fill(~real, -1)
        group = encoded.rows_per_sentence()
        self.is_grouped = group > 0
        self.group = max(group, 1)
        self.cache = [keys_values.select_rows(rows[:: self.group]) for keys_values in future]
        own = torch.eye(self.group, dtype=torch.bool, device=real.device)
        self.own = own.repeat(len(rows) // self.group, 1)
        self.past = real.new_zeros(len(rows), 0)
        self.mask: Tensor | None = None

    def advance(self, tokens: Tensor) -> None:
        """Advance by one position, with the ids `tokens` [rows, 1], and update the mask."""
        later = self.positions > self.alignment.extend(tokens)
        mask = torch.cat([later, self.past, self.own[: len(later)]], dim=1)
        self.past = mask[:, later.size(1) :]
        self.mask = mask.view(-1, 1, self.group, mask.size(1))

    def attend(self, attention: Attention, layer: int, states: Tensor) -> Tensor:
        """Extend a layer's cache. Return the attention output, as in `TargetContext.attend`."""
        query, own = attention.project(states.view(-1, self.group, states.size(2)))
        self.cache[layer] = self.cache[layer].concat(own)
        return attention.attend(query, self.cache[layer], self.mask).view(states.shape)

    def reorder(self, order: Tensor) -> None:
        """Select the target rows with the indices `order`.

        If the number of rows is unchanged, fairseq reorders rows only within each sentence, so the
        cache stays the same.
        """
        has_same_source = self.is_grouped and len(order) == len(self.positions)
        if not has_same_source:
            self.positions = self.positions[order]
            sentences = order[:: self.group] // self.group
            self.cache = [cached.select_rows(sentences) for cached in self.cache]
        self.alignment.reorder(order, has_same_source)
        self.past = self.past[order]
