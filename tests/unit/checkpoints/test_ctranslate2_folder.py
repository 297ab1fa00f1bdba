"""Validation of damaged CTranslate2 models."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ctranslate2")

from fairseq_ssl.checkpoints.ctranslate2 import check_ctranslate2_folder
from fairseq_ssl.checkpoints.model_folder import CHECKSUMS, write_checksums
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError
from tests.unit.inference import random_models

QUANTIZATIONS = ("float32", "int8", "float16", "bfloat16", "int8_float16", "int16")
Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    data = random_models.data_folder(folder / "data")
    # vocabularies of different sizes, so that swapped vocabularies are detected
    (data / "dict.trg.txt").write_text("".join(f"{word} 1\n" for word in "tuvwxyz"))
    random_models.translation(folder / "t.pt", data, 1, "--max-source-positions", "20")
    words = ["export", str(folder / "t.pt"), "--to", "ctranslate2", "--data-dir", str(data)]
    for kind in QUANTIZATIONS:
        assert main([*words, "--quantization", kind, "-o", str(folder / kind)]) == 0
    return folder


@pytest.mark.parametrize("kind", QUANTIZATIONS)
def test_quantized_shared_embeddings_pass(kind: str, tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    (data / "dict.src.txt").write_bytes((data / "dict.trg.txt").read_bytes())
    random_models.translation(tmp_path / "t.pt", data, 1, "--share-all-embeddings")
    words = ["export", str(tmp_path / "t.pt"), "--to", "ctranslate2", "--data-dir", str(data)]
    assert main([*words, "--quantization", kind, "-o", str(tmp_path / "model")]) == 0
    check_ctranslate2_folder(tmp_path / "model")


@pytest.fixture
def model(exported: Path, tmp_path: Path) -> Path:
    """Copy a model and remove its checksums, which other tools do not write."""
    shutil.copytree(exported / "float32", tmp_path / "model")
    (tmp_path / "model" / CHECKSUMS).unlink()
    return tmp_path / "model"


def truncate(share: float) -> Damage:
    return rewrite(lambda data: data[: int(len(data) * share)])


def rewrite(change: Callable[[bytes], bytes], name: str = "model.bin") -> Damage:
    def damage(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(change(data))
        assert (folder / name).read_bytes() != data

    return damage


def at(position: int | bytes, value: bytes, after: int = 0) -> Damage:
    """Overwrite bytes at an offset, or `after` bytes after the end of a byte sequence."""

    def change(data: bytes) -> bytes:
        if isinstance(position, int):
            start = position
        else:
            start = data.index(position) + len(position) + after
        return data[:start] + value + data[start + len(value) :]

    return rewrite(change)


def settings(**changes: object) -> Damage:
    def change(data: bytes) -> bytes:
        return json.dumps({**json.loads(data), **changes}).encode()

    return rewrite(change, "config.json")


def without(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def swapped_vocabularies(folder: Path) -> None:
    names = ("source_vocabulary.json", "target_vocabulary.json")
    one, other = [(folder / name).read_bytes() for name in names]
    (folder / names[0]).write_bytes(other)
    (folder / names[1]).write_bytes(one[:-1].rstrip() + b',\n  "h"\n]')


def one_word_more(data: bytes) -> bytes:
    return json.dumps([*json.loads(data), "more"]).encode()


def one_word_twice(data: bytes) -> bytes:
    words = json.loads(data)
    return json.dumps([*words[:-1], words[-2]]).encode()


BETA, NORM = b"decoder/layer_0/attention/layer_norm/beta\0", b"layer_norm/beta\0"
EMBEDDINGS = b"encoder/embeddings_0/weight\0"
DAMAGES: dict[str, tuple[Damage, str]] = {
    "empty": (rewrite(lambda _: b""), "is truncated"),
    "zeros": (rewrite(lambda data: bytes(len(data))), "has the format 0"),
    "text": (rewrite(lambda _: b"<html>not found</html>"), "has the format"),
    "truncated header": (truncate(0.0005), "damaged name"),
    "truncated name": (rewrite(lambda data: data[:40]), "damaged name"),
    "truncated weights": (truncate(0.5), "ends within"),
    "truncated last weight": (truncate(0.9), "ends within|is truncated|damaged name"),
    "truncated aliases": (rewrite(lambda data: data[:-3]), "damaged name"),
    "without the end": (rewrite(lambda data: data[:-1]), "damaged name"),
    "bytes too many": (rewrite(lambda data: data + b"\0"), "has 1 bytes too many"),
    "another format": (at(0, b"\x05"), "has the format 5, expected 6"),
    "another kind": (at(6, b"W"), "is a 'WransformerSpec'"),
    "another revision": (at(b"TransformerSpec\0", b"\x06"), "has the revision 6, expected"),
    "a future revision": (at(b"TransformerSpec\0", b"\x63"), "has the revision 99, expected"),
    "fewer variables": (at(b"TransformerSpec\0", b"\x20", 4), "aliases|name|truncated|type|size"),
    "more variables": (at(b"TransformerSpec\0", b"\xff\xff", 4), "name|truncated|type|size"),
    "another name": (at(b"decoder/layer_0/ffn/linear_0/", b"w"), "decoder/layer_0/ffn/linear_0/"),
    "an unknown optional": (at(b"decoder/layer_0/ffn/linear_0/b", b"y"), "should not have it"),
    "a layer too many": (at(b"encoder/layer_", b"1"), "lacks 'encoder/layer_"),
    "a name that is not ASCII": (at(b"decoder/", b"\xff"), "damaged name"),
    "many dimensions": (at(BETA, b"\xff"), "has 255 dimensions"),
    "another shape": (at(BETA, b"\x09", 1), "size or the name"),
    "a huge shape": (at(BETA, b"\xff\xff\xff\x7f", 1), "size or the name"),
    "an unknown type": (at(BETA, b"\x09", 5), "unknown type 9"),
    "another type of the same size": (at(BETA, b"\x03", 5), "weights of the types float32, int32"),
    "another size": (at(BETA, b"\x09", 6), "size or the name"),
    "rows and columns": (
        at(EMBEDDINGS, struct.pack("<II", 8, 11), 1),
        r"encoder/embeddings_0/weight of the shape \[8, 11\]",
    ),
    "not a number": (at(BETA, np.array(np.nan, np.float32).tobytes(), 10), "infinite values"),
    "infinite": (at(EMBEDDINGS, np.array(np.inf, np.float32).tobytes(), 14), "infinite values"),
    "no heads": (at(b"encoder/num_heads\0", b"\0\0", 6), "number of attention heads"),
    "three heads": (at(b"encoder/num_heads\0", b"\x03\0", 6), "wrong number of heads"),
    "an alias of an unknown variable": (
        rewrite(lambda data: data[:-3] + b"xx\0"),
        "list of aliases",
    ),
    "no weights": (without("model.bin"), "model.bin cannot be read"),
    "no settings": (without("config.json"), "config.json cannot be read"),
    "truncated settings": (rewrite(lambda data: data[:50], "config.json"), "is not JSON"),
    "settings that are a list": (rewrite(lambda _: b"[]", "config.json"), "is not a dict"),
    "deep settings": (rewrite(lambda _: b"[" * 99_999, "config.json"), "is not JSON"),
    "a token unknown": (settings(eos_token="</t>"), "eos_token '</t>'"),
    "a token missing": (settings(unk_token=None), "unk_token 'None'"),
    "a token that is a number": (settings(decoder_start_token=3), "decoder_start_token '3'"),
    "a switch that is text": (settings(add_source_eos="no"), "wrong value for add_source_eos"),
    "no source vocabulary": (without("source_vocabulary.json"), "source_vocabulary.json cannot"),
    "no target vocabulary": (without("target_vocabulary.json"), "target_vocabulary.json cannot"),
    "vocabularies swapped": (swapped_vocabularies, "the target vocabulary has 12"),
    "a word more": (rewrite(one_word_more, "target_vocabulary.json"), "has 12 words"),
    "a repeated word": (rewrite(one_word_twice, "source_vocabulary.json"), "has a repeated word"),
    "a vocabulary of numbers": (rewrite(lambda _: b"[1, 2]", "source_vocabulary.json"), "words"),
    "a truncated vocabulary": (
        rewrite(lambda data: data[:30], "source_vocabulary.json"),
        "is not JSON",
    ),
}


@pytest.mark.parametrize("kind", QUANTIZATIONS)
def test_exported_model_passes(exported: Path, kind: str) -> None:
    check_ctranslate2_folder(exported / kind)
    assert (exported / kind / CHECKSUMS).exists()


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_in_one_line(
    model: Path, name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    damage, message = DAMAGES[name]
    damage(model)
    with pytest.raises(DataError, match=message):
        check_ctranslate2_folder(model)
    (tmp_path / "text").write_text("a b\n")
    words = ["back-translate", tmp_path / "text", "--model", model, "--engine", "ctranslate2"]
    assert main([*map(str, words), "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err.strip()
    assert error.startswith("fairseq-ssl back-translate: error: ")
    assert "\n" not in error


def test_checksums_detect_each_changed_byte(model: Path) -> None:
    write_checksums(model)
    check_ctranslate2_folder(model)
    generator = random.Random(1)
    for path in sorted(model.iterdir()):
        data = path.read_bytes()
        for _ in range(10 if path.name != CHECKSUMS else 1):
            index = generator.randrange(len(data))
            path.write_bytes(data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :])
            with pytest.raises(DataError):
                check_ctranslate2_folder(model)
        path.write_bytes(data)
    check_ctranslate2_folder(model)
    (model / CHECKSUMS).write_text('{"../t.pt": "0"}')
    with pytest.raises(DataError, match=r"names the file '\.\./t\.pt', which does not exist"):
        check_ctranslate2_folder(model)


def test_random_damage_raises_only_data_errors(model: Path) -> None:
    """Without checksums, changed bytes, deletions and repetitions in weights are not detected."""
    generator = random.Random(2)
    original = (model / "model.bin").read_bytes()
    detected = 0
    for _ in range(300):
        start = generator.randrange(len(original) if generator.random() < 0.5 else 200)
        values = (b"\0", b"\xff", b"\x7f" * 4, generator.randbytes(1), original[:50])
        value = generator.choice(values)
        ending = original[start + generator.choice((0, len(value), len(value), 10_000)) :]
        (model / "model.bin").write_bytes(original[:start] + value + ending)
        try:
            check_ctranslate2_folder(model)
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017 - not all damage is detected
            detected += 1
    assert detected > 150
