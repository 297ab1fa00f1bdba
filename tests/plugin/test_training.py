"""Each kind of model resumes, trains with two processes and with Hydra, and is decoded in batches.

The models are compared with independent references in `tests/unit`, and learn in `tests/learning`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from tests.conftest import OLD_HYDRA, PACKAGE, Run, build_once, trained_only, weights
from tests.plugin.classification import IMITATORS, SIZES
from tests.plugin.edit_corpus import TINY
from tests.plugin.runs import close, equal, generated, train_in_two_processes

ALWAYS = ("--user-dir", PACKAGE, "--cpu", "--seed", "1", "--log-format", "simple")
ADAM = "--optimizer adam --lr 0.005 --criterion cross_entropy --max-tokens 500"
TOY = f"{{0}} {ADAM} -s words -t digits --share-all-embeddings"
PSEUDO = (
    f"{{0}}/bin -s src -t trg {ADAM} --arch pseudo_bidirectional_transformer --dropout 0"
    " --encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 32"
    " --encoder-attention-heads 2"
)
LABELS = (
    "{0}/bin --task edit_labeling --criterion edit_cross_entropy --arch edit_tagger --clip-norm 1"
    f" --optimizer adam --lr 0.01 --max-tokens 500 --max-source-positions 50 {' '.join(TINY)}"
)
TEXTS = (
    "{0}/data --task semi_supervised_classification --optimizer adam --lr 0.01 --batch-size 8"
    " --criterion classification_cross_entropy --disable-validation"
)


class Family(NamedTuple):
    """A corpus fixture, whose folder is {0} in the flags, and the updates with checkpoints."""

    corpus: str
    flags: str
    saved: int
    last: int


FAMILIES = {
    "shape transformer": Family(
        "toy_data",
        f"{TOY} --arch shape_transformer_tiny --shape-positions relative"
        " --dropout 0.1 --attention-dropout 0.1",
        *(5, 12),
    ),
    "mixed precision": Family(
        "toy_data", f"{TOY} --arch shape_transformer_tiny --dropout 0.1 --amp", 6, 12
    ),
    "denoising": Family(
        "masked_data",
        f"{TOY} --arch transformer_tiny --task denoising_pretraining --dropout 0.1"
        " --noise direct:keep=0.7:mask=0.1,shuffle --criterion denoising_cross_entropy",
        *(28, 36),
    ),
    "pointer transformer": Family(
        "named",
        "{0}/raw --dataset-impl raw --task copying_translation --arch pointer_transformer_tiny"
        " --optimizer nag --lr 0.05 --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5"
        " --clip-norm 2 --criterion cross_entropy --max-tokens 1000 --dropout 0.1"
        " --store-ema --ema-decay 0.9",
        *(11, 24),
    ),
    "pseudo-bidirectional transformer": Family("learner_data", PSEUDO, 11, 30),
    "prefix alignment": Family(
        "learner_data", f"{PSEUDO} --pseudo-future-alignment prefix", 11, 30
    ),
    "bytenet": Family(
        "digits",
        "{0}/bin -s words -t digits --arch bytenet_digits --bytenet-sets 1 --optimizer adam"
        " --lr 0.003 --criterion cross_entropy --sentence-avg --batch-size 8",
        *(4, 40),
    ),
    "reconstruction": Family(
        "digits",
        "{0}/bin -s words -t digits --task reconstruction_translation --arch transformer_tiny"
        " --criterion reconstruction_loss --reconstruction-source-text {0}/mono/train"
        " --reconstruction-beam 2 --optimizer adam --lr 0.003 --max-tokens 200",
        *(4, 6),
    ),
    "edit tagger": Family(
        "learner_data",
        f"{LABELS} --edit-detection --edit-unchanged-share 0.5 --edit-freeze-encoder-updates 5",
        *(4, 20),
    ),
    "edit tagger on words": Family(
        "learner_data",
        f"{LABELS} --edit-unit word --edit-tokenizer {{0}}/bert --edit-unfactorized",
        *(2, 4),
    ),
    "virtual adversarial training": Family(
        "classifiers",
        f"{TEXTS} --arch lstm_classifier {' '.join(SIZES)}"
        " --criterion virtual_adversarial_cross_entropy --classification-unlabeled-per-labeled 2",
        *(5, 9),
    ),
    "imitators": Family(
        "classifiers",
        f"{TEXTS} --classification-stage imitate --arch imitators {' '.join(IMITATORS)}"
        " --criterion imitation_cross_entropy --imitator-teacher {0}/expert/checkpoint_last.pt",
        *(5, 9),
    ),
    "mixture": Family(
        "classifiers",
        f"{TEXTS} --classification-stage mixture --arch expert_and_imitators"
        " --mixture-expert {0}/expert/checkpoint_last.pt --mixture-random 2",
        *(5, 9),
    ),
}
WITH_WORKERS = ("denoising", "edit tagger", "prefix alignment")
"""Families with samples that depend on the epoch, which two worker processes prepare."""


@pytest.fixture
def words_of(request: pytest.FixtureRequest) -> Callable[[str], list[str]]:
    """Return the data folder and the flags of a family."""

    def words(name: str) -> list[str]:
        family = FAMILIES[name]
        return family.flags.format(request.getfixturevalue(family.corpus)).split()

    return words


@pytest.fixture
def uninterrupted(
    run: Run, tmp_path_factory: pytest.TempPathFactory, words_of: Callable[[str], list[str]]
) -> Callable[[str], Path]:
    """Return the folder of a family's training run, with two checkpoints and its output in log."""

    def train(name: str) -> Path:
        def build(folder: Path) -> None:
            updates = ("--save-interval-updates", str(FAMILIES[name].saved))
            last = ("--max-update", str(FAMILIES[name].last), "--num-workers", "0")
            words = ("fairseq-train", *words_of(name), *ALWAYS, *updates, *last)
            done = run(*words, "--save-dir", folder)
            (folder / "log").write_text(done.stdout + done.stderr)

        return build_once(tmp_path_factory, f"family {name}", build)

    return train


@pytest.mark.parametrize("name", FAMILIES)
def test_resumed_training_equals_uninterrupted_training(
    name: str,
    run: Run,
    words_of: Callable[[str], list[str]],
    uninterrupted: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    whole = uninterrupted(name)
    (begun,) = whole.glob(f"checkpoint_*_{FAMILIES[name].saved}.pt")
    again = ("--restore-file", begun, "--max-update", str(FAMILIES[name].last))
    workers = ("--num-workers", "2" if name in WITH_WORKERS else "0")
    words = ("fairseq-train", *words_of(name), *ALWAYS, *again, *workers)
    shown = run(*words, "--save-dir", tmp_path).stdout
    assert "can only test a child process" not in shown, "workers must not be started again"
    last, resumed = whole / "checkpoint_last.pt", tmp_path / "checkpoint_last.pt"
    assert equal(last, resumed)
    assert not equal(last, begun)
    averages = [torch.load(path, weights_only=False)["extra_state"] for path in (last, resumed)]
    one, other = (trained_only(average.get("ema", {})) for average in averages)
    assert all(torch.equal(weight, other[key]) for key, weight in one.items())


@pytest.mark.parametrize("name", ["shape transformer", "denoising", "edit tagger"])
def test_validate_reports_the_loss_of_training(
    name: str, run: Run, words_of: Callable[[str], list[str]], uninterrupted: Callable[[str], Path]
) -> None:
    path, words = uninterrupted(name) / "checkpoint_last.pt", words_of(name)
    task = words[words.index("--task") + 1] if "--task" in words else "translation"
    found = ("fairseq-validate", words[0], "--path", path, "--task", task, "--max-tokens", "400")
    done = run(*found, "--valid-subset", "valid", *ALWAYS)
    (loss,) = re.findall(r"valid on 'valid' subset \| loss ([\d.]+)", done.stdout + done.stderr)
    assert float(loss) == pytest.approx(
        torch.load(path, weights_only=False)["extra_state"]["val_loss"], abs=2e-3
    )


DECODED = {
    "bytenet": "--gen-subset train",
    "pointer transformer": "--dataset-impl raw --task copying_translation --max-len-b 10",
    "pseudo-bidirectional transformer": "-s src -t trg --gen-subset valid",
    "prefix alignment": "-s src -t trg --gen-subset valid --task local_transduction",
}


@pytest.mark.parametrize("name", DECODED)
def test_hypotheses_do_not_depend_on_batches_ensembles_and_drafts(
    name: str, run: Run, words_of: Callable[[str], list[str]], uninterrupted: Callable[[str], Path]
) -> None:
    path = uninterrupted(name) / "checkpoint_last.pt"

    def decoded(paths: str | Path, *flags: str) -> dict[int, tuple[float, str]]:
        return generated(run, words_of(name)[0], paths, *DECODED[name].split(), *flags)

    batched = decoded(path, "--beam", "3")
    assert len({text for _, text in batched.values()}) > 5
    assert close(decoded(path, "--beam", "3", "--batch-size", "1"), batched)
    assert close(decoded(f"{path}:{path}", "--beam", "3"), batched)
    greedy = decoded(path, "--beam", "1")
    assert not close(greedy, batched)
    if "--task" in DECODED[name]:
        assert close(decoded(path, "--beam", "1", "--aggressive"), greedy)


def test_pseudo_bidirectional_checkpoints_have_shared_weights_once_and_their_alignment(
    run: Run, learner_data: Path, uninterrupted: Callable[[str], Path], tmp_path: Path
) -> None:
    path = uninterrupted("prefix alignment") / "checkpoint_last.pt"
    stored = weights(path)
    assert not [name for name in stored if re.match(r"decoder\.(blocks|embed|output)", name)]
    assert len({weight.untyped_storage().data_ptr() for weight in stored.values()}) == len(stored)
    state = torch.load(path, weights_only=False)
    state["cfg"]["model"]["pseudo_future_alignment"] = "position"
    torch.save(state, tmp_path / "position.pt")
    flags = DECODED["pseudo-bidirectional transformer"].split()
    aligned, other = (
        generated(run, learner_data / "bin", one, *flags)
        for one in (path, tmp_path / "position.pt")
    )
    assert not close(aligned, other)


def test_interactive_prints_alignments(
    run: Run, learner_data: Path, uninterrupted: Callable[[str], Path]
) -> None:
    path = uninterrupted("pseudo-bidirectional transformer") / "checkpoint_last.pt"
    words = ("fairseq-interactive", learner_data / "bin", "-s", "src", "-t", "trg", *ALWAYS)
    shown = run(*words, "--path", path, "--print-alignment", text="a dog sees\n\n").stdout
    assert len(re.findall(r"^H-\d+\t", shown, re.M)) == 2
    assert re.search(r"^A-0\t[0-3]-0( [0-3]-\d+)*$", shown, re.M)


PROCESSES = {
    "shape transformer": "--shape-positions shifted --shape-max-shift 0 --dropout 0"
    " --attention-dropout 0",
    "denoising": "--dropout 0 --denoise-keep-rate 0",
    "pseudo-bidirectional transformer": "",
    "edit tagger": "--dropout 0 --attention-dropout 0 --edit-unchanged-share 1"
    " --edit-freeze-encoder-updates 0",
    "virtual adversarial training": "--criterion adversarial_cross_entropy --recurrent-dropout 0"
    " --adversarial-epsilon 1 --classification-unlabeled-per-labeled 0",
}
"""Flags without random numbers, which each process would draw for its own part of a batch."""


@pytest.mark.parametrize("name", PROCESSES)
def test_two_processes_equal_one_with_double_accumulation(
    name: str, run: Run, words_of: Callable[[str], list[str]], tmp_path: Path
) -> None:
    words: list[str | Path] = [*words_of(name), *ALWAYS, *PROCESSES[name].split()]
    words += ("--no-epoch-checkpoints", "--max-update", "8", "--save-dir")
    run("fairseq-train", *words, tmp_path / "one", "--update-freq", "2")
    train_in_two_processes(run, *words, tmp_path / "two")
    one, two = (weights(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))
    for key, weight in one.items():
        torch.testing.assert_close(two[key], weight, atol=2e-5, rtol=0, msg=key)


HYDRA = {
    "shape transformer": (
        "task=translation task.data={0} task.source_lang=words task.target_lang=digits"
        " +model._name=shape_transformer_tiny +model.shape_max_shift=9 criterion=cross_entropy"
        " +model.share_all_embeddings=True"
    ),
    "denoising": (
        "+task._name=denoising_pretraining +task.data={0} +task.source_lang=digits"
        " +task.target_lang=words '+task.noise=\"direct:keep=0.5,shuffle\"' common.seed=4"
        " criterion._name=denoising_cross_entropy +criterion.denoise_keep_rate=0.1"
        " +model._name=transformer_tiny +model.share_all_embeddings=True"
    ),
    "pointer transformer": (
        "+task._name=copying_translation +task.data={0}/raw dataset.dataset_impl=raw"
        " +task.source_lang=src +task.target_lang=trg +task.truncate_source_words=6"
        " +model._name=pointer_transformer_tiny +model.copy_attention_heads=2"
        " criterion=cross_entropy ema.store_ema=True"
    ),
    "pseudo-bidirectional transformer": (
        "task=translation task.data={0}/bin task.source_lang=src task.target_lang=trg"
        " +model._name=pseudo_bidirectional_transformer +model.pseudo_future_layer=output"
        " +model.encoder_layers=1 +model.encoder_embed_dim=16 criterion=cross_entropy"
    ),
    "edit tagger": (
        "+task._name=edit_labeling +task.data={0}/bin +task.edit_unchanged_share=0.5"
        " criterion._name=edit_cross_entropy +criterion.edit_copy_weight=0.7"
        " +model._name=edit_tagger +model.encoder_layers=1 +model.encoder_embed_dim=24"
    ),
    "virtual adversarial training": (
        "+task._name=semi_supervised_classification +task.data={0}/data"
        " +task.classification_max_length=30 criterion._name=adversarial_cross_entropy"
        " +criterion.adversarial_epsilon=0.5 +model._name=lstm_classifier"
        " +model.recurrent_embed_dim=8 +model.recurrent_hidden_dim=6"
    ),
}


@pytest.mark.parametrize("name", HYDRA)
@pytest.mark.skipif(OLD_HYDRA, reason="Hydra 1.0 takes no model that it has no group for")
def test_hydra_train_stores_its_options(
    name: str, request: pytest.FixtureRequest, run: Run, tmp_path: Path
) -> None:
    corpus = request.getfixturevalue(FAMILIES[name].corpus)
    words = [word.strip("'") for word in HYDRA[name].format(corpus).split()]
    run(
        *("fairseq-hydra-train", f"common.user_dir={PACKAGE}", "common.cpu=true", *words),
        *("optimizer=adam", "optimization.lr=[0.001]", "optimization.max_update=2"),
        *("dataset.max_tokens=500", f"checkpoint.save_dir={tmp_path / 'run'}"),
        *("checkpoint.no_epoch_checkpoints=true", f"hydra.run.dir={tmp_path / 'hydra'}"),
        cwd=tmp_path,
        HYDRA_FULL_ERROR="1",
    )
    state = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=False)
    for word in words:
        key, value = word.removeprefix("+").split("=", 1)
        section, _, option = key.partition(".")
        if option:
            assert str(state["cfg"][section][option]) == value.strip('"'), word
    if name == "denoising":
        assert state["cfg"]["task"]["seed"] == 4
    assert ("ema" in state["extra_state"]) == ("ema.store_ema=True" in words)
