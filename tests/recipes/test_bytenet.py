"""The recipe of ByteNet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

RECIPE = ROOT / "examples/bytenet"


def digits(folder: Path, *flags: str) -> dict[str, list[str]]:
    """The lines of each file that the command writes."""
    words = [sys.executable, str(RECIPE / "digits.py"), str(folder), *flags]
    subprocess.run(words, check=True)
    return {path.name: path.read_text("utf-8").splitlines() for path in folder.iterdir()}


def test_digits_are_those_of_the_authors_seeds_and_the_unseen_ones_unseen(tmp_path: Path) -> None:
    files = digits(tmp_path / "one", "--unlabelled", "512", "--test", "5")
    # numpy.random.RandomState(10) drew them; longer sets begin as shorter ones do
    assert files["train.digits"][:4] == ["4 5 2", "1 9", "4 8 4", files["train.digits"][3]]
    assert files["train.words"][1] == "o n e _ n i n e"
    sizes = {name: len(files[f"{name}.digits"]) for name in ("train", "mono", "test", "valid")}
    assert sizes == {"train": 128, "mono": 512, "test": 5, "valid": 128}
    known = {*files["train.digits"], *files["mono.digits"]}
    unseen = set(files["unseen.digits"])
    assert not known & unseen
    assert len(known | unseen) == 1100
    assert {len(line.split()) for line in unseen} == {2, 3}
    more = digits(tmp_path / "more", "--labelled", "256")
    assert more["train.digits"][:128] == files["train.digits"]
    assert digits(tmp_path / "two", "--run", "2")["train.digits"] != files["train.digits"]
    symbols = {entry.split()[0] for entry in files["dict.txt"]}
    assert symbols == set(" ".join(files["unseen.digits"] + files["unseen.words"]).split())


def test_wrong_characters_are_counted_as_the_slides_do(tmp_path: Path) -> None:
    lines = [
        *("T-0\t0 2", "H-0\t-0.1\t0 2"),
        *("T-1\t8 4 4", "H-1\t-0.1\t8 4"),  # the end is early, 2 of 3 are right
        *("T-2\t1 2", "H-2\t-0.1\t2 2 2"),  # 1 of 4
        *("T-3\t1 2", "H-3\t-0.1\t"),  # the end alone, and wrong
    ]
    (tmp_path / "generated").write_text("\n".join(lines), encoding="utf-8")
    words = [sys.executable, str(RECIPE / "misclassification.py"), str(tmp_path / "generated")]
    shown = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert shown["misclassification"] == pytest.approx((0 + 1 / 3 + 3 / 4 + 1) / 4)
    assert (shown["sentences"], shown["sentences_wrong"]) == (4, 0.75)
