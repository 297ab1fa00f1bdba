"""The consumed source prefix equals that of a plain edit distance, in batches and step by step."""

from __future__ import annotations

import random

import pytest
import torch

from fairseq_ssl.modules.prefix_alignment import PrefixAlignment
from tests.unit.models.plain_pseudo_bidirectional import consumed_source
from tests.unit.models.tiny_models import EOS, PAD, batch, previous

A, B, C, D, E, X = range(4, 10)


def consumed(source: list[int], prefix: list[int]) -> list[int]:
    """Return the consumed lengths of one pair at all positions of the decoder's input."""
    tokens, source_tokens = previous([prefix]), batch([source])
    alignment = PrefixAlignment(source_tokens, source_tokens.ne(PAD))
    found: list[int] = alignment.extend_all(tokens, tokens.ne(PAD))[0].tolist()
    return found


@pytest.mark.parametrize(
    ("source", "prefix", "expected"),
    [
        ([A, B, C, D], [A, B, C, D], [0, 1, 2, 3, 4]),
        ([A, B, C, D], [A, X, C, D], [0, 1, 2, 3, 4]),
        ([A, B, C, D], [A, X, B, C, D], [0, 1, 2, 2, 3, 4]),
        ([A, X, B, C, D], [A, B, C, D], [0, 1, 2, 4, 5]),
        ([A, B, C, D, E, X], [A, D, E, X], [0, 1, 2, 3, 6]),
        ([A, A, B, C, A, A, B], [C, C, B, A, C, B], [0, 1, 2, 3, 4, 4, 5]),
        ([], [A, B], [0, 1, 1]),
    ],
    ids=["equal", "substituted", "inserted", "deleted", "two deleted", "tied", "empty source"],
)
def test_cases_worked_out_by_hand(
    source: list[int], prefix: list[int], expected: list[int]
) -> None:
    assert consumed(source, prefix) == expected


@pytest.mark.parametrize("left_source", [True, False])
@pytest.mark.parametrize("left_target", [True, False])
def test_consumed_lengths_equal_the_reference(left_source: bool, left_target: bool) -> None:
    draw = random.Random(5)
    sources = [draw.choices((A, B, C), k=draw.randrange(9)) for _ in range(300)]
    prefixes = [draw.choices((A, B, C), k=draw.randrange(9)) for _ in sources]
    source, target = batch(sources, left_source), previous(prefixes, left_target)
    found = PrefixAlignment(source, source.ne(PAD)).extend_all(target, target.ne(PAD))
    differs_from_position = 0
    for row, (words, prefix) in enumerate(zip(sources, prefixes, strict=True)):
        lengths = range(len(prefix) + 1)
        expected = [consumed_source([*words, EOS], prefix[:t]) for t in lengths]
        assert found[row][target[row].ne(PAD)].tolist() == expected, (words, prefix)
        differs_from_position += expected != list(lengths)
    assert 100 < differs_from_position < 250


def test_steps_equal_all_positions_at_once() -> None:
    """Rows are reordered within a sentence, then a sentence is removed. Most tokens are copied."""
    torch.manual_seed(2)
    source = torch.randint(A, 20, (6, 10))
    source[2:4, :3] = PAD
    source[4:, 8:] = PAD
    source[1::2] = source[::2]
    tokens = torch.full((6, 1), EOS)
    alignment = PrefixAlignment(source, source.ne(PAD))
    sides = set()
    for step in range(8):
        found = alignment.extend(tokens[:, -1:])
        sides |= set(found[:, 0].sub(step).sign().tolist())
        every = PrefixAlignment(source, source.ne(PAD)).extend_all(tokens, tokens.ne(PAD))
        assert torch.equal(found[:, 0], every[:, -1])
        order = torch.tensor([2, 3, 5, 4] if step == 4 else [1, 0, 2, 2, 5, 4])[: len(tokens)]
        alignment.reorder(order, has_same_source=step != 4)
        source = source[order]
        copied = source[:, (step + 2) % source.size(1)]
        new = torch.where(copied.ne(PAD) & (torch.rand(len(order)) < 0.9), copied, X)[:, None]
        tokens = torch.cat([tokens[order], new], dim=1)
    assert sides == {-1, 0, 1}
