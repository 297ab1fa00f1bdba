"""``fairseq-ssl noise``: parallelism, resuming, wrong input."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.io import blocks
from fairseq_ssl.noise import block_noise
from fairseq_ssl.noise.block_noise import CorpusNoise
from tests.cli.killing import kill

LINES = [f"w{n % 7} w{n % 11} a b c x{n % 1000} ." for n in range(3000)]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of many blocks, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "clean"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 4096)
    monkeypatch.setattr("fairseq_ssl.io.outputs.PAUSE", 0.0)


def noise(*words: str) -> int:
    return main(["noise", *words])


def unpacked(name: str) -> bytes:
    return gzip.decompress(Path(name).read_bytes())


def write_large(copies: int) -> None:
    """Write a text of several blocks of the default size."""
    Path("large").write_text("".join(f"{line}\n" for line in LINES * copies))


def test_outputs_are_aligned(text: Path, small_blocks: None) -> None:
    sides = ("--clean", "same", "--changed-positions", "touched", "--jobs", "1")
    assert noise("clean", "--method", "direct", "-o", "noisy", *sides) == 0
    assert Path("same").read_bytes() == text.read_bytes()
    noisy, touched = (Path(name).read_text().splitlines() for name in ("noisy", "touched"))
    assert len(noisy) == len(touched) == len(LINES)
    share = 0
    for before, after, places in zip(LINES, noisy, touched, strict=True):
        kept = [w for n, w in enumerate(before.split()) if n not in set(map(int, places.split()))]
        words = iter(after.split())
        assert all(any(word == other for other in words) for word in kept)
        share += len(places.split())
    found = json.loads(Path("noisy.json").read_text())
    assert found["changed"] == share
    assert found["lines"] == len(LINES)
    assert share / found["tokens"] == pytest.approx(0.55, abs=0.01)


def test_jobs_shards_pipes_and_compression_do_not_change_the_output(text: Path) -> None:
    """Blocks of 1 MiB, read by independent processes."""
    write_large(60)
    options = ("--method", "direct:keep=0.6,spelling", "--seed", "5", "--counts", "one.counts")
    assert noise("large", *options[:4], "-o", "one", "--jobs", "1") == 0
    assert noise("large", *options, "-o", "two", "--jobs", "2", "--clean", "same") == 0
    for shard in (1, 2, 3):
        assert noise("large", *options, "-o", "part", "--jobs", "1", "--shard", f"{shard}/3") == 0
    with gzip.open("large.gz", "wb", compresslevel=1) as packed:
        packed.write(Path("large").read_bytes())
    assert noise("large.gz", *options, "-o", "three.gz", "--jobs", "1") == 0
    with Path("large").open("rb") as file:
        command = [sys.executable, "-m", "fairseq_ssl", "noise", "-", *options]
        piped = subprocess.run(command, stdin=file, capture_output=True, check=True).stdout
    one = Path("one").read_bytes()
    assert Path("two").read_bytes() == one == piped == unpacked("three.gz")
    assert b"".join(Path(f"part.{n}-of-3").read_bytes() for n in (1, 2, 3)) == one
    assert one != Path("large").read_bytes() == Path("same").read_bytes()


def test_parallel_shards_count_words_once(text: Path) -> None:
    """As tasks of a Slurm array: one counts the words, the others wait."""
    command = ["noise", "clean", "--method", "denoise", "-o", "part", "--jobs", "1"]
    tasks = [
        subprocess.Popen(
            [sys.executable, "-m", "fairseq_ssl", *command, "--shard", f"{number}/3"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 2, 3)
    ]
    said = [task.communicate()[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0, 0], said
    assert noise("clean", "--method", "denoise", "-o", "whole", "--jobs", "1") == 0
    parts = b"".join(Path(f"part.{number}-of-3").read_bytes() for number in (1, 2, 3))
    assert parts == Path("whole").read_bytes()
    assert sorted(path.name for path in Path().glob("part.counts*")) == [
        "part.counts",
        "part.counts.json",
    ]


def test_another_seed_gives_other_noise(text: Path) -> None:
    for seed in ("1", "2"):
        command = ("clean", "--method", "denoise", "--seed", seed, "-o", seed, "--jobs", "1")
        assert noise(*command) == 0
    assert Path("1").read_bytes() != Path("2").read_bytes()


def test_failed_run_resumes(
    text: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("clean", "--method", "denoise", "--jobs", "1", "--counts", "whole.counts")
    assert noise("clean", "--method", "denoise", "--jobs", "1", "-o", "whole") == 0
    worked: list[int] = []
    left = [3, 6, 100]
    original = CorpusNoise.__call__

    def failing(self: CorpusNoise, block: blocks.ByteBlock) -> block_noise.NoisedBlock:
        if len(worked) == left[0]:
            left.pop(0)
            raise KeyboardInterrupt
        worked.append(block.number)
        return original(self, block)

    monkeypatch.setattr(CorpusNoise, "__call__", failing)
    assert noise(*command, "-o", "part.gz") == 130
    assert not Path("part.gz").exists()
    assert noise(*command, "-o", "part.gz") == 130
    assert noise(*command, "-o", "part.gz") == 0
    assert worked == sorted(set(worked)), "no block was done twice"
    assert unpacked("part.gz") == Path("whole").read_bytes()
    counts = [json.loads(Path(f"{name}.json").read_text()) for name in ("part.gz", "whole")]
    assert counts[0]["changed"] == counts[1]["changed"] > 0
    assert not list(Path().glob("*.tmp"))
    assert not list(Path().glob("*.progress"))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_run_stopped_after_the_last_block_only_renames_files(
    text: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    command = ("clean", "--method", "spelling", "--jobs", jobs)
    assert noise(*command, "-o", "whole") == 0

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fairseq_ssl.io.outputs.ResumableFiles.finish", stopped)
        assert noise(*command, "-o", "late") == 130
    assert noise(*command, "-o", "late") == 0
    assert Path("late").read_bytes() == Path("whole").read_bytes()


@pytest.mark.slow
def test_killed_run_resumes(text: Path) -> None:
    """SIGKILL the writing process twice. Its workers exit."""
    write_large(120)
    base = ["noise", "large", "--method", "spelling:rate=0.5", "--jobs", "2", "-o"]
    assert main([*base, "whole"]) == 0
    sizes = [kill([*base, "killed"], "killed") for _ in range(2)]
    assert 0 < sizes[0] < sizes[1] < Path("whole").stat().st_size
    assert main([*base, "killed"]) == 0
    assert Path("killed").read_bytes() == Path("whole").read_bytes()
    assert not list(Path().glob("*.parts")), "what processes handed over is gone"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_only_folders_of_killed_runs_are_deleted(text: Path, jobs: str) -> None:
    for name in ("killed", "own"):
        Path(f"{name}.parts/123.tmp").mkdir(parents=True)
        Path(f"{name}.parts/123.tmp/0.noisy").touch()
    Path("own.parts/1").mkdir()
    for name in ("killed", "own"):
        assert noise("clean", "--method", "spelling", "--jobs", jobs, "-o", name) == 0
    assert not Path("killed.parts").exists()
    assert list(Path("own.parts").iterdir()) == [Path("own.parts/1")]


def test_complete_output_is_not_repeated(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("clean", "--method", "spelling", "-o", "noisy", "--jobs", "1")
    assert noise(*command) == 0
    made = Path("noisy").stat().st_mtime_ns
    assert noise(*command) == 0
    assert Path("noisy").stat().st_mtime_ns == made
    assert "is complete" in capsys.readouterr().err
    assert noise(*command, "--seed", "2") == 2
    assert "noisy exists, and is not an output of this job" in capsys.readouterr().err
    assert noise(*command, "--seed", "2", "--force") == 0


def test_bad_lines_are_reported_or_skipped(
    text: Path, small_blocks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [line.encode() for line in LINES]
    bad = {700: b"", 900: b"caf\xe9", 1500: b"a\0b", 2000: b"w " * 10_001, 2001: b" \t"}
    for number, line in bad.items():
        good.insert(number, line)
    text.write_bytes(b"\n".join(good) + b"\n")
    command = ("clean", "--method", "spelling", "-o", "noisy", "--jobs", "1")
    assert noise(*command) == 1
    assert "clean:701 is blank. Fix the line" in capsys.readouterr().err
    assert noise(*command, "--force", "--shard", "2/2") == 1
    assert "clean:2001 has 10001 tokens. The maximum is 10000." in capsys.readouterr().err
    assert noise(*command, "--skip-bad-lines") == 2
    assert "needs --clean" in capsys.readouterr().err
    assert noise(*command, "--skip-bad-lines", "--clean", "same", "--force") == 0
    assert "5 bad lines skipped" in capsys.readouterr().err
    assert Path("same").read_text().splitlines() == LINES
    assert len(Path("noisy").read_text().splitlines()) == len(LINES)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["clean", "--method", "drect"], 2, "Did you mean 'direct'?"),
        (["clean", "--method", "direct:kepp=1"], 2, "Did you mean 'keep'?"),
        (["clean", "--method", "direct:keep=x"], 2, "a value such as keep=0.2"),
        (["clean", "--method", "direct:keep=0.9"], 2, "a sum of 1 or less"),
        (["clean", "--method", "spell"], 2, "fairseq-ssl confusion-sets"),
        (["clean", "--method", "spelling", "--seed", "-1"], 2, "Expected 0 or more"),
        (["clean", "--method", "spelling", "--jobs", "0"], 2, "Expected 1 to 1000"),
        (["clean", "--method", "spelling", "--shard", "4/3", "-o", "x"], 2, "I from 1 to N"),
        (["clean", "--method", "spelling", "--shard", "1/3"], 2, "--shard needs an -o file"),
        (["x.gz", "--method", "spelling", "--shard", "1/3", "-o", "x"], 2, "not compressed"),
        (["clean", "--method", "spelling", "-o", "clean"], 2, "must be different files"),
        (["x.tmp", "--method", "spelling", "-o", "x"], 2, "x.tmp would be overwritten"),
        (["clean", "--method", "spelling", "-o", "x", "--clean", "x.json"], 2, "x.json would be"),
        (["clean", "--method", "spelling", "--changed-positions", "x"], 2, "need an -o file"),
        (["clean", "--method", "spelling", "--address", "x"], 2, "--address needs --engine ray"),
        (["clean", "--method", "spelling", "--engine", "ray", "--jobs", "2"], 2, "Ray uses all"),
        (["gone", "--method", "spelling", "-o", "x"], 1, "gone does not exist"),
        (["empty", "--method", "spelling", "-o", "x"], 1, "empty is empty"),
        (["empty", "--method", "direct", "-o", "x"], 1, "empty has no words"),
        (["blank", "--method", "filtering", "-o", "x"], 1, "blank has no words"),
        (["clean", "--method", "direct", "--counts", "empty", "-o", "x"], 1, "empty has no words"),
        (["cut.gz", "--method", "spelling", "-o", "x"], 1, "cut.gz cannot be read"),
        (["clean", "--method", "direct", "--counts", "clean", "-o", "x"], 1, "a word, a space"),
    ],
)
def test_wrong_input(
    text: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    Path("empty").touch()
    Path("blank").write_text("\n \n")
    Path("cut.gz").write_bytes(gzip.compress(text.read_bytes())[:-2000])
    assert noise(*words) == code
    assert told in capsys.readouterr().err
    assert not [path.name for path in Path().glob("x*") if "empty" in words or "blank" in words]
    assert not Path("x").exists()


def test_all_methods_with_their_files(text: Path) -> None:
    """Learner errors and confusion sets are outputs of their commands."""
    text.write_text("she goes to the park .\nhe went to a dark park with them .\n" * 300)
    Path("learners").write_text("she go to park .\nhe went to to a dark park with them .\n" * 300)
    assert main(["confusion-sets", "clean", "-o", "sets", "--jobs", "1"]) == 0
    assert main(["learner-errors", "learners", "clean", "-o", "words"]) == 0
    files = ("--confusion-sets", "sets", "--learner-errors", "words", "--jobs", "1")
    for kind in ("spell:mean=0.5", "learner:listed=true", "learner", "filtering"):
        command = ("clean", "--method", kind, "-o", kind, "--changed-positions", f"{kind}.touched")
        assert noise(*command, *files) == 0
        assert len(Path(kind).read_text().splitlines()) == 600
    words = Path("spell:mean=0.5").read_text().split()
    assert words.count("dark") != words.count("park") + 300, "one is taken for the other"
    assert "the" in Path("learner").read_text().split()
    assert Path("learner:listed=true").read_text().count("to to") > 0


def test_failure_before_the_start_leaves_no_file(text: Path) -> None:
    assert noise("clean", "--method", "spell", "-o", "x") == 2
    assert not [path.name for path in Path().glob("x*") if "counts" not in path.name]
    Path("sets").write_text("a\tb c\n")
    command = ("clean", "--method", "spell", "-o", "x", "--jobs", "1")
    assert noise(*command, "--confusion-sets", "sets") == 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_full_disk_is_reported_and_the_run_resumes(text: Path, jobs: str) -> None:
    write_large(60)
    command = ["noise", "large", "--method", "spelling", "--jobs", jobs, "-o"]
    assert main([*command, "whole"]) == 0
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, -1)); "
        "from fairseq_ssl.io import outputs; outputs.PAUSE = 0.0; "
        f"from fairseq_ssl.cli.main import main; sys.exit(main({[*command, 'part']}))"
    )
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "part could not be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert main([*command, "part"]) == 0
    assert Path("part").read_bytes() == Path("whole").read_bytes()


def test_stdin_needs_counts_for_noise_that_draws_words(
    text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b c\n")))
    assert noise("--method", "direct") == 2
    assert "Set --counts to a file" in capsys.readouterr().err


def test_pipes_are_not_read_twice(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    assert noise("pipe", "--method", "direct") == 2
    assert "cannot be counted on stdin or in another pipe" in capsys.readouterr().err
    assert noise("clean", "--method", "direct", "--counts", "pipe", "-o", "x") == 2
    assert "pipe is a device or a pipe" in capsys.readouterr().err


def test_link_to_an_output_is_kept_and_a_folder_rejected(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("inner").mkdir()
    Path("link").symlink_to("inner/real")
    command = ("clean", "--method", "spelling", "--jobs", "1", "-o")
    assert noise(*command, "link") == 0
    assert Path("link").is_symlink()
    assert len(Path("inner/real").read_text().splitlines()) == len(LINES)
    assert noise(*command, "inner", "--force") == 2
    assert "inner is a folder" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["clean", "inner", "link", "link.json"]


def test_help_has_every_kind_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert noise("--help") == 0
    shown = capsys.readouterr().out
    for words in (
        "direct ",
        "keep=0.2",
        "spelling ",
        "rate=0.003",
        "learner ",
        "denoise ",
        "deviation=0.03",
    ):
        assert words in shown
