"""``fairseq-ssl filter``: comparison with a Python loop, parallelism, resuming, wrong input."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.filters import block_filter
from fairseq_ssl.io import blocks
from fairseq_ssl.io.blocks import RowBlock
from tests.cli.rewriting import given, refused, shown

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
    assert filtered(*command, "--examples", "2") == 0
    kept, dropped = plainly(PAIRS)
    assert read("x", "y") == kept
    assert min(dropped.values()) > 20, "each filter has something to do"
    note = json.loads(Path("x.json").read_text())
    assert (note["lines"], note["kept"]) == (len(PAIRS), len(kept))
    assert {one["filter"].split(":")[0]: one["count"] for one in note["dropped"]} == dropped
    assert note["dropped"][-1]["filter"] == "duplicates:by=pair"
    assert note["filters"] == [one["filter"] for one in note["dropped"]]
    for one in note["dropped"]:
        name = one["filter"].partition(":")[0]
        assert len(one["examples"]) == 2
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


def test_yaml_file_equals_options(text: None) -> None:
    Path("f.yaml").write_text("filters: [encoding, clean: {max: 9}, {duplicates: {by: target}}]\n")
    assert filtered("en", "de", "--config", "f.yaml", "-o", "x", "y") == 0
    again = ("--filter", "duplicates:by=target", "--filter", "encoding,clean:max=9")
    assert filtered("en", "de", *again, "-o", "v", "w") == 0
    assert read("x", "y") == read("v", "w")
    targets = [target for _, target in read("x", "y")]
    assert len(set(targets)) == len(targets) > 100


def test_languages_of_both_sides(text: None) -> None:
    en = b"The committee will meet again on Tuesday to discuss the proposal."
    de = "Der Ausschuss wird am Dienstag über den Vorschlag für die Stadt beraten.".encode()
    write("s", "t", [(en, de), (de, en), (en, en), (b"12", b"34"), (de, de)])
    command = ("--filter", "langid:source=en:target=de", "-o", "x", "y")
    assert filtered("s", "t", *command) == 0
    assert read("x", "y") == [(en, de), (b"12", b"34")]
    [note] = json.loads(Path("x.json").read_text())["dropped"]
    assert [example["score"] for example in note["examples"]] == [
        ["de", "en"],
        ["en", "en"],
        ["de", "de"],
    ]


@pytest.mark.parametrize("names", [("x", "y"), ("x.gz", "y.gz")])
def test_failed_run_resumes(
    text: None, small_blocks: None, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    """The hash table, the counts and the examples are restored."""
    command = ("en", "de", "--filter", CHAIN, "--jobs", "1", "--memory", "4K", "-o")
    suffix = names[0][1:]
    assert filtered(*command, f"whole{suffix}", f"there{suffix}") == 0
    worked: list[int] = []
    left = [3, 20, 1000]
    original = block_filter.CorpusFilter.__call__

    def failing(self: block_filter.CorpusFilter, block: RowBlock) -> block_filter.FilteredBlock:
        if len(worked) == left[0]:
            left.pop(0)
            raise KeyboardInterrupt
        worked.append(block.first)
        return original(self, block)

    monkeypatch.setattr(block_filter.CorpusFilter, "__call__", failing)
    assert filtered(*command, *names) == 130
    assert filtered(*command, *names) == 130
    assert not Path(names[0]).exists()
    assert filtered(*command, *names) == 0
    assert worked == sorted(set(worked)), "no block was done twice"
    assert len(worked) > 20
    for mine, other in zip(names, (f"whole{suffix}", f"there{suffix}"), strict=True):
        assert Path(mine).read_bytes() == Path(other).read_bytes()
    notes = [json.loads(Path(f"{name}.json").read_text()) for name in (names[0], f"whole{suffix}")]
    assert [{**note, "outputs": []} for note in notes[:1]] == [{**notes[1], "outputs": []}]
    assert not [*Path().glob("*.tmp"), *Path().glob("*.progress")]


def test_killed_run_resumes(text: None) -> None:
    """SIGKILL the writing process twice. Its workers exit."""
    write("en", "de", drawn(25_000))
    base = ["filter", "en", "de", "--filter", CHAIN, "--jobs", "2", "-o"]
    eager = (
        "from fairseq_ssl.io import blocks, outputs; outputs.PAUSE = 0.0; "
        "blocks.BLOCK_SIZE = 2**14; from fairseq_ssl.cli.main import main; "
    )
    assert main([*base, "whole", "there"]) == 0
    note, sizes = Path("x.progress"), []
    for _ in range(2):
        before = note.stat().st_mtime_ns if note.exists() else 0
        run = [sys.executable, "-c", f"{eager} main({[*base, 'x', 'y']})"]
        process = subprocess.Popen(run, stderr=subprocess.DEVNULL)
        while not note.exists() or note.stat().st_mtime_ns == before:
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.001)
        process.kill()
        process.wait()
        sizes.append(json.loads(note.read_text())["sizes"][0])
    assert 0 < sizes[0] < sizes[1] < Path("whole").stat().st_size
    assert main([*base, "x", "y"]) == 0
    assert read("x", "y") == read("whole", "there") == plainly(read("en", "de"))[0]


def test_full_table_is_reported_with_the_required_memory(
    text: None, small_blocks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    different = [(b"l%d" % (n % 500), b"r%d" % (n % 500)) for n in range(1500)]
    write("s", "t", different)
    command = ("s", "t", "--filter", "duplicates", "--jobs", "1", "--memory")
    assert filtered(*command, "1K", "-o", "x", "y") == 0
    told = capsys.readouterr().err
    assert told.count("warning") == 1
    assert "full after 102 different lines" in told
    assert "Set --memory to 1M or more" in told
    assert read("x", "y") == [pair for n, pair in enumerate(different) if n < 500 or n % 500 >= 102]
    assert filtered(*command, "1M", "-o", "x", "y", "--force") == 0
    assert "warning" not in capsys.readouterr().err
    assert read("x", "y") == different[:500]


def test_complete_output_is_not_repeated(text: None, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("en", "de", "--filter", "encoding", "-o", "x", "y", "--jobs", "1")
    assert filtered(*command) == 0
    made = Path("x").stat().st_mtime_ns
    assert filtered(*command) == 0
    assert Path("x").stat().st_mtime_ns == made
    assert "is complete" in capsys.readouterr().err
    assert filtered(*command, "--examples", "1") == 2
    assert "x exists, and is not an output of this job" in capsys.readouterr().err
    assert filtered(*command, "--examples", "1", "--force") == 0


def test_output_may_be_empty(text: None) -> None:
    command = ("en", "de", "--filter", "encoding,clean:min=200", "-o", "x.gz", "y")
    assert filtered(*command) == 0
    assert gzip.decompress(Path("x.gz").read_bytes()) == Path("y").read_bytes() == b""


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["en", "de", "--filter", "cleen", "-o", "x", "y"], 2, "Did you mean 'clean'?"),
        (["en", "de", "--filter", "clean:mx=1", "-o", "x", "y"], 2, "Did you mean 'max'?"),
        (["en", "de", "--filter", "clean:max=x", "-o", "x", "y"], 2, "a value such as max=250"),
        (
            ["en", "de", "--filter", "clean"],
            2,
            "2 inputs but 0 outputs. Expected one output per input",
        ),
        (["en", "de", "--filter", "clean", "-o", "x"], 2, "2 inputs but 1 outputs"),
        (["en", "--filter", "clean", "-o", "x", "y"], 2, "1 inputs but 2 outputs"),
        (["en", "de", "--filter", "clean", "-o", "en", "y"], 2, "must be different files"),
        (["en", "de", "--filter", "clean", "-o", "x", "./x"], 2, "must be different files"),
        (["en", "--filter", "identical", "-o", "x"], 2, "Pass a source and a target"),
        (["en", "de", "--filter", "clean", "--jobs", "0", "-o", "x", "y"], 2, "1 to 1000"),
        (
            ["en", "--filter", "clean", "--examples", "-1", "-o", "x"],
            2,
            "--examples: -1 is out of range. Expected 0 or more",
        ),
        (
            ["en", "--filter", "clean", "--memory", "1G", "-o", "x"],
            2,
            "--memory is for the filter dup",
        ),
        (
            ["en", "--filter", "duplicates", "--memory", "1X", "-o", "x"],
            2,
            "for example 500M or 4G",
        ),
        (
            ["en", "--filter", "duplicates", "--memory", "9", "-o", "x"],
            2,
            "9 bytes, which is too small",
        ),
        (["en", "--filter", "duplicates,duplicates", "-o", "x"], 2, "listed twice"),
        (["en", "--config", "bad.yaml", "-o", "x"], 1, "bad.yaml:1 is not valid YAML"),
        (["en", "--config", "shape.yaml", "-o", "x"], 2, "shape.yaml has no key"),
        (["en", "--config", "gone.yaml", "-o", "x"], 1, "gone.yaml does not exist"),
        (["en", "gone", "--filter", "encoding", "-o", "x", "y"], 1, "gone does not exist"),
        (["empty", "--filter", "clean", "-o", "x"], 1, "empty is empty"),
        (["empty", "empty", "--filter", "clean", "-o", "x", "y"], 1, "empty is empty"),
        (
            ["en", "short", "--filter", "encoding", "-o", "x", "y"],
            1,
            "short ends after line 7, but",
        ),
        (
            ["short", "de", "--filter", "encoding", "-o", "x", "y"],
            1,
            "short ends after line 7, but",
        ),
        (["latin", "--filter", "clean", "-o", "x"], 1, "latin:2 is not valid UTF-8: byte 4 of"),
        (["latin", "--filter", "clean", "-o", "x"], 1, "drop such lines with the filter encoding"),
        (["cut.gz", "--filter", "encoding", "-o", "x"], 1, "cut.gz cannot be read"),
    ],
)
def test_wrong_input(
    text: None, capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    Path("empty").touch()
    Path("short").write_bytes(b"a\n" * 7)
    Path("latin").write_bytes(b"cafe\ncaf\xe9\n")
    Path("bad.yaml").write_text("a: b: c")
    Path("shape.yaml").write_text("- clean")
    Path("cut.gz").write_bytes(gzip.compress(Path("en").read_bytes())[:-2000])
    assert filtered(*words) == code
    shown = capsys.readouterr().err
    assert told in shown
    assert "Traceback" not in shown
    assert not Path("x").exists()


@pytest.mark.parametrize("words", [[], ["--filter", "clean", "--config", "x"]])
def test_filters_come_from_one_place(text: None, words: list[str]) -> None:
    assert filtered("en", *words) == 2


def test_full_disk_is_reported_and_the_run_resumes(text: None) -> None:
    command = ["filter", "en", "de", "--filter", "encoding", "--jobs", "1", "-o"]
    assert main([*command, "whole", "there"]) == 0
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, -1)); "
        "from fairseq_ssl.io import blocks, outputs; outputs.PAUSE = 0.0; "
        "blocks.BLOCK_SIZE = 4096; from fairseq_ssl.cli.main import main; "
        f"sys.exit(main({[*command, 'x', 'y']}))"
    )
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "error: y could not be written: File too large" in done.stderr
    assert main([*command, "x", "y"]) == 0
    assert read("x", "y") == read("whole", "there")


def test_good_lines_are_unchanged(
    text: None, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Spaces, final carriage returns and Unicode line separators do not end lines."""
    given = "\u3000c\t\n  a\u2028b \r\n d".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert filtered("--filter", "encoding,clean,duplicates", "--jobs", "1") == 0
    assert capsysbinary.readouterr().out == given + b"\n"


def test_help_has_every_kind_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert filtered("--help") == 0
    shown = capsys.readouterr().out
    for words in ("clean ", "ratio=3.0", "langid ", "by=pair", "source-unit=tokens", "--memory"):
        assert words in shown


def test_stdin_is_a_text_without_a_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, "a b\n\n")
    assert shown(capsys, "filter", "-", "--filter", "clean", "--jobs", "1") == "a b\n"
    words = ("filter", "-", "target", "--filter", "clean", "-o", "x", "y")
    assert "cannot be stdin" in refused(capsys, 2, *words)
