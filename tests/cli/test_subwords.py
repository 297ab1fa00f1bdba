"""``fairseq-ssl subwords``: train, encode, decode, dictionary."""

from __future__ import annotations

import gzip
import json
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
        shown(capsys, "subwords", "decode", "--subwords", kind)
        == "<BT> the cat\n<BT>\n<BT> over Haus\n"
    )


def test_signature_has_all_options(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--character-coverage", "0.9998", "--sample-lines", "50", "--seed", "7")
    model = tmp_path / "bpe"
    for _ in range(2):
        shown(capsys, "subwords", "train", text, text, "-o", model, "--size", "30", *words)
        signature = json.loads((tmp_path / "bpe.model.json").read_text(encoding="utf-8"))
        assert signature["kind"] == "sentencepiece"
        assert (signature["lines"], signature["seed"]) == (50, 7)
        assert (signature["coverage"], signature["model_type"]) == (0.9998, "bpe")
        assert signature["tags"] == []
        model = tmp_path / "again" / "bpe"
    first, again = (tmp_path / "bpe.vocab", tmp_path / "again" / "bpe.vocab")
    assert first.read_bytes() == again.read_bytes()


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


def test_processes_and_other_tags(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, output = tmp_path / "bpe.codes", tmp_path / "out"
    words = ("--kind", "subword-nmt", "--size", "20")
    shown(capsys, "subwords", "train", text, "-o", tmp_path / "bpe", *words)
    file = tmp_path / "tagged"
    file.write_text("<BT> the cat\n" * 1500, encoding="utf-8")
    more = ("--tags", "<BT>", "--jobs", "2", "-o", output)
    shown(capsys, "subwords", "encode", model, file, *more)
    lines = output.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1500
    assert {line.split()[0] for line in lines} == {"<BT>"}
    assert shown(capsys, "subwords", "dictionary", model, "--tags", "<BT>").endswith("\n<BT> 1\n")
    assert "<BT>" not in shown(capsys, "subwords", "dictionary", model)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--size 0", "--size: 0 is out of range. Expected 1 or more"),
        ("--size 30 --sample-lines 0", "--sample-lines: 0 is out"),
        (
            "--size 30 --character-coverage 0",
            "0 is out of range. Expected above 0",
        ),
        ("--size 30 --character-coverage 1.1", "up to 1"),
        ("--size 30 --kind subword-nmt --character-coverage 1", "need the kind sentencepiece"),
        ("--size 30 --kind subword-nmt --model-type bpe", "need the kind sentencepiece"),
        ("--size 30 --tags <unk>", "The tag is <unk>, a special symbol of fairseq"),
        ("--size 30 --tag <BT>", "Did you mean '--tags'?"),
    ],
)
def test_wrong_options(
    words: str, message: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("subwords", "train", text, "-o", tmp_path / "bpe")
    assert message in refused(capsys, 2, *command, *words.split())


def test_wrong_files(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, 2, "subwords", "encode", tmp_path / "bpe", "--tags", "<BT>", text)
    assert "is a file. Name files before --tags" in message
    message = refused(capsys, 1, "subwords", "encode", tmp_path / "bpe", text)
    assert "bpe.model or bpe.codes in its folder" in message
    (tmp_path / "other.model").touch()
    for step in (("encode", tmp_path / "other", text), ("dictionary", tmp_path / "other")):
        message = refused(capsys, 2, "subwords", *step, "-o", tmp_path / "other.model")
        assert "other.model is an input" in message
    (tmp_path / "bad").write_bytes(b"a\n\xff\n")
    for kind in KINDS:
        words = ("--size", "30", "--kind", kind, "-o", tmp_path / "bpe")
        message = refused(capsys, 1, "subwords", "train", text, tmp_path / "bad", *words)
        assert "bad:2 is not valid UTF-8" in message
    assert not list(tmp_path.glob("bpe*"))
