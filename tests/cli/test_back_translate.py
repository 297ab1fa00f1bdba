"""``fairseq-ssl back-translate``: output of the engines, parallelism, resuming, wrong input."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.inference import back_translation
from tests.cli.killing import kill
from tests.conftest import Run, run_command

pytest.importorskip("ctranslate2")


MODEL = ("--model", "m.pt", "--data-dir", "data")


@pytest.fixture(scope="module")
def folder(
    trained: Path, toy_text: Path, toy_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with a model, m.pt, its data, and a text of several blocks, mono."""
    made = tmp_path_factory.mktemp("back")
    (made / "m.pt").write_bytes((trained / "checkpoint_last.pt").read_bytes())
    (made / "data").symlink_to(toy_data)
    (made / "mono").write_bytes((toy_text / "valid.words").read_bytes())
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Change to a new folder with the model and the text, and divide texts into small blocks."""
    monkeypatch.setitem(back_translation.BLOCK_KIB, "cpu", 1)
    for name in ("m.pt", "mono", "data"):
        (tmp_path / name).symlink_to(folder / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMAND = ("back-translate", "mono", *MODEL, "--jobs", "1")
SMALL_BLOCKS = (
    "from fairseq_ssl.inference import back_translation; back_translation.BLOCK_KIB['cpu'] = 1; "
)


def made_by(*flags: str, name: str = "made", code: int = 0) -> bytes:
    """Run the command in this process and return its output."""
    assert main([*COMMAND, "-o", name, "--force", *flags]) == code
    return Path(name).read_bytes() if code == 0 else b""


CTRANSLATE2 = ("--engine", "ctranslate2")


def test_output_equals_fairseq_generate(here: Path, toy_data: Path) -> None:
    words = ("fairseq-generate", toy_data, "--path", "m.pt", "--gen-subset", "valid", "--cpu")
    search = ("--beam", "6", "--lenpen", "1", "--max-len-a", "0", "--max-len-b", "250")
    user = ("--user-dir", Path(__file__).parents[2] / "fairseq_ssl")
    shown = run_command(*words, *search, *user).stdout
    lines = {int(i): text for i, text in re.findall(r"^H-(\d+)\t\S+\t(.*)$", shown, re.M)}
    expected = "".join(f"{lines[i]}\n" for i in range(len(lines))).encode()
    assert made_by() == expected
    assert made_by(*CTRANSLATE2) == expected


def test_messages_of_fairseq_are_not_printed(here: Path, run: Run) -> None:
    """Hydra's warnings for programmers about fairseq's calls are hidden."""
    words = ("mono", *MODEL, "-o", "made", "--max-len-b", "9", "--jobs", "1", "--device", "cpu")
    told = run("fairseq-ssl", "back-translate", *words).stderr
    # A run of more than 30 s also prints its progress.
    lines = [line for line in told.splitlines() if not line.startswith("back-translate: ")]
    first, speed, signature = lines
    assert first.endswith(" pairs")
    assert "sentences/s" in speed
    assert signature.startswith("back-translate|engine:fairseq|")


def test_hypotheses_are_aligned_with_repeated_sources(here: Path) -> None:
    best = made_by(*CTRANSLATE2).splitlines()
    for engine in ("ctranslate2", "fairseq"):
        made = made_by("--engine", engine, "--nbest", "3", "--source-output", "given").splitlines()
        given = Path("given").read_bytes().splitlines()
        assert given == [line for line in Path("mono").read_bytes().splitlines() for _ in range(3)]
        assert made[::3] == best
        assert len(set(made[:3])) == 3


@pytest.mark.parametrize(
    "search",
    [
        CTRANSLATE2,
        (*CTRANSLATE2, "--sampling", "--sampling-topk", "3", "--nbest", "2"),
        ("--sampling", "--sampling-topk", "3", "--nbest", "2"),
        ("--noisy-beam-beta", "6"),
    ],
)
@pytest.mark.slow
def test_parts_of_shards_equal_one_run_and_seeds_differ(
    here: Path, search: tuple[str, ...]
) -> None:
    whole = made_by(*search)
    for number in (3, 1, 2):
        words = ("--shard", f"{number}/3", "--part-size", "1K", *search)
        assert main([*COMMAND, "-o", "parts/", *words]) == 0
    parts = [path.read_bytes() for path in sorted(Path("parts").glob("part-*"))]
    assert len(parts) > 3
    assert b"".join(parts) == whole
    again, other = (made_by(*search, "--seed", seed) for seed in "12")
    assert again == whole
    assert (other == whole) == (search == CTRANSLATE2)


@pytest.mark.slow
def test_noise_depends_only_on_the_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = made_by("--noisy-beam-beta", "6")
    assert noisy != made_by()
    assert made_by("--noisy-beam-beta", "0") == made_by()
    monkeypatch.setitem(back_translation.BLOCK_KIB, "cpu", 2)
    assert noisy == made_by("--noisy-beam-beta", "6", "--max-tokens", "60")


def test_processes_stdin_and_compressed_files_do_not_change_the_output(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    whole = made_by(*CTRANSLATE2)
    assert made_by(*CTRANSLATE2, "--jobs", "2") == whole
    assert gzip.decompress(made_by(*CTRANSLATE2, name="made.gz")) == whole
    Path("mono.gz").write_bytes(gzip.compress(Path("mono").read_bytes()))
    words = ["back-translate", *MODEL, *CTRANSLATE2, "--jobs", "1"]
    assert main([*words, "mono.gz", "-o", "unpacked"]) == 0
    assert Path("unpacked").read_bytes() == whole
    text = io.BytesIO(Path("mono").read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(text, "utf-8"))
    capsysbinary.readouterr()
    assert main(words) == 0
    assert capsysbinary.readouterr().out == whole


def test_untranslatable_lines_are_empty_and_counted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mono").unlink()
    Path("mono").write_bytes(b"one two\n\n" + b"one " * 9 + b"\n\xff\nthree four\n")
    made = made_by(*CTRANSLATE2, "--max-source-tokens", "5", "--source-output", "given").split(
        b"\n"
    )
    assert [bool(line) for line in made] == [True, False, False, False, True, False]
    assert Path("given").read_bytes() == Path("mono").read_bytes()
    told = capsys.readouterr().err
    assert "5 lines, 5 pairs, not translated and left empty: 1 blank, 1 too long, 1 und" in told
    assert re.search(r"[\d.]+ sentences/s, \d+ tokens/s written", told)
    beside = json.loads(Path("made.json").read_text())
    assert (beside["lines"], beside["blank"], beside["engine"]) == (5, 1, "ctranslate2")


def test_the_model_is_converted_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_by(*CTRANSLATE2)
    kept = Path("m.pt.ctranslate2-float32/model.bin")
    before = kept.stat().st_mtime_ns
    made_by(*CTRANSLATE2, "--beam", "2")
    assert kept.stat().st_mtime_ns == before
    assert made_by(*CTRANSLATE2) == made_by(*CTRANSLATE2, "--model", str(kept.parent))
    model = Path("m.pt").read_bytes()
    Path("m.pt").unlink()
    Path("m.pt").write_bytes(model)  # a new file, as after further training
    made_by(*CTRANSLATE2)
    assert kept.stat().st_mtime_ns != before


def test_killed_run_resumes(here: Path) -> None:
    lines = Path("mono").read_bytes()
    Path("mono").unlink()
    Path("mono").write_bytes(lines * 30)
    base = [*COMMAND, *CTRANSLATE2, "--source-output", "given", "-o"]
    whole = made_by(*CTRANSLATE2)
    assert 0 < kill([*base, "killed"], "killed", SMALL_BLOCKS) < len(whole)
    assert main([*base, "killed"]) == 0
    assert Path("killed").read_bytes() == whole
    assert Path("given").read_bytes() == Path("mono").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "culprit"),
    [
        (("--model", "nothing.pt"), 1, "nothing.pt"),
        (("--model", "folder"), 1, "folder"),
        (("--model", "ct2"), 1, "ct2"),
        ((*CTRANSLATE2, "--model", "nothing"), 1, "nothing"),
        ((*CTRANSLATE2, "--model", "ct2"), 1, "ct2"),
        ((*CTRANSLATE2, "--model", "mono"), 1, "mono"),
        (("--data-dir", "."), 1, "dict.words.txt"),
        (("--data-dir", "other"), 1, "other"),
        (("--source-output", "mono"), 2, "different files"),
        (("--source-output", "given/"), 2, "The outputs are of different kinds"),
        (("--shard", "1/2"), 2, "outputs that end with /"),
        (("--engine", "fairseq,ray"), 2, "--executor ray"),
        (("--fairseq-options=--no-such-flag 1",), 2, "--no-such-flag"),
        (("--model", "m.pt", "mono"), 2, "mono is not a checkpoint"),
    ],
)
def test_a_wrong_input_is_named(
    here: Path,
    words: tuple[str, ...],
    code: int,
    culprit: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("folder", "ct2", "other"):
        (here / name).mkdir()
    (here / "ct2" / "model.bin").write_text("cut")
    for name in ("dict.words.txt", "dict.digits.txt"):
        (here / "other" / name).write_text("one 1\n", encoding="utf-8")
    made_by(*words, code=code)
    assert culprit in capsys.readouterr().err
    assert not Path("made").exists()
