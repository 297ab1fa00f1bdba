"""``fairseq-ssl noise``: parallelism, resuming, wrong input."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.io import blocks
from fairseq_ssl.io.parts import BlockResult
from fairseq_ssl.noise.block_noise import CorpusNoise
from tests.cli.killing import EAGER, kill
from tests.cli.rewriting import refused

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


def test_changed_tokens_are_counted(text: Path, small_blocks: None) -> None:
    method = "direct:keep=0.5:mask=0.5"
    assert noise("clean", "--method", method, "-o", "noisy", "--jobs", "1") == 0
    words = [line.split() for line in Path("noisy").read_text().splitlines()]
    masked = sum(line.count("<mask>") for line in words)
    for before, after in zip(LINES, words, strict=True):
        assert all(word in ("<mask>", one) for word, one in zip(after, before.split(), strict=True))
    found = json.loads(Path("noisy.json").read_text())
    assert found["changed"] == masked
    assert found["lines"] == len(LINES)
    assert masked / found["tokens"] == pytest.approx(0.5, abs=0.01)


def test_jobs_shards_pipes_and_compression_do_not_change_the_output(text: Path) -> None:
    """Blocks of 1 MiB, read by independent processes."""
    write_large(60)
    options = ("--method", "direct:keep=0.6,characters", "--seed", "5", "--counts", "one.counts")
    assert noise("large", *options[:4], "-o", "one", "--jobs", "1") == 0
    assert noise("large", *options, "-o", "two", "--jobs", "2") == 0
    for shard in (1, 2, 3):
        how = ("--jobs", "1", "--part-size", "1M", "--shard", f"{shard}/3")
        assert noise("large", *options, "-o", "parts/", *how) == 0
    with gzip.open("large.gz", "wb", compresslevel=1) as packed:
        packed.write(Path("large").read_bytes())
    assert noise("large.gz", *options, "-o", "three.gz", "--jobs", "1") == 0
    with Path("large").open("rb") as file:
        command = [sys.executable, "-m", "fairseq_ssl", "noise", "-", *options]
        piped = subprocess.run(command, stdin=file, capture_output=True, check=True).stdout
    one = Path("one").read_bytes()
    assert Path("two").read_bytes() == one == piped == unpacked("three.gz")
    parts = sorted(Path("parts").glob("part-*"))
    assert len(parts) > 3
    assert b"".join(path.read_bytes() for path in parts) == one
    assert one != Path("large").read_bytes()


def test_failed_run_resumes(
    text: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("clean", "--method", "shuffle", "--jobs", "1", "--counts", "whole.counts")
    assert noise("clean", "--method", "shuffle", "--jobs", "1", "-o", "whole") == 0
    worked: list[int] = []
    left = [3, 6, 100]
    original = CorpusNoise.__call__

    def failing(self: CorpusNoise, block: blocks.Block) -> BlockResult:
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


@pytest.mark.slow
def test_killed_run_resumes(text: Path) -> None:
    """SIGKILL the writing process twice. Its workers exit."""
    write_large(120)
    base = ["noise", "large", "--method", "characters:rate=0.5", "--jobs", "2", "-o"]
    assert main([*base, "whole"]) == 0
    sizes = [kill([*base, "killed"], "killed") for _ in range(2)]
    assert 0 < sizes[0] < sizes[1] < Path("whole").stat().st_size
    assert main([*base, "killed"]) == 0
    assert Path("killed").read_bytes() == Path("whole").read_bytes()


def test_bad_lines_are_reported(
    text: Path, small_blocks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [line.encode() for line in LINES]
    bad = {700: b"", 900: b"caf\xe9", 1500: b"a\0b", 2000: b"w " * 10_001, 2001: b" \t"}
    for number, line in bad.items():
        good.insert(number, line)
    text.write_bytes(b"\n".join(good) + b"\n")
    command = ("clean", "--method", "characters", "-o", "noisy", "--jobs", "1")
    assert "clean:701" in refused(capsys, 1, "noise", *command)
    folder = (*command[:3], "-o", "parts/", "--part-size", "4K", "--jobs", "1")
    assert "clean:701" in refused(capsys, 1, "noise", *folder)
    assert "clean:2001" in refused(capsys, 1, "noise", *folder, "--shard", "2/2")


def test_all_methods_with_their_files(text: Path) -> None:
    """Learner errors and confusion sets are outputs of their commands."""
    text.write_text("she goes to the park .\nhe went to a dark park with them .\n" * 300)
    Path("learners").write_text("she go to park .\nhe went to to a dark park with them .\n" * 300)
    assert main(["confusion-sets", "clean", "-o", "sets", "--jobs", "1"]) == 0
    assert main(["learner-errors", "learners", "clean", "-o", "words"]) == 0
    files = ("--confusion-sets", "sets", "--learner-errors", "words", "--jobs", "1")
    for kind in ("confusion:mean=0.5", "learner:listed=true", "learner", "negatives"):
        assert noise("clean", "--method", kind, "-o", kind, *files) == 0
        assert len(Path(kind).read_text().splitlines()) == 600
    words = Path("confusion:mean=0.5").read_text().split()
    assert words.count("dark") != words.count("park") + 300, "one is taken for the other"
    assert "the" in Path("learner").read_text().split()
    assert Path("learner:listed=true").read_text().count("to to") > 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_full_disk_is_reported_and_the_run_resumes(text: Path, jobs: str) -> None:
    write_large(60)
    command = ["noise", "large", "--method", "characters", "--jobs", jobs, "-o"]
    assert main([*command, "whole"]) == 0
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, -1)); "
    run = f"from fairseq_ssl.cli.main import main; sys.exit(main({[*command, 'part']}))"
    words = [sys.executable, "-c", f"{limit}{EAGER}{run}"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "part could not be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert main([*command, "part"]) == 0
    assert Path("part").read_bytes() == Path("whole").read_bytes()
