"""No loader runs code in a hostile checkpoint, and each reports the error in one line."""

from __future__ import annotations

import importlib
import io
import os
import shutil
import sys
import tarfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.checkpoints.safe_values import evaluate
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import ConfigurationError, DataError, UnsafeCheckpointError
from tests.conftest import OLD_HYDRA, PACKAGE, TINY, Run
from tests.plugin.runs import parsed

fairseq_ssl.register()
from fairseq import checkpoint_utils, tasks  # noqa: E402
from fairseq.models.fconv import FConvModel  # noqa: E402
from fairseq.models.transformer import TransformerModel  # noqa: E402

State = dict[str, Any]
SECRET = "what the environment holds"
ENVIRONMENT = "${env:SECRET}" if OLD_HYDRA else "${oc.env:SECRET}"


class Call:
    """An object that pickles as a function call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.parts = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.parts


def options_of(state: State, section: str) -> dict[str, Any]:
    options = state["cfg"][section]
    return vars(options) if isinstance(options, Namespace) else options


def old(state: State, layers: str, **options: Any) -> None:
    """Convert a checkpoint to the format of fairseq 0.10 and earlier."""
    flat = {**options_of(state, "task"), **options_of(state, "model")}
    flat |= {"arch": "fconv", "encoder_layers": layers, "task": "translation", **options}
    state["args"], state["cfg"] = Namespace(**flat), None


VECTORS: dict[str, Callable[[State, str], Any]] = {
    "model": lambda state, code: options_of(state, "model").update(
        _name="fconv", arch="fconv", encoder_layers=code, decoder_layers=code
    ),
    "task": lambda state, code: options_of(state, "task").update(left_pad_source=code),
    "criterion": lambda state, code: options_of(state, "criterion").update(
        adaptive_softmax_cutoff=code
    ),
    "optimizer": lambda state, code: options_of(state, "optimizer").update(adam_betas=code),
    "args": old,
    "json": lambda state, code: options_of(state, "model").update(
        classifier_encoder_options=f'{{"conv_feature_layers": "{code}"}}'
    ),
    "interpolation": lambda state, _: options_of(state, "task").update(seed=ENVIRONMENT),
    "reference": lambda state, _: options_of(state, "common").update(seed="${model.arch}"),
    "language": lambda state, _: options_of(state, "task").update(source_lang="../../etc/x"),
    "pickle": lambda state, code: state["extra_state"].update(x=Call(exec, code)),
    "numpy": lambda state, _: state["extra_state"].update(
        x=Call(np.float64(0).__reduce__()[0], np.dtype("O,O"))
    ),
}


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def evil(trained: Path, tmp_path: Path, canary: Path) -> Callable[[str], Path]:
    """Write a hostile checkpoint_last.pt with an attack in `vector` to a new folder."""

    def write(vector: str) -> Path:
        state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
        if vector in VECTORS:
            VECTORS[vector](state, f"__import__('pathlib').Path('{canary}').touch()")
        path = tmp_path / "evil" / "checkpoint_last.pt"
        path.parent.mkdir()
        torch.save(state, path)
        return path

    return write


@pytest.fixture
def text(tmp_path: Path, toy_data: Path) -> Path:
    """A folder with the other files that the loaders need."""
    folder = tmp_path / "text"
    shutil.copytree(toy_data, folder)
    shutil.copy(toy_data / "dict.words.txt", folder / "dict.txt")
    (folder / "source").write_text("one\n")
    return folder


COMMON = ("--user-dir", str(PACKAGE), "--cpu")
TRAIN = ("fairseq-train", "{text}", *COMMON, *TINY, "--arch", "shape_transformer_tiny")
LOADERS = {
    "generate": ("fairseq-generate", "{text}", *COMMON, "--path", "{evil}"),
    "validate": (
        *("fairseq-validate", "{text}", *COMMON, "--path", "{evil}", "--max-tokens", "99"),
        *("--task", "translation"),
    ),
    "eval_lm": ("fairseq-eval-lm", "{text}", *COMMON, "--path", "{evil}"),
    "resume": (*TRAIN, "--save-dir", "{folder}"),
    "finetune": (*TRAIN, "--save-dir", "{out}", "--finetune-from-model", "{evil}"),
    "average": ("average", "{evil}", "-o", "{out}"),
    "export": ("export", "{evil}", "--to", "fairseq", "-o", "{out}"),
    "back-translate": (
        *("back-translate", "{text}/source", "--model", "{evil}", "--data-dir", "{text}"),
        *("-o", "{out}", "--jobs", "1"),
    ),
    "swapped-bleu": (
        *("analyze", "swapped-bleu", "{text}", "-c", "one={evil}", "-o", "{out}"),
        *("--device", "cpu", "--subwords", "none"),
    ),
}
"""Commands by the way they read a checkpoint. `tests/attacks` has the other commands."""


def words_of(loader: str, evil: Path, text: Path, out: Path) -> list[str]:
    names = {"{text}": text, "{evil}": evil, "{folder}": evil.parent, "{out}": out}
    words = list(LOADERS[loader])
    for name, path in names.items():
        words = [word.replace(name, str(path)) for word in words]
    return words


def call(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command in this process. fairseq's commands raise the error that their hook prints."""
    if not words[0].startswith("fairseq-"):
        return main(words)
    monkeypatch.setattr(sys, "argv", words)
    name = words[0].removeprefix("fairseq-").replace("-", "_")
    importlib.import_module(f"fairseq_cli.{name}").cli_main()
    return 0


def assert_rejected(
    loader: str,
    evil: Path,
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """Assert that a loader fails with one line that names the file. Return the line."""
    out = text.parent / "out"
    words = words_of(loader, evil, text, out)
    monkeypatch.setenv("SECRET", SECRET)
    if words[0].startswith("fairseq-"):
        with pytest.raises((UnsafeCheckpointError, DataError), match="checkpoint_last") as caught:
            call(words, monkeypatch)
        line = str(caught.value)
    else:
        capsys.readouterr()
        assert call(words, monkeypatch) == 1
        shown = capsys.readouterr().err.strip().splitlines()
        line = shown[-1]
        assert "Traceback" not in "".join(shown)
        assert ": error: " in line
        assert str(evil) in line
    assert "\n" not in line
    assert SECRET not in line
    assert not (text.parent / "canary").exists()
    assert not out.is_file()
    return line


@pytest.mark.parametrize("loader", LOADERS)
def test_every_loader_rejects_code(
    loader: str,
    evil: Callable[[str], Path],
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = assert_rejected(loader, evil("model"), text, monkeypatch, capsys)
    assert "option encoder_layers is" in line


@pytest.mark.parametrize("vector", VECTORS)
def test_every_attack_is_rejected(
    vector: str,
    evil: Callable[[str], Path],
    text: Path,
    canary: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both fairseq's loader and the reader of `fairseq-ssl` reject it."""
    path = evil(vector)
    with pytest.raises(DataError, match="checkpoint_last"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not canary.exists()
    for loader in ("average", "swapped-bleu"):
        assert_rejected(loader, path, text, monkeypatch, capsys)


def _break_weights(state: State, number: float) -> None:
    state["model"]["decoder.layers.1.fc1.bias"][3] = number


UNUSABLE: dict[str, tuple[Callable[[State], Any], str]] = {
    "no heads": (
        lambda state: options_of(state, "model").update(encoder_attention_heads=0),
        "ZeroDivisionError",
    ),
    "an unknown architecture": (
        lambda state: options_of(state, "model").update(_name="strange", arch="strange"),
        "the architecture 'strange'",
    ),
    "a negative size": (
        lambda state: options_of(state, "model").update(encoder_ffn_embed_dim=-4),
        "negative dimension -4",
    ),
    "a task of many languages": (
        lambda state: options_of(state, "task").update(_name="multilingual_translation"),
        "required",
    ),
    "a number as a namespace": (lambda state: state["cfg"].update(model=5), "has the type int"),
    "NaN": (lambda state: _break_weights(state, float("nan")), "weight decoder.layers.1.fc1.bias"),
}
"""Checkpoints without code that no command can use, and a part of the error."""


@pytest.mark.parametrize(
    ("attack", "loader"),
    [
        *((attack, "back-translate") for attack in UNUSABLE),
        *(("NaN", loader) for loader in ("generate", "swapped-bleu", "average", "export")),
    ],
)
def test_unusable_checkpoints_are_rejected_in_one_line(
    attack: str,
    loader: str,
    evil: Callable[[str], Path],
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = evil("none")
    state = torch.load(path, weights_only=False)
    change, message = UNUSABLE[attack]
    change(state)
    torch.save(state, path)
    assert message in assert_rejected(loader, path, text, monkeypatch, capsys)


@pytest.mark.parametrize("vector", ["model", "args", "pickle"])
@pytest.mark.parametrize("model", [TransformerModel, FConvModel])
def test_from_pretrained_rejects_attacks(
    model: Any, vector: str, evil: Callable[[str], Path], text: Path, canary: Path
) -> None:
    path = evil(vector)
    with pytest.raises(UnsafeCheckpointError, match="checkpoint_last"):
        model.from_pretrained(str(path.parent), path.name, str(text))
    assert not canary.exists()


@pytest.mark.parametrize("vector", ["model", "pickle", "interpolation"])
def test_attacks_work_without_protection(
    vector: str, evil: Callable[[str], Path], canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests in this file could not fail."""
    from omegaconf import OmegaConf

    state = torch.load(evil(vector), weights_only=False)
    if vector == "interpolation":
        monkeypatch.setenv("SECRET", SECRET)
        assert OmegaConf.create({"task": options_of(state, "task")}).task.seed == SECRET
        return
    if vector == "model":
        eval(options_of(state, "model")["encoder_layers"])
    assert canary.exists()


@pytest.mark.parametrize("loader", ["generate", "resume"])
def test_commands_exit_with_one_line_and_code_1(
    loader: str, evil: Callable[[str], Path], text: Path, canary: Path, run: Run
) -> None:
    path = evil("model")
    shown = run(*words_of(loader, path, text, text.parent / "out"), code=1).stderr.strip()
    command = LOADERS[loader][0]
    assert shown.splitlines()[-1].startswith(f"{command}: error: {path} was rejected and nothing")
    assert "Traceback" not in shown
    assert not canary.exists()


def test_paths_in_a_checkpoint_are_not_used(
    trained: Path, toy_data: Path, text: Path, canary: Path, tmp_path: Path, run: Run
) -> None:
    """The checkpoint names a hostile user_dir and missing files. The model still loads."""
    plug_in = tmp_path / "plug_in"
    plug_in.mkdir()
    (plug_in / "__init__.py").write_text(f"open({str(canary)!r}, 'w')\n")
    state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
    missing = str(tmp_path / "missing")
    for section in ("common", "task", "model"):
        options = options_of(state, section)
        paths = dict.fromkeys(("data", "encoder_embed_path", "lm_path", "restore_file"), missing)
        paths |= {"user_dir": str(plug_in), "tensorboard_logdir": str(canary)}
        if OLD_HYDRA and section == "task":  # fairseq-validate rejects names that a task lacks
            paths = {"data": missing}
        options.update(paths)
    path = tmp_path / "paths.pt"
    torch.save(state, path)
    words = ("fairseq-generate", toy_data, *COMMON, "--gen-subset", "valid", "--path")
    shown = [run(*words, one).stdout for one in (path, trained / "checkpoint_last.pt")]
    found = [[line for line in one.splitlines() if line[:2] == "H-"] for one in shown]
    assert found[0] == found[1] != []
    validate = ("fairseq-validate", toy_data, *COMMON, "--task", "translation", "--path", path)
    run(*validate, "--max-tokens", "999")
    models = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(toy_data)})[0]
    assert models
    assert not canary.exists()
    with pytest.raises(DataError, match=r"paths\.pt cannot be loaded, and no data folder was"):
        checkpoint_utils.load_model_ensemble_and_task([str(path)])


def test_command_lines_are_evaluated_safely(
    toy_data: Path, tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"__import__('pathlib').Path('{canary}').touch()"
    words = ["fairseq-train", str(toy_data), *COMMON, "--arch", "fconv", "--optimizer", "adam"]
    words += ["--max-tokens", "99", "--max-epoch", "1", "--save-dir", str(tmp_path)]
    with pytest.raises(ConfigurationError, match=r"Option encoder_layers: .*__import__"):
        call([*words, "--encoder-layers", code], monkeypatch)
    with pytest.raises(ConfigurationError, match="Option adam_betas"):
        call([*words, "--adam-betas", code], monkeypatch)
    assert not canary.exists()


def test_expressions_of_architectures_still_build_models(toy_data: Path) -> None:
    layers = ("--encoder-layers", "[(16, 3)] * 2", "--decoder-layers", "[(16, 3)] + [(16, 5)]")
    cfg = parsed(toy_data, "--arch", "fconv", *layers, "--encoder-embed-dim", "16")
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    assert (len(model.encoder.convolutions), len(model.decoder.convolutions)) == (2, 2)


def test_eval_is_replaced_wherever_fairseq_evaluates() -> None:
    modules = [one for name, one in sys.modules.items() if name.startswith("fairseq.")]
    evaluating = [one for one in modules if "eval(" in _source(one).replace(".eval(", "")]
    assert {"fairseq.utils", "fairseq.optim.adam", "fairseq.models.fconv"} <= {
        one.__name__ for one in evaluating
    }
    assert all(vars(one).get("eval") is evaluate for one in evaluating)


def _source(module: Any) -> str:
    file = getattr(module, "__file__", None)
    return Path(str(file)).read_text("utf-8") if str(file).endswith(".py") else ""


def test_eval_is_replaced_in_modules_imported_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fairseq.data.codedataset", raising=False)
    module = importlib.import_module("fairseq.data.codedataset")
    assert vars(module)["eval"] is evaluate
    monkeypatch.delitem(sys.modules, "json.scanner", raising=False)
    assert "eval" not in vars(importlib.import_module("json.scanner"))


def test_a_user_dir_within_fairseq_is_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairseq_ssl.plugin.checkpoint_safety import _EvalFinder

    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/plug.py").write_text("VALUE = eval('[1] * 2')\n")
    monkeypatch.syspath_prepend(tmp_path / "inside")
    monkeypatch.setattr(sys, "meta_path", [_EvalFinder((f"{tmp_path}{os.sep}",)), *sys.meta_path])
    module = importlib.import_module("plug")
    monkeypatch.delitem(sys.modules, "plug")
    assert (module.VALUE, vars(module)["eval"]) == ([1, 1], evaluate)


@pytest.fixture
def archive(trained: Path, toy_data: Path, tmp_path: Path) -> tuple[Path, list[Path]]:
    """A model and its data in an archive, and the files outside that unpacking it would write."""
    canaries = [tmp_path / "absolute", tmp_path / "canary"]
    path = tmp_path / "archives/m.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as file:
        file.add(trained / "checkpoint_last.pt", "m/checkpoint_last.pt")
        for dictionary in toy_data.glob("dict.*"):
            file.add(dictionary, f"m/{dictionary.name}")
        for name in (str(canaries[0]), "../" * 20 + str(canaries[1])[1:]):
            file.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path, canaries


@pytest.mark.parametrize("model", [TransformerModel, FConvModel])
@pytest.mark.parametrize("part", ["model", "data"])
def test_archives_are_not_unpacked(
    model: Any, part: str, archive: tuple[Path, list[Path]], trained: Path
) -> None:
    path, canaries = archive
    content = path.read_bytes()
    folder, data = (str(path), ".") if part == "model" else (str(trained), str(path))
    with pytest.raises(DataError, match=r"m\.tar\.gz is not a folder"):
        model.from_pretrained(folder, "checkpoint_last.pt", data)
    assert path.read_bytes() == content
    assert not any(canary.exists() for canary in canaries)


@pytest.mark.parametrize("name", ["conv.wmt14.en-fr", "https://localhost:9/m.tar.gz", "missing"])
def test_from_pretrained_accepts_only_folders(name: str, opened: list[str]) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        FConvModel.from_pretrained(name)
    assert not opened


_opened: list[str] = []


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.getaddrinfo", "socket.connect"):
        _opened.append(f"{event} {arguments}")


@pytest.fixture
def opened() -> list[str]:
    """The network addresses that the process looks up or connects to during a test."""
    if not getattr(_record, "is_hooked", False):  # a hook cannot be removed
        sys.addaudithook(_record)
        vars(_record)["is_hooked"] = True
    _opened.clear()
    return _opened


@pytest.mark.parametrize(("name", "is_old"), [("bert", True), ("gpt2", False)])
def test_encoders_in_a_checkpoint_are_not_built(
    name: str,
    is_old: bool,
    trained: Path,
    toy_data: Path,
    tmp_path: Path,
    opened: list[str],
) -> None:
    """The hub interface would download the vocabulary of the encoder."""
    state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
    named = {"bpe": {"_name": name, "bpe_vocab": "a", "bpe_merges": "b"}, "tokenizer": name}
    state["cfg"].update(named)
    if is_old:
        old(state, "", arch="transformer_tiny", encoder_layers=2, **named)
    torch.save(state, tmp_path / "model.pt")
    hub = TransformerModel.from_pretrained(str(tmp_path), "model.pt", str(toy_data))
    assert (hub.bpe, hub.tokenizer) == (None, None)
    assert hub.translate("seven and four")
    assert not opened


def test_encoders_that_the_caller_passes_are_built(
    trained: Path, toy_data: Path, tmp_path: Path
) -> None:
    pytest.importorskip("subword_nmt")
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\ns e\n")
    encoders = {"bpe": "subword_nmt", "bpe_codes": str(codes), "tokenizer": "space"}
    hub = TransformerModel.from_pretrained(
        str(trained), "checkpoint_last.pt", str(toy_data), **encoders
    )
    assert hub.apply_bpe("seven") == "se@@ v@@ e@@ n"
    assert hub.tokenize("a  b") == "a b"
