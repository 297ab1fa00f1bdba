"""Lines drawn from a stream."""

from __future__ import annotations

from collections import Counter

from fairseq_ssl.text.subwords import sample_lines


def test_some_lines_in_their_order() -> None:
    lines = [f"{number:03}" for number in range(200)]
    some = sample_lines(iter(lines), 20, seed=1)
    assert some == sorted(set(some))
    assert len(some) == 20
    assert set(some) <= set(lines)
    assert some == sample_lines(iter(lines), 20, seed=1) != sample_lines(iter(lines), 20, seed=2)


def test_a_short_text_is_kept_whole() -> None:
    assert sample_lines(["b", "a", "b"], 5, seed=1) == ["b", "a", "b"]
    assert sample_lines([], 5, seed=1) == []


def test_each_line_is_as_likely() -> None:
    """Of 3000 draws of 2 of 5 lines each line is in 1200; sigma is 27."""
    counts = Counter(line for seed in range(3000) for line in sample_lines("abcde", 2, seed))
    assert all(1080 < counts[line] < 1320 for line in "abcde")
