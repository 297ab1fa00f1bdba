"""Validation of damaged CTranslate2 models."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("ctranslate2")

from fairseq_ssl.checkpoints.ctranslate2 import check_ctranslate2_folder
from fairseq_ssl.checkpoints.model_folder import CHECKSUMS, write_checksums
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError
from fairseq_ssl.inference import load_model
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


def settings(**changes: object) -> Damage:
    def change(data: bytes) -> bytes:
        return json.dumps({**json.loads(data), **changes}).encode()

    return rewrite(change, "config.json")


def without(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


DAMAGES: dict[str, Damage] = {
    "empty": rewrite(lambda _: b""),
    "zeros": rewrite(lambda data: bytes(len(data))),
    "text": rewrite(lambda _: b"<html>not found</html>"),
    "truncated header": truncate(0.0005),
    "truncated weights": truncate(0.5),
    "without the end": rewrite(lambda data: data[:-1]),
    "no weights": without("model.bin"),
    "no settings": without("config.json"),
    "truncated settings": rewrite(lambda data: data[:50], "config.json"),
    "deep settings": rewrite(lambda _: b"[" * 99_999, "config.json"),
    "no target vocabulary": without("target_vocabulary.json"),
    "a vocabulary of numbers": rewrite(lambda _: b"[1, 2]", "source_vocabulary.json"),
}


@pytest.mark.parametrize("kind", QUANTIZATIONS)
def test_exported_model_passes(exported: Path, kind: str) -> None:
    check_ctranslate2_folder(exported / kind)
    assert (exported / kind / CHECKSUMS).exists()


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_in_one_line(
    model: Path, name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    DAMAGES[name](model)
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


def test_lines_beyond_unknown_limits_fail_alone(model: Path, exported: Path) -> None:
    """Models of other programs and of earlier versions have no limits in config.json."""
    lines = ["a b", "a " * 30, "b"]
    settings(max_positions=None)(model)
    paths = (model, exported / "float32")
    found = [load_model(path, engine="ctranslate2").translate(lines) for path in paths]
    assert [bool(line) for line in found[0]] == [True, False, True]
    assert found[0] == found[1]
