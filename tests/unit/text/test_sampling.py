"""Reservoir sampling of lines."""

from __future__ import annotations

from collections import Counter

from fairseq_ssl.text.subwords import sample_lines


def test_sample_is_in_order_and_reproducible() -> None:
    lines = [f"{number:03}" for number in range(200)]
    sample = sample_lines(iter(lines), 20, seed=1)
    assert sample == sorted(set(sample))
    assert len(sample) == 20
    assert set(sample) <= set(lines)
    assert sample == sample_lines(iter(lines), 20, seed=1)
    assert sample != sample_lines(iter(lines), 20, seed=2)


def test_all_lines_of_a_short_text_are_returned() -> None:
    assert sample_lines(["b", "a", "b"], 5, seed=1) == ["b", "a", "b"]
    assert sample_lines([], 5, seed=1) == []


def test_sample_is_uniform() -> None:
    """Each of 5 lines is expected in 1200 of 3000 samples of 2 lines. Sigma is 27."""
    counts = Counter(line for seed in range(3000) for line in sample_lines("abcde", 2, seed))
    assert all(1080 < counts[line] < 1320 for line in "abcde")
