"""Public names of fairseq_ssl.inference: docstrings, doctests, and agreement with the CLI."""

from __future__ import annotations

import copy
import doctest
import logging
import math
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

import fairseq_ssl
from fairseq_ssl import inference
from fairseq_ssl.analysis.edit_tuning import tune_edit_confidence
from fairseq_ssl.cli import correct
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import ConfigurationError, DataError, UsageError
from fairseq_ssl.inference import (
    CorrectionConfig,
    DecodingConfig,
    ScoringConfig,
    back_translate,
    back_translate_file,
    load_model,
    loading,
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


@pytest.mark.parametrize("module", ["", ".translation", ".scoring", ".back_translation"])
def test_examples(module: str) -> None:
    results = doctest.testmod(import_module(f"fairseq_ssl.inference{module}"))
    assert results.failed == 0


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_list_and_file_get_the_same_translations(folder: Path, engine: str, tmp_path: Path) -> None:
    model, data = folder / "t.pt", folder / "data"
    words = ["back-translate", str(folder / "mono"), "--model", str(model), "--data-dir", str(data)]
    words += ["--engine", engine, "--jobs", "1", "--beam", "3", "-o", str(tmp_path / "cli")]
    assert main(words) == 0
    expected = (tmp_path / "cli").read_text().splitlines()
    assert back_translate(LINES, model, 3, engine, data_dir=data) == expected
    config = DecodingConfig((model,), data, beam=3)
    loaded = load_model(config, engine=engine)
    assert loaded.translate(LINES) == expected
    assert loaded.translate(LINES[2:]) == expected[2:]
    summary = back_translate_file(folder / "mono", tmp_path / "again", config, engine=engine)
    assert summary is not None
    assert (summary.lines, summary.blank) == (4, 1)
    assert (tmp_path / "again").read_text().splitlines() == expected


def test_line_above_the_learned_positions_is_not_translated(folder: Path, tmp_path: Path) -> None:
    flags = "--encoder-learned-pos", "--max-source-positions", "6"
    path = random_models.translation(tmp_path / "t.pt", folder / "data", 1, *flags)
    config = DecodingConfig((path,), folder / "data", beam=2, max_len_b=5)
    lines = ["a b", "a b c d e f", "a b c d e"]  # 3, 7 and 6 tokens with </s>
    first, too_long, longest = load_model(config, engine="fairseq").translate(lines)
    assert (too_long, bool(first), bool(longest)) == ("", True, True)


def test_a_two_way_model_has_the_limit_of_its_learned_positions(
    folder: Path, tmp_path: Path
) -> None:
    flags = "--encoder-learned-pos", "--max-source-positions", "6"
    task = "--task", "reconstruction_translation"
    path = random_models.translation(tmp_path / "t.pt", folder / "data", 1, *task, *flags)
    model = load_model(DecodingConfig((path,), folder / "data", beam=2), engine="fairseq")
    first, too_long = model.translate(["a b", "a b c d e f"])
    assert (too_long, bool(first)) == ("", True)


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
    assert all(isinstance(module, torch.nn.Module) for module in model.models)
    assert len(model.models) == (engine == "fairseq")


def test_a_corrector_is_shown_and_copied(folder: Path, tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    sizes = (*random_models.SIZES, *random_models.HEADS)
    path = random_models.encoding(tmp_path / "tagger.pt", data, "edit_tagger", *sizes)
    before = torch.get_rng_state()
    model = inference.Corrector.from_pretrained(path, data_dir=data, tokenizer=None)
    assert torch.equal(torch.get_rng_state(), before)
    assert repr(model) == f"Corrector(models=({path!r},), data_dir={data!r}, tokenizer=None)"
    copied = pickle.loads(pickle.dumps(model))
    assert copied.correct(["a b"]) == model.correct(["a b"])
    assert [type(module).__name__ for module in model.models] == ["EditTagger"]


def test_a_language_model_does_not_translate(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = random_models.language_model(folder / "lm.pt", folder / "data", 1)
    with pytest.raises(DataError, match=r"task language_modeling\. Expected a translation model"):
        load_model(path, folder / "data")
    config = DecodingConfig((folder / "t.pt",), folder / "data", fairseq_options=("--none",))
    with pytest.raises(UsageError, match="unrecognized arguments: --none"):
        load_model(config)
    assert "usage" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ("--constraints",),
        ("--lm-path", "lm.pt"),
        ("--model-overrides", "{'beam': 2}"),
        ("--post-process", "@@ "),
        ("--prefix-size", "2"),
        ("--print-alignment",),
        ("--replace-unk",),
        ("--score-reference",),
        ("--bpe", "characters"),
        ("--tokenizer", "space"),
        ("--seed", "7"),
        ("--nbest", "2"),
        ("--max-tokens", "1"),
        ("--batch-size", "1"),
        ("--buffer-size", "2"),
        ("--num-shards", "2"),
        ("--bf16",),
        ("--amp",),
    ],
)
def test_options_without_effect_are_rejected(folder: Path, options: tuple[str, ...]) -> None:
    config = DecodingConfig((folder / "t.pt",), folder / "data", fairseq_options=options)
    with pytest.raises(UsageError, match=f"{options[0]}, which is not supported"):
        load_model(config, engine="fairseq")


def test_errors_of_options_are_those_of_the_options(folder: Path) -> None:
    options = ("--user-dir", str(folder / "none"))
    config = DecodingConfig((folder / "t.pt",), folder / "data", fairseq_options=options)
    with pytest.raises(UsageError, match="`fairseq_options` cannot be used"):
        load_model(config, engine="fairseq")


def test_seeds_are_limited_to_those_that_can_be_used(folder: Path) -> None:
    searches: list[dict[str, Any]] = [{"sampling": True}, {"noisy_beam_beta": 6.0}]
    for options in searches:
        options |= {"beam": 2, "max_len_b": 5, "seed": 2**32 - 1}
        config = DecodingConfig((folder / "t.pt",), folder / "data", **options)
        assert len(load_model(config, engine="fairseq").translate(LINES)) == len(LINES)
    with pytest.raises(UsageError, match="`seed` is 4294967296"):
        DecodingConfig((folder / "t.pt",), seed=2**32)


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


def test_unknown_engine_is_rejected(folder: Path) -> None:
    with pytest.raises(UsageError, match="Expected fairseq or ctranslate2"):
        load_model(folder / "t.pt", engine="marian")


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_unavailable_devices(folder: Path, device: str, engine: str) -> None:
    with pytest.raises(UsageError, match=f"`device` is '{device}', which is not available"):
        back_translate(["a"], folder / "t.pt", 1, engine, data_dir=folder / "data", device=device)


def test_each_process_has_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "gpu_count", lambda: 2)
    assert [loading.torch_device("cuda", worker).index for worker in (0, 1, 2)] == [0, 1, 0]
    assert loading.torch_device("cpu", 1).type == "cpu"


@pytest.mark.parametrize("option", [["--int8"], ["--engine", "onnx"]])
def test_models_for_cpus_do_not_use_a_gpu(
    option: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    devices: list[str] = []

    def record(source: Any, output: Any, config: CorrectionConfig, *rest: Any, **more: Any) -> None:
        devices.append(config.device)

    monkeypatch.setattr(loading, "gpu_count", lambda: 1)
    monkeypatch.setattr(correct, "correct_file", record)
    words = ["correct", "text", "--model", "a.pt", "-o", "corrected", "--jobs", "1", *option]
    assert main(words) == 0
    assert devices == ["cpu"]
    assert main([*words, "--device", "cuda"]) == 2
    assert f"{' '.join(option)} needs --device cpu" in capsys.readouterr().err


def test_a_list_of_translations_has_all_lines(folder: Path) -> None:
    boost = {"fluency_boost_lm": "lm.pt", "fluency_boost_data": "bin"}
    config = DecodingConfig((folder / "t.pt",), folder / "data", **boost)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="`fluency_boost_lm` drops lines"):
        load_model(config)


def test_small_length_penalties(folder: Path) -> None:
    config = DecodingConfig((folder / "t.pt",), folder / "data", beam=2, lenpen=-1e-5)
    plain = replace(config, lenpen=0)
    assert load_model(config).translate(LINES) == load_model(plain).translate(LINES)


def test_quantized_taggers_are_tuned_on_a_cpu() -> None:
    with pytest.raises(UsageError, match="`int8` needs cpu"):
        tune_edit_confidence("text", "text", ["a.pt"], int8=True, device="cuda")


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
    ("fields", "message"),
    [
        ({"model": ()}, "`model` is empty"),
        ({"beam": 0}, "`beam` is 0. Expected 1 or more"),
        ({"beam": 2.5}, "`beam` is 2.5. Expected an integer, 1 or more"),
        ({"beam": None}, "`beam` is None. Expected an integer"),
        ({"threads": 0}, "`threads` is 0. Expected 1 or more"),
        ({"seed": 1.5}, "`seed` is 1.5. Expected an integer, 0 or more"),
        ({"noisy_beam_granularity": "word"}, "`noisy_beam_granularity` is 'word'"),
        (
            {"fluency_boost_ratio": 0},
            "`fluency_boost_ratio` is 0. Expected a finite number above 0",
        ),
        ({"fluency_boost_ratio": math.inf}, "`fluency_boost_ratio` is inf"),
        ({"fluency_boost_ratio": math.nan}, "`fluency_boost_ratio` is nan"),
        ({"fluency_boost_lm": "lm.pt"}, "`fluency_boost_lm` needs `fluency_boost_data`"),
        ({"fluency_boost_ratio": 2}, "`fluency_boost_ratio` needs `fluency_boost_lm`"),
        ({"fluency_boost_data": "bin"}, "`fluency_boost_data` needs `fluency_boost_lm`"),
        ({"noisy_beam_granularity": "hypothesis"}, "`.*granularity` needs `noisy_beam_beta`"),
        ({"temperature": 0.5}, "`temperature` needs `sampling`"),
        ({"lenpen": -20}, "`lenpen` is -20, too far from 0 for translations of 250 tokens"),
    ],
)
def test_invalid_decoding_options(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DecodingConfig(**{"model": ("a.pt",), **fields})


@pytest.mark.parametrize("name", ["keep_bias", "delete_bias", "min_confidence"])
@pytest.mark.parametrize("value", [-2, 1.5, float("nan")])
def test_decoding_options_out_of_range(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"`{name}` is {value}. Expected (-1|0) to 1"):
        CorrectionConfig(("a.pt",), **{name: value})  # type: ignore[arg-type]


def test_a_folder_and_a_translation_model_are_not_taggers(folder: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        inference.Corrector.from_pretrained(folder, tokenizer=None)
    with pytest.raises(DataError, match="cannot be loaded without the folder of its data"):
        inference.Corrector.from_pretrained(folder / "t.pt", tokenizer=None)


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ("a b c", TypeError, "a list of lines, not a string"),
        (["a", None], TypeError, "Line 2 of the source text is None"),
        (["a", "b\nc"], DataError, "Line 2 contains a line end"),
        (["a\r\n"], DataError, "Line 1 contains a line end"),
    ],
)
def test_translations_need_one_sentence_per_line(
    folder: Path, lines: Any, error: type[Exception], message: str
) -> None:
    model = load_model(folder / "t.pt", folder / "data")
    with pytest.raises(error, match=message):
        model.translate(lines)


def test_files_are_translated_and_scored_by_the_current_checkpoint(
    folder: Path, tmp_path: Path
) -> None:
    model, data, text = tmp_path / "t.pt", folder / "data", folder / "mono"
    (tmp_path / "list").write_text("0 ||| u v ||| s= -1 ||| -1\n")
    outputs: dict[str, set[str]] = {"translations": set(), "scores": set()}
    for seed in (1, 2):
        random_models.translation(model, data, seed)
        config = DecodingConfig((model,), data)
        files = {name: tmp_path / name for name in outputs}
        back_translate_file(text, files["translations"], config, engine="fairseq", overwrite=True)
        scoring = ScoringConfig("translation", (model,), data_dir=data)
        score_nbest_file(tmp_path / "list", files["scores"], scoring, source=text, overwrite=True)
        for name, path in files.items():
            outputs[name].add(path.read_text())
    assert [len(found) for found in outputs.values()] == [2, 2]


def test_a_translation_model_needs_the_plug_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", print)
    with pytest.raises(ConfigurationError, match=r"Call fairseq_ssl\.register first"):
        load_model(folder / "t.pt", folder / "data")


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
    loading.load_models([folder / "t.pt"])
    assert (np.float64(1e-310) * 0.5 == 0) == flushes


def test_a_line_with_a_lone_surrogate_has_an_empty_translation(folder: Path) -> None:
    model = load_model(folder / "t.pt", folder / "data")
    assert [bool(line) for line in model.translate(["a b", "a \ud800"])] == [True, False]


def test_configs_accept_numbers_of_numpy(folder: Path, tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    sizes = (*random_models.SIZES, *random_models.HEADS)
    path = random_models.encoding(tmp_path / "tagger.pt", data, "edit_tagger", *sizes)
    numbers: dict[str, Any] = {"iterations": np.int64(2), "keep_bias": np.float32(0.5)}
    config = CorrectionConfig((path,), data, tokenizer=None, **numbers)
    (tmp_path / "text").write_text("a b\n")
    summary = inference.correct_file(tmp_path / "text", tmp_path / "out", config, str)
    assert summary is not None
    assert summary.lines == 1


def test_options_can_be_lists() -> None:
    options: Any = ["--unkpen", "1"]
    assert hash(DecodingConfig(("a",), fairseq_options=options))
    languages: Any = ["src", "trg"]
    assert hash(ScoringConfig("translation", ("a",), languages=languages))


@pytest.mark.parametrize("block", [0, -1, 1.5])
def test_blocks_have_one_kib_or_more(folder: Path, tmp_path: Path, block: Any) -> None:
    source, output = folder / "mono", tmp_path / "out"
    calls: list[Callable[[], object]] = [
        lambda: back_translate_file(source, output, DecodingConfig(("a",)), block=block),
        lambda: inference.correct_file(source, output, CorrectionConfig(("a",)), str, block=block),
        lambda: score_nbest_file(
            source, output, ScoringConfig("masked-model", ("a",)), block=block
        ),
    ]
    for call in calls:
        with pytest.raises(UsageError, match=f"`block` is {block}. Expected"):
            call()
    with pytest.raises(UsageError, match="`models` is empty"):
        ScoringConfig("language-model", ())
