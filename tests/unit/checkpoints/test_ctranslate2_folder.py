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
from fairseq_ssl.errors import DataError
from fairseq_ssl.inference import export, load_model
from tests.unit.inference import random_models

QUANTIZATIONS = ("float32", "int8", "float16", "int16")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    data = random_models.data_folder(folder / "data")
    # vocabularies of different sizes, so that swapped vocabularies are detected
    (data / "dict.trg.txt").write_text("".join(f"{word} 1\n" for word in "tuvwxyz"))
    random_models.translation(folder / "t.pt", data, 1, "--max-source-positions", "20")
    shared = random_models.data_folder(folder / "shared")
    (shared / "dict.src.txt").write_bytes((shared / "dict.trg.txt").read_bytes())
    random_models.translation(folder / "shared.pt", shared, 1, "--share-all-embeddings")
    for kind in QUANTIZATIONS:
        for name, model, data_dir in (("", "t.pt", data), ("shared-", "shared.pt", shared)):
            output = folder / f"{name}{kind}"
            export(folder / model, output, "ctranslate2", data_dir=data_dir, quantization=kind)
    return folder


@pytest.fixture
def model(exported: Path, tmp_path: Path) -> Path:
    """Copy a model and remove its checksums, which other tools do not write."""
    shutil.copytree(exported / "float32", tmp_path / "model")
    (tmp_path / "model" / CHECKSUMS).unlink()
    return tmp_path / "model"


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes] | None]] = {
    "empty": ("model.bin", lambda _: b""),
    "zeros": ("model.bin", lambda data: bytes(len(data))),
    "text": ("model.bin", lambda _: b"<html>not found</html>"),
    "truncated header": ("model.bin", lambda data: data[:20]),
    "truncated weights": ("model.bin", lambda data: data[: len(data) // 2]),
    "without the end": ("model.bin", lambda data: data[:-1]),
    "no weights": ("model.bin", None),
    "no settings": ("config.json", None),
    "deep settings": ("config.json", lambda _: b"[" * 99_999),
    "no target vocabulary": ("target_vocabulary.json", None),
    "a vocabulary of numbers": ("source_vocabulary.json", lambda _: b"[1, 2]"),
}
"""Names and changes of files. None deletes the file."""


@pytest.mark.parametrize("kind", QUANTIZATIONS)
def test_exported_model_passes(exported: Path, kind: str) -> None:
    check_ctranslate2_folder(exported / kind)
    check_ctranslate2_folder(exported / f"shared-{kind}")
    assert (exported / kind / CHECKSUMS).exists()


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_in_one_line(model: Path, name: str) -> None:
    file, change = DAMAGES[name]
    if change is None:
        (model / file).unlink()
    else:
        (model / file).write_bytes(change((model / file).read_bytes()))
    with pytest.raises(DataError) as raised:
        load_model(model, engine="ctranslate2").translate(["a b"])
    assert str(model) in str(raised.value)
    assert "\n" not in str(raised.value)


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
    with pytest.raises(DataError, match=r"\.\./t\.pt"):
        check_ctranslate2_folder(model)


def test_lines_beyond_unknown_limits_fail_alone(model: Path, exported: Path) -> None:
    """Models of other programs and of earlier versions have no limits in config.json."""
    lines = ["a b", "a " * 30, "b"]
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**settings, "max_positions": None}))
    paths = (model, exported / "float32")
    found = [load_model(path, engine="ctranslate2").translate(lines) for path in paths]
    assert [bool(line) for line in found[0]] == [True, False, True]
    assert found[0] == found[1]
