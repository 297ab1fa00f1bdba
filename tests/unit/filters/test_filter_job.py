"""The library functions: pairs in memory, files, and user-defined filters."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl import filters
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import UsageError
from fairseq_ssl.filters import Filter, RowFilter, filter_files, filter_job, filter_pairs, option
from fairseq_ssl.filters.rules import IdenticalFilter, Row
from fairseq_ssl.io import blocks
from fairseq_ssl.io.jobs import Progress

PAIRS = [(f"w {n % 700}", f"w {n % 300}" if n % 3 else f"w {n % 700}") for n in range(2500)]
OWN = '''
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.filters import Filter, option

STOP = Path(__file__).with_name("stop")


class Plain(Filter):
    """Keeps rows whose lines have no 7."""

    def score(self, rows):
        return [complex("7" in "".join(row), 0) for row in rows]

    def accept(self, score):
        if STOP.exists() and job_has_begun():
            raise KeyboardInterrupt
        return not score


@dataclass
class Sevens(Filter):
    """Keeps rows with at most this many sevens."""

    sides: int
    max: int = option(1, "max sevens")

    def score(self, rows):
        assert all(len(row) == self.sides for row in rows)
        return ["".join(row).count("7") for row in rows]

    def accept(self, score):
        return score <= self.max


class Few(Plain):
    """Returns too few scores."""

    def score(self, rows):
        return [False]


class Unfinished(Filter):
    """Lacks accept."""

    def score(self, rows):
        return [1 for row in rows]


def job_has_begun():
    return len(list(Path().glob("*.progress"))) > 0
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a module with filters on Python's path, and a corpus."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "own_filters.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.delitem(sys.modules, "own_filters", raising=False)
    monkeypatch.chdir(tmp_path)
    write("s", "t")
    return modules


def write(*names: str) -> None:
    for name, side in zip(names, zip(*PAIRS, strict=True), strict=True):
        Path(name).write_text("".join(f"{line}\n" for line in side))


def lines(name: str) -> list[str]:
    return Path(name).read_text().splitlines()


@pytest.mark.parametrize("chain", ["duplicates,identical", "clean:max=1", "identical", "encoding"])
def test_filter_pairs_equals_filter_files(
    tmp_path: Path, chain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("s", "t")
    summary = filter_files([Path("s"), Path("t")], [Path("x"), Path("y")], chain)
    kept = list(zip(lines("x"), lines("y"), strict=True))
    assert list(filter_pairs(PAIRS, chain)) == kept
    assert summary is not None
    assert (summary.lines, summary.kept) == (len(PAIRS), len(kept))
    assert sum(one.count for one in summary.dropped) == len(PAIRS) - len(kept)
    assert filter_files([Path("s"), Path("t")], [Path("x"), Path("y")], chain) is None


@pytest.mark.parametrize("size", [1, 700])
def test_masks_of_batches_mark_the_rows_that_filter_pairs_keeps(size: int) -> None:
    chain = "identical,clean:min=2,max-length:target=4:target-unit=characters"
    passes = pickle.loads(pickle.dumps(RowFilter(chain)))
    kept: list[tuple[str, str]] = []
    for start in range(0, len(PAIRS), size):
        batch = PAIRS[start : start + size]
        mask = passes(*zip(*batch, strict=True))
        kept += [pair for pair, is_kept in zip(batch, mask.tolist(), strict=True) if is_kept]
    assert kept == list(filter_pairs(PAIRS, chain))
    assert 0 < len(kept) < len(PAIRS)
    assert RowFilter("clean:min=2", sides=1)(["a b", "a"]).tolist() == [True, False]
    assert RowFilter("identical")([], []).tolist() == []


def test_masks_of_duplicates_and_of_unequal_columns_are_rejected() -> None:
    with pytest.raises(UsageError, match="compares all rows of a corpus"):
        RowFilter("clean,duplicates")
    with pytest.raises(UsageError, match=r"columns is 1\. Expected 2"):
        RowFilter("identical")(["a"])
    with pytest.raises(UsageError, match="the lengths 1, 0"):
        RowFilter("identical")(["a"], [])


def test_monolingual_and_empty_input() -> None:
    assert list(filter_pairs(["b", "a b", "b", "", "c"], "clean:max=1,duplicates")) == ["b", "c"]
    assert list(filter_pairs([], "clean,identical,duplicates:by=target")) == []
    for rules in ("identical", [IdenticalFilter()]):
        with pytest.raises(UsageError, match="only one side"):
            filter_pairs(["a"], rules)


def test_pairs_keep_their_type_and_are_read_lazily() -> None:
    pairs = iter([["a", "b"]] * filter_job.BATCH + [["c", "d"]])
    kept = filter_pairs(pairs, "clean")
    assert next(kept) == ["a", "b"]
    assert list(pairs) == [["c", "d"]]


@dataclass(frozen=True)
class Short(Filter[int]):
    """Keeps short lines."""

    max: int = option(3, "max characters")

    def score(self, rows: Sequence[Row]) -> list[int]:
        """Return the characters of the longer side."""
        assert rows
        return [max(map(len, row)) for row in rows]

    def accept(self, score: int) -> bool:
        """Return True for a short row."""
        return score <= self.max


def test_user_defined_filter_objects(tmp_path: Path) -> None:
    assert list(filter_pairs([("a", "bcd"), ("a", "bcde")], [Short()])) == [("a", "bcd")]
    assert list(filter_pairs(["a b"], [Short(max=1), Short()])) == []
    (tmp_path / "s").write_text("a\nbcde\n")
    summary = filter_files([tmp_path / "s"], [tmp_path / "x"], [Short(max=1)])
    assert summary is not None
    assert summary.dropped[0].filter == f"{__name__}:Short:max=1"
    assert summary.dropped[0].examples[0].score == 4
    [spec] = filters.parse_filters(summary.dropped[0].filter)
    assert list(filter_pairs(["a", "bcde"], [spec])) == ["a"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_user_defined_class_by_name(own: Path, jobs: int) -> None:
    words = ["filter", "s", "t", "--jobs", str(jobs)]
    named = "own_filters:Sevens:max=2,duplicates,own_filters:Plain"
    assert main([*words, "--filter", named, "-o", "x", "y"]) == 0
    Path("f.yaml").write_text(
        "filters:\n- own_filters:Sevens: {max: 2}\n- duplicates\n- own_filters:Plain\n"
    )
    assert main([*words, "--config", "f.yaml", "-o", "v", "w"]) == 0
    expected = [pair for pair in dict.fromkeys(PAIRS) if "7" not in "".join(pair)]
    for names in (("x", "y"), ("v", "w")):
        assert list(zip(*map(lines, names), strict=True)) == expected
    note = json.loads(Path("x.json").read_text())
    assert note["filters"] == [
        "own_filters:Sevens:max=2",
        "own_filters:Plain",
        "duplicates:by=pair:near=0.0",
    ]
    assert note["dropped"][1]["examples"][0]["score"] == "(1+0j)"
    assert set(note["filter_sources"]) == {"own_filters:Sevens", "own_filters:Plain"}


def test_run_resumes_unless_the_class_has_changed(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 2048)
    monkeypatch.setattr("fairseq_ssl.io.outputs.PAUSE", 0.0)
    words = ["filter", "s", "t", "--filter", "own_filters:Plain", "--jobs", "1", "-o"]
    assert main([*words, "whole", "there"]) == 0
    (own / "stop").touch()
    assert main([*words, "x", "y"]) == 130
    assert Path("x.progress").exists()
    (own / "stop").unlink()
    capsys.readouterr()
    assert main([*words, "x", "y"]) == 0
    assert "resuming after line" in capsys.readouterr().err
    assert lines("x") == lines("whole")
    assert lines("y") == lines("there")
    with (own / "own_filters.py").open("a") as file:
        file.write("# changed\n")
    assert main([*words, "x", "y"]) == 2
    assert "x exists" in capsys.readouterr().err


def test_modules_next_to_the_yaml_are_not_imported(own: Path) -> None:
    """The command does not add its folder to Python's path."""
    Path("beside.py").write_text("from pathlib import Path\nPath('canary').touch()\n")
    Path("f.yaml").write_text("filters: ['beside:Question']\n")
    code = "import sys; sys.path.remove(''); from fairseq_ssl.cli.main import main; main()"
    words = ["filter", "s", "--config", "f.yaml", "-o", "x"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert "'beside:Question' cannot be imported: ModuleNotFoundError" in done.stderr
    assert not Path("canary").exists()


@pytest.mark.parametrize(
    "culprit",
    [
        *("own_filters:Gone", "own_filters:Path", "own_filters:Unfinished", "own_filters:Few"),
        *("no.such:Class", "os.path;x:Class", ":Class", "fairseq_ssl.filters:Filter"),
        "failing:Class",
    ],
)
def test_other_classes_are_rejected(own: Path, culprit: str) -> None:
    (own / "failing.py").write_text("1 / 0\n")
    with pytest.raises(UsageError, match=culprit):
        list(filter_pairs([("a", "b"), ("c", "d")], culprit))


@pytest.mark.parametrize(
    ("pairs", "culprit"),
    [
        ([("a", "b"), ("a",)], "Pair 2"),
        ([("a", "b"), "a"], "Pair 2"),
        ([("a", "b", "c")], "Pair 1"),
        ([("a", "b")] * 1000 + [("a", float("nan"))], "pair 1001"),
    ],
)
def test_wrong_pairs_are_named(pairs: Any, culprit: str) -> None:
    with pytest.raises((TypeError, UsageError), match=culprit):
        list(filter_pairs(pairs, "clean"))


def test_a_text_that_changes_in_a_run_is_not_complete(tmp_path: Path) -> None:
    source, output = tmp_path / "raw", tmp_path / "kept"
    source.write_text("a b\n", encoding="utf-8")

    def append(task: str, unit: str, total: int | None = None) -> Progress:
        with source.open("a", encoding="utf-8") as file:
            file.write("c d\n")
        return lambda count, fraction=None, note="": None

    assert filter_files([source], [output], "clean", progress=append)
    with pytest.raises(UsageError, match="kept exists, and is not an output of this job"):
        filter_files([source], [output], "clean")


def test_lines_with_a_lone_surrogate_are_compared() -> None:
    assert list(filter_pairs(["\ud800", "\ud800", "\udcff"], "duplicates")) == ["\ud800", "\udcff"]
