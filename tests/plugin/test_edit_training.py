"""Training, validation, tuning and the Python interface of edit taggers."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from fairseq_ssl.cli.main import main
from fairseq_ssl.edits.coverage import agreement
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.text.spelling import SpellingCounts
from tests.conftest import Run, weights
from tests.plugin.edit_corpus import (
    FEW,
    SMALL,
    TASK,
    TINY,
    TRAINING,
    WORDS,
    corrected,
    loaded,
    trained,
)
from tests.plugin.runs import equal, task_of

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq import checkpoint_utils, options  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def data(learner_data: Path) -> Path:
    return learner_data / "bin"


@pytest.fixture
def model(taggers: Path) -> Path:
    return taggers / "learned.pt"


@pytest.fixture
def other(data: Path, tmp_path: Path) -> Path:
    """A copy of the data that a test changes."""
    return shutil.copytree(data, tmp_path / "bin")


@pytest.mark.parametrize("kind", ["edit", "token"])
def test_a_checkpoint_rejects_other_dictionaries(
    kind: str, other: Path, model: Path, tmp_path: Path
) -> None:
    if kind == "edit":
        edits = EditDictionary.read(other / "edits.txt")
        grams = edits.appends[::-1]
        edits = EditDictionary(grams, grams, edits.max_ngram, edits.transforms)
        edits.write(other / "edits.txt")
        edits.write_for_fairseq(other / "dict.edits.txt")
    else:
        first, *rest = (other / "dict.src.txt").read_text().splitlines(keepends=True)
        for side in ("src", "trg"):
            (other / f"dict.{side}.txt").write_text("".join([*rest, first]))
    with pytest.raises(ConfigurationError, match=f"{kind} dictionary of the checkpoint"):
        checkpoint_utils.load_model_ensemble_and_task([str(model)], {"data": str(other)})
    flags = (*SMALL, "--edit-detection", "--max-update", "61")
    for way in ("--finetune-from-model", "--restore-file"):
        with pytest.raises(ConfigurationError, match=rf"{kind} dictionary of {model}"):
            trained(other, tmp_path / "run", *flags, way, str(model))


def test_checkpoints_without_a_token_dictionary_load(
    data: Path, model: Path, tmp_path: Path
) -> None:
    state = torch.load(model, weights_only=False)
    del state["task_state"]["token_dictionary"]
    torch.save(state, tmp_path / "older.pt")
    checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "older.pt")], {"data": str(data)})


def test_labels_in_another_order_than_the_edit_dictionary_are_rejected(other: Path) -> None:
    with (other / "dict.edits.txt").open("a") as file:
        file.write("madeupword0000 0\n")  # fairseq-preprocess --padding-factor
    task_of(other, *TRAINING).load_dataset("train")
    lines = (other / "dict.edits.txt").read_text().splitlines(keepends=True)
    (other / "dict.edits.txt").write_text("".join(reversed(lines)))
    with pytest.raises(DataError, match=r"dict\.edits\.txt differs from the labels in edits"):
        task_of(other, *TRAINING).load_dataset("train")


def test_invalid_data_is_rejected(other: Path, tmp_path: Path) -> None:
    for split, folder in (("test", other), (None, tmp_path), (None, tmp_path / "missing")):
        with pytest.raises(ConfigurationError, match=split or str(folder)):
            task_of(folder, *TRAINING).load_dataset(split)
    for file in other.glob("train.edits*"):
        file.unlink()
    with pytest.raises(ConfigurationError, match="train"):
        task_of(other, *TRAINING).load_dataset("train")
    with (other / "dict.trg.txt").open("a") as dictionary:
        dictionary.write("one_more 1\n")
    with pytest.raises(ConfigurationError, match="joined-dictionary"):
        task_of(other, *TRAINING)


def test_sentences_without_labels_are_reported_for_validation(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("edits.txt", "dict.src.txt", "dict.trg.txt"):
        shutil.copy(data / name, tmp_path)
    (tmp_path / "valid.src-trg.src").write_text("a b\na\nb\n")
    (tmp_path / "valid.edits-None.edits").write_text("KEEP KEEP KEEP\n\n\n")
    with caplog.at_level("WARNING"):
        task_of(tmp_path, *TRAINING, "--dataset-impl", "raw").load_dataset("valid")
    assert "2 of 3 sentences in valid have no labels and are skipped" in caplog.text


def test_frozen_encoder_does_not_change(data: Path, tmp_path: Path) -> None:
    flags = (*SMALL, "--edit-freeze-encoder-updates", "6", "--max-update")
    begun = weights(trained(data, tmp_path / "begun", *flags, "1", "--lr", "0"))
    cold = weights(trained(data, tmp_path / "cold", *flags, "6"))
    warm = weights(trained(data, tmp_path / "warm", *flags, "8"))
    for name, weight in begun.items():
        if name.startswith("encoder."):
            assert torch.equal(cold[name], weight), name
    assert not torch.equal(cold["scores.edits.weight"], begun["scores.edits.weight"])
    assert not torch.equal(warm["encoder.mask"], begun["encoder.mask"])


@pytest.mark.parametrize(
    "flag", ["--edit-unfactorized", "--edit-gap-inserts", "--amp", "--sentence-avg"]
)
@pytest.mark.slow
def test_training_options_learn(flag: str, data: Path, tmp_path: Path) -> None:
    losses = []
    for updates in ("2", "40"):
        path = trained(data, tmp_path, *SMALL, "--max-update", updates, flag)
        losses.append(torch.load(path, weights_only=False)["extra_state"]["val_loss"])
    assert losses[1] < 0.5 * losses[0]


@pytest.mark.parametrize("name", ["learned", "bert"])
def test_interactive_equals_the_python_interface(
    name: str, run: Run, learner_data: Path, taggers: Path
) -> None:
    data, path = learner_data / "bin", taggers / f"{name}.pt"
    lines = (learner_data / "valid.src").read_text().splitlines()[:8]
    lines += ["Zyx sees a ツ !", ""]
    words = ("fairseq-interactive", data, *TASK, "-s", "src", "-t", "trg", "--path", path, "--cpu")
    shown = run(*words, text="".join(f"{line}\n" for line in lines)).stdout
    wanted = re.findall(r"^H-\d+\t\S+\t(.*)$", shown, re.M)
    texts = corrected(loaded(path, data_dir=data), lines, batch_size=3)
    assert texts == wanted
    assert texts != [" ".join(line.split()) for line in lines]


TUNED: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("learned", {}),
    "ensemble": ("bert electra", {"weights": (1, 2)}),
}
"""Models and their options."""


@pytest.mark.parametrize("kind", TUNED)
def test_tune_prints_flags_that_improve_the_score(
    kind: str,
    learner_data: Path,
    taggers: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    names, given = TUNED[kind]
    sides = [str(tmp_path / side) for side in ("src", "trg")]
    for side in ("src", "trg"):
        text = (learner_data / f"valid.{side}").read_text()
        (tmp_path / side).write_text(f"{text}never seen before !\n")
    models = [taggers / f"{name}.pt" for name in names.split()]
    words = ["edits", "tune", *sides, "--model", *map(str, models)]
    words += {
        "default": ["--data-dir", str(learner_data / "bin")],
        "ensemble": ["--weights", "1,2"],  # without a data folder
    }[kind]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert re.fullmatch(r"((^| )--edit-[a-z-]+ -?[\d.]+)*\n", shown.out)
    pairs = re.findall(r"--(\S+) (\S+)", shown.out)
    chosen = {name.removeprefix("edit-").replace("-", "_"): float(value) for name, value in pairs}
    sources, targets = (Path(side).read_text().splitlines() for side in sides)
    scores = []
    for flags in ({}, chosen):
        texts = corrected(loaded(*models, data_dir=learner_data / "bin", **given, **flags), sources)
        scores.append(agreement(zip(sources, texts, targets, strict=True)).scores["f0.5"])
    printed = [float(score) for score in re.findall(r"f0\.5 ([\d.]+)", shown.err)]
    assert printed == pytest.approx(scores, abs=0.01)
    assert printed[1] > printed[0] or kind == "ensemble"
    argv = [str(learner_data / "bin"), *TASK, "--path", str(models[0]), *shown.out.split()]
    assert options.parse_args_and_arch(options.get_generation_parser(), argv)


def test_tuning_corrects_the_spelling_first(
    learner_data: Path, taggers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("symspellpy")
    right = (learner_data / "valid.src").read_text().splitlines()
    (tmp_path / "wrong").write_text("".join(f"{line} necesary\n" for line in right))
    (tmp_path / "right").write_text("".join(f"{line} necessary\n" for line in right))
    SpellingCounts({"necessary": 99}, {"necessary </s>": 99}).write(tmp_path / "counts")
    words = [str(learner_data / "valid.trg"), "--model", str(taggers / "bert.pt")]
    found = []
    for name in ("wrong", "right"):
        given = ["--spelling", str(tmp_path / "counts")] if name == "wrong" else []
        assert main(["edits", "tune", str(tmp_path / name), *words, *given]) == 0
        shown = capsys.readouterr()
        found.append((shown.out, re.findall(r"f0\.5 ([\d.]+)", shown.err)))
    assert found[0] == found[1]


def test_words_keep_case_and_spelling_outside_the_vocabulary(taggers: Path) -> None:
    """Also in sentences that are longer than a window of subwords."""
    rounds = loaded(taggers / "bert.pt", keep_bias=1.0)
    lines = ["Zyx SEES a brontosaurus ツ .", " ".join(["brontosaurus sees an Apple"] * 30), "a dog"]
    assert corrected(rounds, lines) == lines


def test_labels_are_chosen_for_words(taggers: Path) -> None:
    """Each applied edit names a position among the words, and its label."""
    rounds = loaded(taggers / "bert.pt", iterations=1, keep_bias=-1.0)
    sentence = ["Zyx", "SEES", "a", "brontosaurus", "."]
    (correction,) = rounds.correct([sentence])
    assert correction.edits
    assert max(edit.position for edit in correction.edits) <= len(sentence)


def test_a_tokenizer_with_other_subwords_is_rejected(
    learner_data: Path, data: Path, tmp_path: Path
) -> None:
    words = (*FEW, *WORDS, *TINY, "--max-update", "1", "--edit-tokenizer")
    model = trained(data, tmp_path / "first", *words, str(learner_data / "bert"))
    other = shutil.copytree(learner_data / "bert", tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text("utf-8"))
    vocab = tokenizer["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    tune = ("--finetune-from-model", str(model), "--lr", "0")
    with pytest.raises(ConfigurationError, match=str(model)):
        trained(data, tmp_path / "tuned", *words, str(other), *tune)
    assert equal(
        trained(data, tmp_path / "tuned", *words, str(learner_data / "bert"), *tune), model
    )


@pytest.mark.parametrize("flags", [(), ("--edit-init", "gone")])
def test_a_tokenizer_is_required(flags: tuple[str, ...], data: Path, tmp_path: Path) -> None:
    with pytest.raises((ConfigurationError, DataError), match=r"tokenizer|gone"):
        trained(data, tmp_path, *WORDS, *flags)
