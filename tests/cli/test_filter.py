"""``fairseq-ssl filter``: comparison with a Python loop, parallelism, resuming, wrong input."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.filters import block_filter, filter_job, filter_pairs
from fairseq_ssl.filters.chain import FilterChain
from fairseq_ssl.io import blocks
from fairseq_ssl.io.blocks import Block
from fairseq_ssl.io.parts import BlockResult
from tests.cli.killing import kill

CHAIN = "encoding,duplicates,clean:max=9,max-length:source=8:target=12,identical"
Pairs = list[tuple[bytes, bytes]]


def drawn(count: int) -> Pairs:
    """Draw pairs with duplicates, some of which each filter drops."""
    draw = random.Random(3)
    words = [b"a", b"bb", b"c\xc3\xa9", b"dd"]

    def line() -> bytes:
        count = draw.choice([0, *range(1, 10), *range(1, 10), 10])
        text = b" ".join(draw.choices(words, k=count))
        return text + draw.choices([b"", b"\0", b"\xe9", b" "], [90, 1, 1, 8])[0]

    pairs = [(line(), line()) for _ in range(count)]
    again = draw.choices(pairs, k=count)
    return [
        draw.choices([(left, right), (left, left), other], [6, 1, 3])[0]
        for (left, right), other in zip(pairs, again, strict=True)
    ]


def plainly(pairs: Pairs) -> tuple[Pairs, Counter[str]]:
    """Filter pairs in a loop, by the documented rules."""
    kept, dropped, seen = [], Counter[str](), set()
    for pair in pairs:
        reason = _reason(pair) or ("duplicates" if pair in seen else "")
        if reason:
            dropped[reason] += 1
        else:
            seen.add(pair)
            kept.append(pair)
    return kept, dropped


def _reason(pair: tuple[bytes, bytes]) -> str:
    if any(b"\0" in side or b"\xe9" in side for side in pair):
        return "encoding"
    left, right = (side.decode() for side in pair)
    lengths = len(left.split()), len(right.split())
    if not all(1 <= length <= 9 for length in lengths) or max(lengths) > 3 * min(lengths):
        return "clean"
    if lengths[0] > 8 or len(right.replace(" ", "")) > 12:
        return "max-length"
    return "identical" if left == right else ""


PAIRS = drawn(6000)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two sides as files in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    write("en", "de", PAIRS)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 4096)
    monkeypatch.setattr("fairseq_ssl.io.outputs.PAUSE", 0.0)


def write(source: str, target: str, pairs: Pairs) -> None:
    for name, side in zip((source, target), zip(*pairs, strict=True), strict=True):
        Path(name).write_bytes(b"".join(line + b"\n" for line in side))


def read(*names: str) -> Pairs:
    sides = []
    for name in names:
        data = Path(name).read_bytes()
        data = gzip.decompress(data) if name.endswith(".gz") else data
        sides.append(data.removesuffix(b"\n").split(b"\n"))
    return list(zip(*sides, strict=True))


def filtered(*words: str) -> int:
    """Run the command, by default in this process, since starting processes is slow."""
    return main(["filter", *words, *(() if "--jobs" in words else ("--jobs", "1"))])


def test_output_equals_a_python_loop(
    text: None, small_blocks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("en", "de", "--filter", CHAIN, "-o", "x", "y", "--jobs", "1")
    assert filtered(*command) == 0
    kept, dropped = plainly(PAIRS)
    assert read("x", "y") == kept
    assert min(dropped.values()) > 20, "each filter has something to do"
    note = json.loads(Path("x.json").read_text())
    assert (note["lines"], note["kept"]) == (len(PAIRS), len(kept))
    assert {one["filter"].split(":")[0]: one["count"] for one in note["dropped"]} == dropped
    assert note["dropped"][-1]["filter"] == "duplicates:by=pair:near=0.0"
    assert note["filters"] == [one["filter"] for one in note["dropped"]]
    for one in note["dropped"]:
        name = one["filter"].partition(":")[0]
        assert len(one["examples"]) == 3
        for example in one["examples"]:
            pair = PAIRS[example["line"] - 1]
            assert (_reason(pair) or "duplicates") == name
            assert name == "encoding" or list(pair) == [side.encode() for side in example["text"]]
    told = capsys.readouterr().err
    shares = {line.split()[0].split(":")[0]: line.split()[1:3] for line in told.splitlines()[1:7]}
    for name, count in {**dropped, "kept": len(kept)}.items():
        assert shares[name] == [str(count), f"{count / len(PAIRS):.1%}"]


def test_examples_are_the_first_that_were_dropped(text: None, small_blocks: None) -> None:
    """Counts of a short text by hand, and printable examples."""
    pairs = [(b"a", b"b"), (b"a b c d", b"e"), (b"x", b"y\x1b"), (b"a", b"b"), (b"caf\xe9", b"y")]
    write("s", "t", pairs * 2)
    assert filtered("s", "t", "--filter", "clean,encoding,duplicates", "-o", "x", "y") == 0
    assert read("x", "y") == pairs[:1]
    clean, encoding, duplicates = json.loads(Path("x.json").read_text())["dropped"]
    assert clean["count"] == 2
    assert clean["examples"] == [
        {"line": line, "text": ["a b c d", "e"], "score": {"tokens": [4, 1], "max_word_length": 1}}
        for line in (2, 7)
    ]
    assert encoding["count"] == 4
    assert encoding["examples"][:2] == [
        {"line": 3, "text": ["x", "y\\x1b"], "score": "control character U+001B"},
        {"line": 5, "text": ["caf\\xe9", "y"], "score": "not UTF-8: byte 0xe9"},
    ]
    assert [example["line"] for example in duplicates["examples"]] == [4, 6, 9]


@pytest.mark.parametrize("chain", [CHAIN, "encoding"])
def test_jobs_and_compression_do_not_change_the_output(text: None, chain: str) -> None:
    """Blocks of the default size. Without `duplicates` the workers compress the output."""
    pairs = PAIRS * 8
    write("en", "de", pairs)
    Path("en.gz").write_bytes(gzip.compress(Path("en").read_bytes()))
    for jobs in ("1", "2"):
        output = ("-o", f"x{jobs}.gz", f"y{jobs}.gz", "--jobs", jobs)
        assert filtered("en.gz", "de", "--filter", chain, *output) == 0
    good = [pair for pair in pairs if _reason(pair) != "encoding"]
    assert read("x1.gz", "y1.gz") == (plainly(pairs)[0] if chain == CHAIN else good)
    for side in "xy":
        assert Path(f"{side}1.gz").read_bytes() == Path(f"{side}2.gz").read_bytes()


def test_one_side_goes_from_stdin_to_stdout(text: None) -> None:
    lines = [left for left, _ in PAIRS if b"\xe9" not in left]
    Path("one").write_bytes(b"\n".join(lines))
    words = ["filter", "--filter", "clean:max=5,duplicates", "--jobs", "2"]
    run = [sys.executable, "-m", "fairseq_ssl", *words]
    with Path("one").open("rb") as file:
        done = subprocess.run(run, stdin=file, capture_output=True, check=True)
    expected = dict.fromkeys(line for line in lines if 1 <= len(line.split()) <= 5)
    assert done.stdout == b"".join(line + b"\n" for line in expected)
    assert b"kept" in done.stderr
    assert filtered("one", *words[1:3], "-o", "kept") == 0
    assert Path("kept").read_bytes() == done.stdout


def test_failed_run_resumes(
    text: None, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys, the counts and the examples are restored."""
    command = ("en", "de", "--filter", CHAIN, "--jobs", "1", "-o")
    names, others = ("x.gz", "y.gz"), ("whole.gz", "there.gz")
    assert filtered(*command, *others) == 0
    worked: list[int] = []
    left = [3, 20, 1000]

    def failing(chain: FilterChain, block: Block) -> BlockResult:
        if len(worked) == left[0]:
            left.pop(0)
            raise KeyboardInterrupt
        worked.append(block.number)
        return block_filter.filter_block(chain, block)

    monkeypatch.setattr(filter_job, "filter_block", failing)
    assert filtered(*command, *names) == 130
    assert filtered(*command, *names) == 130
    assert not Path(names[0]).exists()
    assert filtered(*command, *names) == 0
    assert worked == sorted(set(worked)), "no block was done twice"
    assert len(worked) > 20
    for mine, other in zip(names, others, strict=True):
        assert Path(mine).read_bytes() == Path(other).read_bytes()
    notes = [json.loads(Path(f"{name}.json").read_text()) for name in ("x.gz", "whole.gz")]
    assert notes[0] | {"outputs": []} == notes[1] | {"outputs": []}
    assert not [*Path().glob("*.tmp"), *Path().glob("*.progress")]


def test_failed_run_resumes_with_near_duplicates(
    text: None, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped lines, too, are compared with later lines."""
    pytest.importorskip("datasketch")
    draw = random.Random(1)
    words = [draw.choices(["council", "budget", "approved", "year"], k=6) for _ in range(30)]
    lines: list[str] = []
    for _ in range(2000):
        line = draw.choice(words)
        line[draw.randrange(6)] = draw.choice(["monday", "tax", "vote", "law"]) + str(len(lines))
        lines.append(" ".join(line))
    Path("s").write_text("\n".join([*lines, ""]))
    command = ("s", "--filter", "clean,duplicates:near=0.7", "--jobs", "1", "-o")
    assert filtered(*command, "whole") == 0
    left = [9]

    def failing(chain: FilterChain, block: Block) -> BlockResult:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return block_filter.filter_block(chain, block)

    monkeypatch.setattr(filter_job, "filter_block", failing)
    assert filtered(*command, "x") == 130
    assert filtered(*command, "x") == 0
    assert Path("x").read_bytes() == Path("whole").read_bytes()
    kept = list(filter_pairs(lines, "duplicates:near=0.7"))
    assert Path("x").read_text().splitlines() == kept
    assert 100 < len(kept) < 1900


def test_killed_run_resumes(text: None) -> None:
    """SIGKILL the writing process twice. Its workers exit."""
    write("en", "de", drawn(25_000))
    base = ["filter", "en", "de", "--filter", CHAIN, "--jobs", "2", "-o"]
    assert main([*base, "whole", "there"]) == 0
    small = "from fairseq_ssl.io import blocks; blocks.BLOCK_SIZE = 2**14; "
    sizes = [kill([*base, "x", "y"], "x", small) for _ in range(2)]
    assert 0 < sizes[0] < sizes[1] < Path("whole").stat().st_size
    assert main([*base, "x", "y"]) == 0
    assert read("x", "y") == read("whole", "there") == plainly(read("en", "de"))[0]


def test_good_lines_are_unchanged(
    text: None, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Spaces, final carriage returns and Unicode line separators do not end lines."""
    given = "\u3000c\t\n  a\u2028b \r\n d".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert filtered("--filter", "encoding,clean,duplicates", "--jobs", "1") == 0
    assert capsysbinary.readouterr().out == given + b"\n"
