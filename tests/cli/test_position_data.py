"""``fairseq-ssl position-data`` on text, and on invalid input."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import refused

ENGLISH = ("a b c", "d", "", "e  f", "g h i j", "k", "l", "m")
GERMAN = ("A", "B C D E", "F", "G", "H I", "", "K", "L")
SPLITS = ("train", "valid", "test")

Write = Callable[..., Path]


def make(kind: str, source: Path, output: Path, *flags: str) -> int:
    """Run the command in this process."""
    return main(["position-data", kind, str(source), str(output), *flags])


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
    assert "train: 8 pairs -> 6 (longer than 3: 2)\n" in capsys.readouterr().err


def test_the_limit_of_the_thesis(write: Write, tmp_path: Path) -> None:
    long, longer = " ".join("x" * 50), " ".join("x" * 51)
    text = write(train_en=f"{long}\n{longer}\na\n", train_de=f"A\nB\n{longer}\n")
    assert make("extrapolate", text, tmp_path / "out") == 0
    assert read(tmp_path / "out" / "train.en") == [long]


def test_interpolate_joins_adjacent_sentences_in_every_split(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert make("interpolate", write(), output, "--sentences", "3") == 0
    for split in SPLITS:
        assert read(output / f"{split}.en") == ["a b c <sep> d <sep>", "e  f <sep> g h i j <sep> k"]
        assert read(output / f"{split}.de") == ["A <sep> B C D E <sep> F", "G <sep> H I <sep>"]
    assert "valid: 8 pairs -> 2 (2 left over)\n" in capsys.readouterr().err
    signature = json.loads((tmp_path / "out.json").read_text())
    assert (signature["sentences"], signature["separator"]) == (3, "<sep>")
    assert signature["splits"] == {split: {"pairs": 8, "written": 2} for split in SPLITS}


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
    ("interpolate --sentences 2", {"valid_de": "A\nB <sep> C\n" * 4}, "valid.de:2"),
    ("interpolate --sentences 2", {"test_en": "a\n", "test_de": "A\n"}, "test."),
    ("swapped", {"train_de": "A <sep> B\n", "train_en": "a b\n"}, "train.en:1"),
    ("swapped", {"train_de": "A <sep> B\n", "train_en": "a <sep> b <sep>\n"}, "train.de:1"),
    ("vanilla", {"valid_en": b"a\nb\xff\n" * 4}, "valid.en:2"),
    ("vanilla", {"test_de": "A\nB\n"}, "test.de"),
    ("vanilla", {"test_de": "", "test_en": ""}, "test.de"),
    ("extrapolate", {"train_en": "a " * 51 + "\n", "train_de": "A\n"}, "50"),
]


@pytest.mark.parametrize(("words", "files", "culprit"), DATA_FAULTS)
def test_bad_data_is_reported_and_leaves_no_output(
    words: str,
    files: dict[str, str | bytes],
    culprit: str,
    write: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = write(**files)
    output = tmp_path / "out"
    assert culprit in refused(capsys, 1, "position-data", *words.split(), text, output)
    assert list(tmp_path.iterdir()) == [text]


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
