"""Lines of words: their distribution, and their score."""

from __future__ import annotations

import random
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.recipe import script

COMMON = ROOT / "examples/common"
WORDS = [(f"a {i}", f"b {i}") for i in range(100)]


def test_each_pass_has_all_words_once_and_lines_of_all_lengths() -> None:
    module = script(COMMON / "word_lines.py")
    draw = random.Random(1)
    stream = list(module.shuffled(WORDS, 3, draw))
    passes = [stream[at : at + 100] for at in (0, 100, 200)]
    assert all(sorted(one) == sorted(WORDS) for one in passes)
    assert len({tuple(one) for one in passes}) == 3
    made = list(module.lines(iter(WORDS * 120), range(1, 5), draw))
    counts = Counter(map(len, made))
    # 12,000 words in lines of 2.5 words on average: 1,200 lines of each length. The
    # standard deviation is 30.
    assert sorted(counts) == [1, 2, 3, 4]
    assert all(1050 < count < 1350 for count in counts.values())
    joined = [word for line in made for word in line]
    assert joined == (WORDS * 120)[: len(joined)]
    assert 0 <= 12000 - len(joined) < 4


def test_both_sides_have_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(counts: str) -> list[str]:
        words = ["word_lines.py", *inputs, *outputs, "--words", counts, "--passes", "2"]
        monkeypatch.setattr(sys, "argv", [*map(str, words), "--separator", "<sep>"])
        script(COMMON / "word_lines.py").main()
        return [path.read_text() for path in outputs]

    inputs, outputs = (
        [tmp_path / folder / name for name in ("src", "trg")] for folder in (".", "lines")
    )
    for side, path in enumerate(inputs):
        path.write_text("".join(f"{word[side]}\n" for word in WORDS))
    made = make("10-10")
    source, target = (text.splitlines() for text in made)
    assert len(source) == len(target) == 20
    assert all(len(line.split(" <sep> ")) == 10 for line in source)
    assert [line.replace("a", "b") for line in source] == target
    assert make("10-10") == made


def plain_matches(made: list[str], wanted: list[str]) -> int:
    """Return the largest number of words that both lists have in the same order."""
    kept = {words for size in range(len(made) + 1) for words in combinations(made, size)}
    return max(
        size
        for size in range(len(wanted) + 1)
        for words in combinations(wanted, size)
        if words in kept
    )


def test_words_correct_equal_a_plain_count() -> None:
    module = script(COMMON / "word_lines_table.py")
    draw = random.Random(2)
    lines = []
    for _ in range(200):
        reference = [draw.choice(["a b", "c", "d e f"]) for _ in range(draw.randint(1, 5))]
        output = [word for word in reference if draw.random() < 0.8] or ["c"]
        output[draw.randrange(len(output))] = draw.choice(["c", "x"])
        lines.append((["s"] * draw.randint(1, 12), output, reference))
    joined = [(" ".join(s), " <sep> ".join(o), " <sep> ".join(r)) for s, o, r in lines]
    found = module.accuracies(joined, [4, 8], "<sep>")
    for bucket, lengths in enumerate((range(5), range(5, 9), range(9, 99), range(99))):
        chosen = [(o, r) for s, o, r in lines if len(s) in lengths]
        correct = sum(plain_matches(o, r) for o, r in chosen)
        assert found[bucket] == pytest.approx(100 * correct / sum(len(r) for _, r in chosen))
