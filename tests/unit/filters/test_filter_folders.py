"""Folders of parts have the rows, the counts and the examples of single files."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.filters import FilterSummary, filter_files, filter_job, key_files
from fairseq_ssl.io import blocks
from fairseq_ssl.io.parts import PartFolder
from fairseq_ssl.io.text_files import JOB
from fairseq_ssl.io.text_jobs import Output

EXACT = "clean:max=3,identical,duplicates"
NEAR = "clean:max=3,duplicates:near=0.6"
PART = 1500


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write pairs of which many occur again, in the same block, part, or elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 500)
    monkeypatch.setattr(filter_job, "plan_ranges", _many_ranges)
    draw = random.Random(1)
    words = [f"w{number}" for number in range(12)]
    pairs = [
        [" ".join(draw.choices(words, k=draw.randint(1, 4))) for _ in "st"] for _ in range(900)
    ]
    pairs += draw.choices(pairs, k=900)
    draw.shuffle(pairs)
    for name, side in zip("st", zip(*pairs, strict=True), strict=True):
        Path(name).write_text("".join(f"{line}\n" for line in side))


plan_ranges = key_files.plan_ranges


def _many_ranges(paths: Sequence[Path]) -> list[range]:
    return plan_ranges(paths, max_keys=200)


def run(outputs: Sequence[Output], chain: str, **options: Any) -> FilterSummary | None:
    return filter_files(["s", "t"], outputs, chain, **options)


def text(folder: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(folder).glob("part-*")))


def counts(summary: FilterSummary | None) -> tuple[Any, ...]:
    assert summary
    return summary.lines, summary.kept, summary.dropped, str(summary.signature)


@pytest.mark.parametrize("chain", [EXACT, NEAR, "clean:max=3"])
def test_rows_and_counts_equal_those_of_files(chain: str) -> None:
    if chain == NEAR:
        pytest.importorskip("datasketch")
    expected = run(["x", "y"], chain)
    folders = [PartFolder(name, part_size=PART) for name in ("X", "Y")]
    summary = run(folders, chain)
    assert counts(summary) == counts(expected)
    assert [text("X"), text("Y")] == [Path("x").read_bytes(), Path("y").read_bytes()]
    assert len([*Path("X").glob("part-*")]) > 5
    content = json.loads(Path("X/manifest.json").read_text())
    stored = json.loads(Path("x.json").read_text())
    for name in ("filters", "lines", "kept", "dropped"):
        assert content[name] == stored[name]
    assert run(folders, chain) is None
    Path("Y/part-00003").write_text("damaged\n")
    assert run(folders, chain) is None
    assert text("Y") == Path("y").read_bytes()


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_shards_run_stage_by_stage(order: tuple[int, ...]) -> None:
    expected = run(["x", "y"], EXACT)
    summaries = []
    for shard in order * 3:
        folders = [PartFolder(name, (shard, 3), PART) for name in ("X", "Y")]
        summaries.append(run(folders, EXACT))
    [summary] = [done for done in summaries if done and done.lines == 1800]
    assert counts(summary) == counts(expected)
    assert [text("X"), text("Y")] == [Path("x").read_bytes(), Path("y").read_bytes()]
    assert not Path("X", JOB).exists()


@pytest.mark.parametrize("stage", ["keys", "duplicates"])
def test_damaged_files_of_a_stage_are_made_again(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(["x", "y"], EXACT)
    folders = [PartFolder(name, part_size=PART) for name in ("X", "Y")]

    def interrupt(*values: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(filter_job, "_keep_rows", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(folders, EXACT)
    path = Path("X", JOB, f"{stage}-00001")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert run(folders, EXACT)
    assert text("X") == Path("x").read_bytes()


@pytest.mark.parametrize("chain", [EXACT, "encoding"])
def test_texts_of_several_files_equal_one(chain: str) -> None:
    """Parts are inputs, too, and duplicates are in other files."""
    for side in "st":
        lines = Path(side).read_text().splitlines(keepends=True)
        for number, end in enumerate((300, 301, 1100, len(lines))):
            start = (0, 300, 301, 1100)[number]
            Path(f"{side}.{number}").write_text("".join(lines[start:end]))
    expected = run(["x", "y"], chain)
    globs = ["s.?", "t.?"]
    assert counts(filter_files(globs, ["u", "v"], chain)) == counts(expected)
    assert Path("v").read_bytes() == Path("y").read_bytes()
    folders = [PartFolder(name, part_size=PART) for name in ("X", "Y")]
    assert counts(filter_files(globs, folders, chain)) == counts(expected)
    assert text("Y") == Path("y").read_bytes()
    again = filter_files(["X", "Y"], ["a", "b"], chain)
    assert again
    assert expected
    assert again.kept == again.lines == expected.kept


def test_files_of_one_side_only() -> None:
    Path("s.0").write_text("a\n")
    Path("s.1").write_text("b\n")
    with pytest.raises(UsageError, match="has 2 files but t has 1"):
        filter_files(["s.?", "t"], ["x", "y"], EXACT)


def test_sides_of_different_lengths() -> None:
    with Path("t").open("a") as file:
        file.write("more\n")
    with pytest.raises(DataError, match="s ends after line 1800, but t has more lines"):
        run(["X/", "Y/"], EXACT)


def test_parts_without_lines() -> None:
    Path("s").write_text(f"{'a' * 5000}\nb\n")
    Path("t").write_text("c\nd\n")
    assert run([PartFolder(name, part_size=500) for name in ("X", "Y")], "duplicates")
    assert text("Y") == b"c\nd\n"
    assert filter_files(["s"], [PartFolder("Z", part_size=500)], "duplicates")
    assert text("Z") == Path("s").read_bytes()
