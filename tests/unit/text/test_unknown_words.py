"""Replacement of ``<unk>``, with examples worked out by hand."""

from __future__ import annotations

import pytest

from fairseq_ssl.text.postprocessing import UnknownCopies, replace_unknown

SOURCE_WORDS = {"the", "▁angle", "δ", "▁is", "both"}
TARGET_WORDS = {"der", "▁Winkel", "β", "both"}


@pytest.mark.parametrize(
    ("output", "source", "expected", "counts"),
    [
        ("der <unk> .", "the both δ .", "der the .", (1, 0)),
        ("der <unk> <unk>", "both δ both β neither", "der δ β", (2, 0)),
        ("<unk> der <unk> <unk>", "both neither δ", "neither der δ <unk>", (2, 1)),
        ("<unk> <unk>", " both  neither ", "neither <unk>", (1, 1)),
        ("<unk>", "", "<unk>", (0, 1)),
        ("der Winkel", "δ β", "der Winkel", (0, 0)),
        ("a<unk> <<unk>>", "δ β", "a<unk> <<unk>>", (0, 0)),
        ("<unk>  x\u2028y ", "δ", "δ  x\u2028y ", (1, 0)),
        ("<unk> <unk>", "δ δ", "δ δ", (2, 0)),
        ("", "δ", "", (0, 0)),
    ],
)
def test_source_tokens_are_copied_in_order(
    output: str, source: str, expected: str, counts: tuple[int, int]
) -> None:
    copies = UnknownCopies(SOURCE_WORDS, TARGET_WORDS)
    assert copies(output, source) == expected
    assert (copies.copied, copies.left) == counts


def test_counts_are_summed_over_lines() -> None:
    copies = UnknownCopies(SOURCE_WORDS, TARGET_WORDS)
    copies("<unk> <unk>", "δ")
    copies("<unk>", "β")
    assert (copies.copied, copies.left) == (2, 1)


def test_replace_unknown() -> None:
    assert replace_unknown("a <unk> b<unk>", "|") == "a | b|"
    assert replace_unknown("a unk", "|") == "a unk"
