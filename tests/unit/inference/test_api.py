"""Public names of fairseq_ssl.inference: engines, agreement with the CLI, threads and copies."""

from __future__ import annotations

import copy
import logging
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

import fairseq_ssl
from fairseq_ssl import inference
from fairseq_ssl.checkpoints.ensembles import load_models
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference import (
    CorrectionConfig,
    DecodingConfig,
    ScoringConfig,
    back_translate,
    back_translate_file,
    back_translation,
    correction,
    load_model,
    loading,
    nbest_scores,
    score_nbest_file,
)
from fairseq_ssl.inference.decoders import FairseqDecoder
from fairseq_ssl.io import executors
from tests.unit.inference import random_models

LINES = ["a b c", "", "d e f g", "a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fairseq_ssl.register()
    path = tmp_path_factory.mktemp("api")
    data = random_models.data_folder(path / "data")
    random_models.translation(path / "t.pt", data, 1)
    (path / "mono").write_text("".join(f"{line}\n" for line in LINES))
    return path


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_list_and_file_get_the_same_translations(folder: Path, engine: str, tmp_path: Path) -> None:
    model, data = folder / "t.pt", folder / "data"
    words = ["back-translate", str(folder / "mono"), "--model", str(model), "--data-dir", str(data)]
    words += ["--engine", engine, "--jobs", "1", "--beam", "3", "-o", str(tmp_path / "cli")]
    assert main(words) == 0
    expected = (tmp_path / "cli").read_text().splitlines()
    assert back_translate(LINES, model, engine, beam=3, data_dir=data) == expected
    config = DecodingConfig((model,), data, beam=3)
    loaded = load_model(config, engine=engine)
    assert loaded.translate(LINES) == expected
    assert loaded.translate(LINES[2:]) == expected[2:]
    summary = back_translate_file(folder / "mono", tmp_path / "again", config, engine=engine)
    assert summary is not None
    assert (summary.lines, summary.blank) == (4, 1)
    assert (tmp_path / "again").read_text().splitlines() == expected


@pytest.mark.parametrize("flags", [(), ("--task", "reconstruction_translation")])
def test_line_above_the_learned_positions_is_not_translated(
    flags: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    """Also by a model of both directions."""
    flags += "--encoder-learned-pos", "--max-source-positions", "6"
    path = random_models.translation(tmp_path / "t.pt", folder / "data", 1, *flags)
    config = DecodingConfig((path,), folder / "data", beam=2, max_len_b=5)
    lines = ["a b", "a b c d e f", "a b c d e"]  # 3, 7 and 6 tokens with </s>
    first, too_long, longest = load_model(config, engine="fairseq").translate(lines)
    assert (too_long, bool(first), bool(longest)) == ("", True, True)


def test_default_engine_of_a_folder_is_ctranslate2(folder: Path) -> None:
    config = DecodingConfig((folder / "t.pt",), folder / "data")
    model = load_model(config, engine="ctranslate2")
    (converted,) = model.config.model
    assert Path(converted).is_dir()
    assert load_model(converted).translate(LINES) == model.translate(LINES)


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_a_translation_model_is_shown_and_copied(folder: Path, engine: str) -> None:
    model = load_model(DecodingConfig((folder / "t.pt",), folder / "data", beam=2), engine=engine)
    assert re.fullmatch(r"TranslationModel\(model=\(.*t\.pt.*\),.*beam=2\)", repr(model))
    copied = pickle.loads(pickle.dumps(model))
    assert (repr(copied), copied.engine) == (repr(model), engine)
    assert copied.translate(LINES) == copy.deepcopy(model).translate(LINES)
    assert len(model.models) == (engine == "fairseq")


def tagger_checkpoint(folder: Path) -> Path:
    data = random_models.data_folder(folder / "data")
    sizes = (*random_models.SIZES, *random_models.HEADS)
    return random_models.encoding(folder / "tagger.pt", data, "edit_tagger", *sizes)


def test_a_corrector_is_shown_and_copied(folder: Path, tmp_path: Path) -> None:
    path, data = tagger_checkpoint(tmp_path), tmp_path / "data"
    before = torch.get_rng_state()
    model = inference.Corrector.from_pretrained(path, data_dir=data, tokenizer="none")
    assert torch.equal(torch.get_rng_state(), before)
    assert repr(model) == f"Corrector(models=({path!r},), data_dir={data!r}, tokenizer='none')"
    assert pickle.loads(pickle.dumps(model)).correct(["a b"]) == model.correct(["a b"])
    assert [type(module).__name__ for module in model.models] == ["EditTagger"]


def test_wrong_models_are_rejected(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, data = folder / "t.pt", folder / "data"
    language_model = random_models.language_model(folder / "lm.pt", data, 1)
    boost: dict[str, Any] = {"fluency_boost_lm": "lm.pt", "fluency_boost_data": "bin"}
    calls: dict[str, Callable[[], object]] = {
        "language_modeling": lambda: load_model(language_model, data),
        "marian": lambda: load_model(model, engine="marian"),
        "--none": lambda: load_model(DecodingConfig((model,), data, fairseq_options=("--none",))),
        "--temperature": lambda: load_model(
            DecodingConfig((model,), data, fairseq_options=("--temperature", "0"))
        ),
        "`fluency_boost_lm`": lambda: load_model(DecodingConfig((model,), data, **boost)),
        "is a folder": lambda: inference.Corrector.from_pretrained(folder, tokenizer="none"),
        "without a data folder": lambda: inference.Corrector.from_pretrained(
            model, tokenizer="none"
        ),
    }
    for culprit, call in calls.items():
        with pytest.raises((DataError, UsageError), match=culprit):
            call()
    assert "usage" not in capfd.readouterr().err


IGNORED = (
    *("--constraints", "--lm-path lm.pt", "--model-overrides {'beam':2}", "--post-process @@"),
    *("--prefix-size 2", "--print-alignment", "--replace-unk", "--score-reference"),
    *("--bpe characters", "--tokenizer space", "--seed 7", "--nbest 2", "--max-tokens 1"),
    *("--batch-size 1", "--buffer-size 2", "--num-shards 2", "--bf16", "--amp"),
)
"""Options of fairseq-generate that would have no effect."""


@pytest.mark.parametrize("option", IGNORED)
def test_options_without_effect_are_rejected(folder: Path, option: str) -> None:
    options = tuple(option.split())
    config = DecodingConfig((folder / "t.pt",), folder / "data", fairseq_options=options)
    with pytest.raises(UsageError, match=options[0]):
        load_model(config, engine="fairseq")


def test_copied_words_are_forgotten_after_each_block(tmp_path: Path) -> None:
    path = random_models.copying(tmp_path / "copying.pt", tmp_path / "data", 4 + 1)
    state = torch.load(path, weights_only=False)
    state["model"]["decoder.copy_attention.gate.bias"].fill_(-100)  # copy all words
    torch.save(state, path)
    config = DecodingConfig((path,), tmp_path / "data", beam=2, max_len_b=5)
    decoder = FairseqDecoder(config, 0)
    for words in (["old", "new"], ["new", "other"]):
        (hypotheses,) = decoder.decode([["a", *words]], [0])
        assert hypotheses is not None
        assert {"a", *words} >= set(hypotheses[0].split()) > set()
        assert decoder.task.source_dictionary.surfaces == []


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_unavailable_devices(folder: Path, engine: str) -> None:
    for device in ("gpu", "cuda:99"):
        config = DecodingConfig((folder / "t.pt",), folder / "data", device=device)
        with pytest.raises(UsageError, match=f"`device` is '{device}'"):
            load_model(config, engine=engine)


def test_each_process_has_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "gpu_count", lambda: 2)
    assert [loading.torch_device("cuda", worker).index for worker in (0, 1, 2)] == [0, 1, 0]
    assert loading.torch_device("cpu", 1).type == "cpu"


def test_models_keep_the_threads_of_torch_except_in_worker_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        load_model(folder / "t.pt", folder / "data")
        assert torch.get_num_threads() == 2
        load_model(DecodingConfig((folder / "t.pt",), folder / "data", threads=3))
        assert torch.get_num_threads() == 3
        monkeypatch.setattr(executors, "_work", print)
        load_model(folder / "t.pt", folder / "data")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("fields", "culprit"),
    [
        ({"model": ()}, "`model`"),
        ({"seed": 2**32}, "`seed` is 4294967296"),
        ({"fluency_boost_lm": "lm.pt"}, "`fluency_boost_data`"),
        ({"fluency_boost_data": "bin"}, "`fluency_boost_lm`"),
        ({"sampling_topk": 5}, "`sampling`"),
        ({"lenpen": -20}, "`lenpen` is -20"),
    ],
)
def test_invalid_decoding_options(fields: dict[str, Any], culprit: str) -> None:
    with pytest.raises(UsageError, match=culprit):
        DecodingConfig(**{"model": ("a.pt",), **fields})


@pytest.mark.parametrize("lines", ["a b c", ["a", None], ["a", "b\nc"], ["a\r\n"]])
def test_translations_need_one_sentence_per_line(folder: Path, lines: Any) -> None:
    model = load_model(folder / "t.pt", folder / "data")
    with pytest.raises((TypeError, DataError), match=r"list of lines|Line [12] "):
        model.translate(lines)


@pytest.mark.parametrize("is_kept", [False, True])
def test_files_are_processed_by_the_current_checkpoint(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    """Also by a process that is kept after a run, on a Ray cluster."""
    data, text, output = folder / "data", folder / "mono", tmp_path / "out"
    (tmp_path / "list").write_text("0 ||| u v ||| s= -1 ||| -1\n")
    caches = (back_translation.process_decoder, nbest_scores._scorer, correction._corrector)
    for cache in caches:
        cache.cache_clear()
        if is_kept:
            monkeypatch.setattr(cache, "cache_clear", lambda: None)
    found = set()
    for seed in (1, 2):
        model = random_models.translation(tmp_path / "t.pt", data, seed)
        config = DecodingConfig((model,), data)
        back_translate_file(text, output, config, engine="fairseq", overwrite=True)
        scoring = ScoringConfig("translation", (model,), data_dir=data)
        score_nbest_file(tmp_path / "list", tmp_path / "n", scoring, source=text, overwrite=True)
        found |= {output.read_text(), (tmp_path / "n").read_text()}
        tagger = tagger_checkpoint(tmp_path)
        tagging = CorrectionConfig((tagger,), tmp_path / "data", tokenizer="none")
        inference.correct_file(text, output, tagging, str, overwrite=True)
    assert len(found) == 4
    assert [cache.cache_info().misses for cache in caches] == [2 if is_kept else 1] * 3


@pytest.mark.parametrize("sampling", [False, True])
def test_translation_keeps_the_state_of_torch(folder: Path, sampling: bool) -> None:
    config = DecodingConfig((folder / "t.pt",), folder / "data", sampling=sampling, seed=3)
    before = torch.get_rng_state()
    model = load_model(config)
    level = logging.getLogger("fairseq").level
    expected = model.translate(LINES)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert model.translate(LINES) == expected
    load_model(config)
    assert logging.getLogger("fairseq").level == level == logging.NOTSET


@pytest.mark.parametrize("copies", [False, True])
def test_threads_get_the_same_translations(folder: Path, tmp_path: Path, copies: bool) -> None:
    path, data = folder / "t.pt", folder / "data"
    if copies:
        path, data = tmp_path / "copying.pt", tmp_path / "data"
        random_models.copying(path, data, 5)
    model = load_model(DecodingConfig((path,), data, sampling=not copies, max_len_b=6))
    texts = [["a b new", "d e"], ["f g old odd", "a other a"]] * 10
    expected = [model.translate(text) for text in texts]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(model.translate, texts)) == expected


@pytest.mark.parametrize("flushes", [False, True])
def test_loading_keeps_denormal_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, flushes: bool
) -> None:
    def load(*_: object) -> tuple[list[object], None, None]:
        torch.set_flush_denormal(not flushes)
        return [], None, None

    monkeypatch.setattr(checkpoint_utils, "load_model_ensemble_and_task", load)
    torch.set_flush_denormal(flushes)
    load_models([folder / "t.pt"])
    assert (np.float64(1e-310) * 0.5 == 0) == flushes


def test_a_line_with_a_lone_surrogate_has_an_empty_translation(folder: Path) -> None:
    model = load_model(folder / "t.pt", folder / "data")
    assert [bool(line) for line in model.translate(["a b", "a \ud800"])] == [True, False]


def test_configs_accept_numbers_of_numpy_and_lists(folder: Path) -> None:
    numbers: dict[str, Any] = {"iterations": np.int64(2), "keep_bias": np.float32(0.5)}
    config = CorrectionConfig((folder / "t.pt",), **numbers)
    assert (type(config.iterations), type(config.keep_bias)) == (int, float)
    lists: Any = ["--unkpen", "1"]
    assert hash(DecodingConfig(("a",), fairseq_options=lists))
    assert hash(ScoringConfig("translation", ("a",), languages=lists))


def test_models_of_both_directions_are_no_ensemble(folder: Path) -> None:
    left = folder / "t.pt"
    right = random_models.translation(folder / "r.pt", folder / "data", 2, "--right-to-left")
    for models in ((left, right), (right, left)):
        with pytest.raises(UsageError, match="right to left"):
            load_model(DecodingConfig(models, folder / "data"), engine="fairseq")
    load_model(DecodingConfig((right, right), folder / "data"), engine="fairseq")


def test_a_path_can_have_a_colon_and_a_config_no_data_folder(folder: Path) -> None:
    path = folder / "a:b/t.pt"
    path.parent.mkdir()
    path.write_bytes((folder / "t.pt").read_bytes())
    model = load_model(DecodingConfig((path,)), folder / "data", engine="fairseq")
    assert model.translate(LINES) == load_model(folder / "t.pt", folder / "data").translate(LINES)


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
