"""``fairseq-ssl subwords``: train, encode, decode, dictionary."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from fairseq.data import Dictionary

from tests.cli.rewriting import given, refused, shown

WORDS = ["the", "cat", "lower", "newest", "widest", "Haus", "über", "running", ".", "on"]
KINDS = ("sentencepiece", "subword-nmt")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    draw = random.Random(1)
    file = tmp_path / "text.gz"
    lines = (" ".join(draw.choices(WORDS, k=6)) for _ in range(300))
    file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(
    kind: str,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "models" / "bpe.en"
    words = ("--kind", kind, "--size", "32", "--tags", "<BT>", "<FT>")
    shown(capsys, "subwords", "train", text, "-o", model, *words)
    given(monkeypatch, "the cat\n\nover Haus\n")
    tagged = shown(capsys, "tag", "<BT>")
    given(monkeypatch, tagged)
    pieces = shown(capsys, "subwords", "encode", model)
    assert [line.split(" ")[0] for line in pieces.split("\n")] == ["<BT>"] * 3 + [""]
    shown(capsys, "subwords", "dictionary", model, "-o", tmp_path / "dict.txt")
    loaded = Dictionary.load(str(tmp_path / "dict.txt"))
    assert {"<BT>", "<FT>"} < set(loaded.symbols)
    assert "<unk>" not in loaded.string(loaded.encode_line(pieces.replace("v", "w"))).split()
    given(monkeypatch, pieces)
    assert (
        shown(capsys, "postprocess", "--subwords", kind) == "<BT> the cat\n<BT>\n<BT> over Haus\n"
    )


@pytest.mark.parametrize(
    ("kind", "made", "size"), [("sentencepiece", "model", 31), ("subword-nmt", "codes", 8)]
)
def test_a_model_is_not_replaced_unless_asked(
    kind: str, made: str, size: int, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("subwords", "train", text, "-o", tmp_path / "bpe", "--kind", kind, "--size")
    shown(capsys, *command, str(size))
    before = [path.read_bytes() for path in sorted(tmp_path.glob("bpe*"))]
    message = refused(capsys, 2, *command, str(size + 1))
    assert f"bpe.{made} exists. Set --force to replace it, or choose another output." in message
    assert [path.read_bytes() for path in sorted(tmp_path.glob("bpe*"))] == before
    shown(capsys, *command, str(size + 1), "--force")
    assert (tmp_path / f"bpe.{made}").read_bytes() not in before
    (tmp_path / f"bpe.{made}").unlink()
    assert "bpe.vocab exists" in refused(capsys, 2, *command, str(size))


def test_processes_do_not_change_the_output(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, output = tmp_path / "bpe.codes", tmp_path / "out"
    words = ("--kind", "subword-nmt", "--size", "20", "--tags", "<BT>")
    shown(capsys, "subwords", "train", text, "-o", tmp_path / "bpe", *words)
    file = tmp_path / "tagged"
    file.write_text("<BT> the cat\n" * 1500, encoding="utf-8")
    more = ("--jobs", "2", "-o", output)
    shown(capsys, "subwords", "encode", model, file, *more)
    lines = output.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1500
    assert {line.split()[0] for line in lines} == {"<BT>"}
    assert shown(capsys, "subwords", "dictionary", model).endswith("\n<BT> 1\n")
