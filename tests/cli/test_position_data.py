"""``fairseq-ssl position-data`` on text, and on invalid input."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from fairseq_ssl import __version__
from fairseq_ssl.cli.main import main
from tests.conftest import environment, run_command

ENGLISH = ("a b c", "d", "", "e  f", "g h i j", "k", "l", "m")
GERMAN = ("A", "B C D E", "F", "G", "H I", "", "K", "L")
SPLITS = ("train", "valid", "test")

Write = Callable[..., Path]


def make(kind: str, source: Path, output: Path, *flags: str) -> int:
    """Run the verb in this process."""
    return main(["position-data", kind, str(source), str(output), *flags])


def exit_code(words: list[str]) -> int | str | None:
    """Return the exit code, also if argparse rejects an option."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a folder of text with the same eight pairs in each split, except for given files."""

    def write_folder(**files: str | bytes) -> Path:
        folder = tmp_path / "text"
        folder.mkdir()
        for split, (language, lines) in product(SPLITS, {"en": ENGLISH, "de": GERMAN}.items()):
            content = files.pop(f"{split}_{language}", "\n".join([*lines, ""]))
            data = content.encode() if isinstance(content, str) else content
            (folder / f"{split}.{language}").write_bytes(data)
        assert not files, "names are split_language"
        return folder

    return write_folder


def read(path: Path) -> list[str]:
    """Return the lines of a plain or compressed file."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode().split("\n")[:-1]


def test_vanilla_is_the_corpus_itself(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, output = write(), tmp_path / "out"
    assert make("vanilla", text, output) == 0
    assert {path.name: path.read_bytes() for path in output.iterdir()} == {
        path.name: path.read_bytes() for path in text.iterdir()
    }
    assert capsys.readouterr().err.splitlines()[:3] == [f"{x}: 8 pairs -> 8" for x in SPLITS]


def test_extrapolate_drops_long_training_pairs_only(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert make("extrapolate", write(), output, "--limit", "3") == 0
    # English line 5 and German line 2 have four tokens; English line 1 has three.
    assert read(output / "train.en") == ["a b c", "", "e  f", "k", "l", "m"]
    assert read(output / "train.de") == ["A", "F", "G", "", "K", "L"]
    for split in ("valid", "test"):
        assert read(output / f"{split}.en") == list(ENGLISH)
        assert read(output / f"{split}.de") == list(GERMAN)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "train: 8 pairs -> 6 (longer than 3: 2)",
        "valid: 8 pairs -> 8",
        "test: 8 pairs -> 8",
        "position-data|kind:extrapolate|limit:3|form:text|languages:de-en"
        + (f"|input:{tmp_path}/text" if len(f"{tmp_path}/text") < 32 else "")
        + f"|version:{__version__}",
        f"wrote {output}",
    ]


def test_the_limit_of_the_thesis(write: Write, tmp_path: Path) -> None:
    lengths = (50, 51, 50)
    lines = "".join(" ".join(["x"] * n) + "\n" for n in lengths)
    text = write(train_en=lines, train_de="short\nshort\n" + lines.split("\n")[1] + "\n")
    assert make("extrapolate", text, tmp_path / "out") == 0
    assert read(tmp_path / "out" / "train.de") == ["short"]
    assert read(tmp_path / "out" / "train.en") == [" ".join(["x"] * 50)]


def test_interpolate_joins_adjacent_sentences_in_every_split(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert make("interpolate", write(), output, "--sentences", "3") == 0
    for split in SPLITS:
        assert read(output / f"{split}.en") == ["a b c <sep> d <sep>", "e  f <sep> g h i j <sep> k"]
        assert read(output / f"{split}.de") == ["A <sep> B C D E <sep> F", "G <sep> H I <sep>"]
    assert "valid: 8 pairs -> 2 (2 left over)\n" in capsys.readouterr().err
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "method": "position-data",
        "version": __version__,
        "kind": "interpolate",
        "sentences": 3,
        "separator": "<sep>",
        "form": "text",
        "languages": "de-en",
        "input": str(tmp_path / "text"),
        "splits": {split: {"pairs": 8, "written": 2} for split in SPLITS},
    }


def test_swapped_moves_the_first_sentence_to_the_end(write: Write, tmp_path: Path) -> None:
    joined, swapped = tmp_path / "joined", tmp_path / "swapped"
    assert make("interpolate", write(), joined, "--sentences", "4", "--separator", "|||") == 0
    assert make("swapped", joined, swapped, "--separator", "|||") == 0
    for split in SPLITS:
        assert read(swapped / f"{split}.en") == [
            "d ||| ||| e  f ||| a b c",
            "k ||| l ||| m ||| g h i j",
        ]
        assert read(swapped / f"{split}.de") == ["B C D E ||| F ||| G ||| A", "||| K ||| L ||| H I"]


def test_compressed_files_stay_compressed_and_lines_complete(tmp_path: Path) -> None:
    text, output = tmp_path / "text", tmp_path / "out"
    text.mkdir()
    odd = "a\u2028b\x0bc\x85d"
    (text / "train.en.gz").write_bytes(gzip.compress(f"{odd}\nb\r\n".encode()))
    (text / "train.de").write_text("A\nB\n")
    assert make("interpolate", text, output, "--sentences", "2") == 0
    assert sorted(path.name for path in output.iterdir()) == ["train.de", "train.en.gz"]
    assert read(output / "train.en.gz") == [f"{odd} <sep> b"]
    assert make("extrapolate", text, tmp_path / "short", "--limit", "1") == 0
    assert read(tmp_path / "short" / "train.en.gz") == ["b\r"]


DATA_FAULTS: list[tuple[str, dict[str, str | bytes], str]] = [
    (
        "interpolate",
        {"valid_de": "A\nB <sep> C\n" * 4},
        "valid.de:2 already has the separator '<sep>'",
    ),
    ("interpolate", {"test_en": "a\n", "test_de": "A\n"}, "has 1 sentences, too few to join 10"),
    ("swapped", {}, "train.de:1 has no '<sep>'. Expected joined sentences"),
    (
        "swapped",
        {"train_de": "A <sep> B\nC <sep> D\n", "train_en": "a <sep> b\nc d\n"},
        "train.en:2 has no '<sep>'",
    ),
    (
        "swapped",
        {"train_de": "A <sep> B\nC <sep> D\n", "train_en": "a <sep> b\nc <sep> d <sep>\n"},
        "train.de:2 joins 2 sentences but {text}/train.en:2 joins 3. Expected the same number",
    ),
    ("vanilla", {"valid_en": b"a\nb\xff\n" * 4}, "valid.en:2 is not valid UTF-8"),
    (
        "vanilla",
        {"test_de": "A\nB\n"},
        "test.de ends after line 2, but {text}/test.en has more lines",
    ),
    ("vanilla", {"test_de": "", "test_en": ""}, "test.de is empty"),
    ("vanilla", {"test_en": ""}, "test.en ends after line 0"),
    ("extrapolate", {"train_en": "a " * 51 + "\n", "train_de": "A\n"}, "no pair of at most 50"),
]


@pytest.mark.parametrize(("kind", "files", "message"), DATA_FAULTS)
def test_bad_data_is_reported_and_leaves_no_output(
    kind: str,
    files: dict[str, str | bytes],
    message: str,
    write: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = write(**files)
    if kind == "interpolate":  # otherwise the valid splits would have too few sentences
        for path in text.iterdir():
            if f"{path.stem}_{path.suffix[1:]}" not in files:
                path.write_text(path.read_text() * 2)
    assert make(kind, text, tmp_path / "out") == 1
    assert message.format(text=text) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [text]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["interpolate", "{text}", "out", "--limit", "9"], 2, "unknown argument '--limit'."),
        (["vanilla", "{text}", "out", "--separator", "|"], 2, "unknown argument '--separator'."),
        (["swapped", "{text}", "out", "--sentences", "2"], 2, "unknown argument '--sentences'."),
        (["extrapolate", "{text}", "out", "--limit", "0"], 2, "--limit: 0 is out of range"),
        (["interpolate", "{text}", "out", "--sentences", "1"], 2, "Expected 2 or more"),
        (["interpolate", "{text}", "out", "--separator", "a b"], 2, "Expected a token"),
        (["interpolate", "{text}", "out", "--separator", ""], 2, "Expected a token"),
        (["interpolate", "{text}", "out", "--separator", "</s>"], 2, "not one of <s> <pad> </s>"),
        (["vanilla", "{text}", "{text}"], 2, "would replace the input. Choose"),
        (["vanilla", "{text}", "{text}/..", "--force"], 2, "would replace the input. Choose"),
        (["vanilla", "{text}", "{text}/../text", "--force"], 2, "would replace the input"),
        (["vanilla", "{text}", "{there}"], 2, "exists. Set --force to replace it"),
        (
            ["vanilla", "{text}", "{there}", "--force"],
            2,
            "has no signature of position-data in there.json",
        ),
        (["vanilla", "{text}", "out", "-s", "en", "-t", "fr"], 2, "no pair of en and fr, only"),
        (["vanilla", "{text}/no", "out"], 1, "text/no is not a folder"),
        (["vanilla", "{there}", "out"], 1, "there has no parallel corpus"),
    ],
)
def test_wrong_options_are_rejected(
    words: list[str],
    code: int,
    message: str,
    write: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text, there = write(), tmp_path / "there"
    there.mkdir()
    (there / "thesis.tex").touch()
    words = ["position-data", *(word.format(text=text, there=there) for word in words)]
    assert exit_code(words) == code
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [text, there]
    assert len(list(text.iterdir())) == 6


def test_force_replaces_output_of_this_command(write: Write, tmp_path: Path) -> None:
    text, output = write(), tmp_path / "out"
    assert make("interpolate", text, output, "--sentences", "2") == 0
    (output / "extra").touch()
    assert make("extrapolate", text, output) == 2
    assert (output / "extra").exists()
    assert make("extrapolate", text, output, "--force") == 0
    assert read(output / "train.en") == list(ENGLISH)
    assert len(list(output.iterdir())) == 6
    assert json.loads((tmp_path / "out.json").read_text())["kind"] == "extrapolate"
    assert {path.name for path in tmp_path.iterdir()} == {"text", "out", "out.json"}


KILLED = """
import os, signal, sys
from fairseq_ssl.cli.main import main
from fairseq_ssl.text.parallel_folder import TextSplit
write = TextSplit.write
def write_and_die(self, pairs, folder):
    write(self, pairs, folder)
    os.kill(os.getpid(), signal.SIGKILL)
TextSplit.write = write_and_die
main(sys.argv[1:])
"""


def test_killed_run_leaves_no_output_and_can_be_repeated(write: Write, tmp_path: Path) -> None:
    words = ["position-data", "vanilla", str(write()), str(tmp_path / "out")]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], env=environment(), check=False)
    assert killed.returncode == -signal.SIGKILL
    assert {path.name for path in tmp_path.iterdir()} == {"text", "out.tmp", "out.lock"}
    (tmp_path / "out.tmp" / "train3.en").write_text("of another run\n")
    assert main(words) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"text", "out", "out.json"}
    assert len(list((tmp_path / "out").iterdir())) == 6


FULL = """
import resource, sys
from fairseq_ssl.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
sys.exit(main(sys.argv[1:]))
"""


def test_full_disk_is_reported_and_leaves_no_output(write: Write, tmp_path: Path) -> None:
    words = ["position-data", "vanilla", str(write()), str(tmp_path / "out")]
    shown = run_command(sys.executable, "-c", FULL, *words, code=1).stderr
    assert "out could not be written: " in shown
    assert "Traceback" not in shown
    assert {path.name for path in tmp_path.iterdir()} == {"text"}


ALONE = """
import sys
import fairseq_ssl
sys.modules.update({"fairseq": None, "torch": None})
from fairseq_ssl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_text_needs_neither_torch_nor_fairseq(write: Write, tmp_path: Path) -> None:
    words = ["position-data", "vanilla", str(write()), str(tmp_path / "out")]
    run_command(sys.executable, "-c", ALONE, *words)
    (tmp_path / "text" / "train.en-de.en.idx").touch()
    words[-1] += "2"
    shown = run_command(sys.executable, "-c", ALONE, *words, code=1).stderr
    assert "needs the package torch" in shown
