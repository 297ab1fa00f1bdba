"""Decoders of fairseq and CTranslate2: models, options and lengths that they support."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference import DecodingConfig, back_translate_file, load_model
from tests.unit.inference import random_models

LINES = ["a b c", "", "d e f g", "a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fairseq_ssl.register()
    path = tmp_path_factory.mktemp("decoders")
    random_models.translation(path / "t.pt", random_models.data_folder(path / "data"), 1)
    return path


def test_models_of_both_directions_are_no_ensemble(folder: Path) -> None:
    left = folder / "t.pt"
    right = random_models.translation(folder / "r.pt", folder / "data", 2, "--right-to-left")
    for models in ((left, right), (right, left)):
        with pytest.raises(UsageError, match="Some of the models decode from right to left"):
            load_model(DecodingConfig(models, folder / "data"), engine="fairseq")
    load_model(DecodingConfig((right, right), folder / "data"), engine="fairseq")


def test_a_path_can_have_a_colon_and_a_config_no_data_folder(folder: Path) -> None:
    path = folder / "a:b/t.pt"
    path.parent.mkdir()
    path.write_bytes((folder / "t.pt").read_bytes())
    model = load_model(DecodingConfig((path,)), folder / "data", engine="fairseq")
    assert model.translate(LINES) == load_model(folder / "t.pt", folder / "data").translate(LINES)


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_samples_from_more_symbols_than_there_are_are_rejected(folder: Path, engine: str) -> None:
    options: dict[str, Any] = {"sampling": True, "sampling_topk": 1000}
    config = DecodingConfig((folder / "t.pt",), folder / "data", **options)
    with pytest.raises((UsageError, DataError), match="sampling_topk"):
        load_model(config, engine=engine).translate(LINES)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--encoder-learned-pos", "--max-source-positions", "4"), [True, False, True]),
        (("--max-source-positions", "4"), [True, False, True]),
        (("--max-target-positions", "6"), [True, True, True]),
    ],
)
def test_lines_beyond_the_positions_of_ctranslate2_fail_alone(
    tmp_path: Path, flags: tuple[str, ...], expected: list[bool]
) -> None:
    data = random_models.data_folder(tmp_path / "data")
    path = random_models.translation(tmp_path / "t.pt", data, 6, *flags)
    config = DecodingConfig((path,), data, beam=2, max_len_b=8)
    found = load_model(config, engine="ctranslate2").translate(["a b c", "a b c d", "b"])
    assert [bool(line) for line in found] == expected
    (tmp_path / "in").write_text("a b c\na b c d\nb\n")
    summary = back_translate_file(tmp_path / "in", tmp_path / "out", config)
    assert summary is not None
    assert summary.failed == expected.count(False)
    if "--max-target-positions" in flags:
        assert max(len(line.split()) for line in found) <= 5
