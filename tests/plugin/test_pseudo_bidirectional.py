"""The pseudo-bidirectional Transformer in fairseq's commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.conftest import OLD_HYDRA, PACKAGE, ROOT, Run, weights
from tests.learning.late_decisions import binarize

ARCH = "pseudo_bidirectional_transformer"
SIZES = (
    *("--encoder-layers", "2", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "32"),
    *("--encoder-attention-heads", "2", "--dropout", "0"),
)
TRAINING = (
    *("--user-dir", PACKAGE, "--arch", ARCH, *SIZES, "--optimizer", "adam", "--lr", "0.005"),
    *("--criterion", "cross_entropy", "--max-tokens", "500", "--max-update", "60"),
    *("--log-format", "simple", "--seed", "1", "--cpu"),
)


@pytest.fixture(scope="module")
def data(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences to correct: 400 for training, 40 each for validation and test."""
    sizes = {"train": 400, "valid": 40, "test": 40}
    return binarize(run, tmp_path_factory.mktemp("late"), sizes)


@pytest.fixture(scope="module")
def trained(run: Run, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a resumed training with seed 1, and of a training with seed 2."""
    folder = tmp_path_factory.mktemp("runs")
    save = ("--save-interval-updates", "25", "--save-dir", folder / "one")
    run("fairseq-train", data, *TRAINING, *save)
    again = ("--no-epoch-checkpoints", "--save-dir", folder / "two", "--seed", "2")
    run("fairseq-train", data, *TRAINING, *again)
    return folder


def generated(run: Run, data: Path, path: str | Path, *flags: str) -> dict[str, tuple[float, str]]:
    """Return score and hypothesis of fairseq-generate by line."""
    words = ("fairseq-generate", data, "--user-dir", PACKAGE, "--path", path, "--cpu", *flags)
    shown = run(*words).stdout
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", shown, re.M)
    assert len(found) == 40
    return {line: (float(score), text) for line, score, text in found}


def close(one: dict[str, tuple[float, str]], other: dict[str, tuple[float, str]]) -> bool:
    return all(
        text == other[line][1] and abs(score - other[line][0]) < 1e-4
        for line, (score, text) in one.items()
    )


def test_checkpoint_stores_shared_weights_once(trained: Path) -> None:
    checkpoint = trained / "one/checkpoint_last.pt"
    state = weights(checkpoint)
    assert not [name for name in state if re.match(r"decoder\.(blocks|embed|output)", name)]
    places = {weight.untyped_storage().data_ptr() for weight in state.values()}
    assert len(places) == len(state)


def test_resumed_training_equals_uninterrupted_training(
    run: Run, data: Path, trained: Path, tmp_path: Path
) -> None:
    begun = next((trained / "one").glob("checkpoint_*_25.pt"))
    run("fairseq-train", data, *TRAINING, "--restore-file", begun, "--save-dir", tmp_path)
    uninterrupted = weights(trained / "one/checkpoint_last.pt")
    resumed = weights(tmp_path / "checkpoint_last.pt")
    assert all(torch.equal(weight, resumed[name]) for name, weight in uninterrupted.items())


def test_decoding_with_beams_batches_and_ensembles(run: Run, data: Path, trained: Path) -> None:
    one, two = (trained / name / "checkpoint_last.pt" for name in ("one", "two"))
    batched = generated(run, data, one, "--beam", "3")
    alone = generated(run, data, one, "--beam", "3", "--batch-size", "1")
    assert close(alone, batched)
    assert close(generated(run, data, f"{one}:{one}", "--beam", "3"), batched)
    assert not close(generated(run, data, f"{one}:{two}", "--beam", "3"), batched)
    assert close(generated(run, data, one, "--beam", "3", "--print-alignment"), batched)


def test_aggressive_decoding_equals_greedy_search(run: Run, data: Path, trained: Path) -> None:
    path = trained / "one/checkpoint_last.pt"
    aggressive = ("--task", "local_transduction", "--aggressive")
    greedy = generated(run, data, path, "--beam", "1")
    assert close(generated(run, data, path, "--beam", "1", *aggressive), greedy)
    words = ("fairseq-generate", data, "--user-dir", PACKAGE, "--path", path, "--cpu", *aggressive)
    assert "Set --beam 1." in run(*words, code=1).stderr
    replacing = ("--beam", "1", "--print-alignment")
    assert "--print-alignment" in run(*words, *replacing, code=1).stderr.splitlines()[-1]


def test_interactive_prints_alignments(run: Run, data: Path, trained: Path) -> None:
    words = ("fairseq-interactive", data, "--user-dir", PACKAGE, "--cpu", "--print-alignment")
    path = trained / "one/checkpoint_last.pt"
    shown = run(*words, "--path", path, text="she walk daily\n\n").stdout
    assert len(re.findall(r"^H-\d+\t", shown, re.M)) == 2
    assert re.search(r"^A-0\t[0-3]-0( [0-3]-\d+)*$", shown, re.M)


def test_validate_reports_the_loss_of_training(run: Run, data: Path, trained: Path) -> None:
    words = ("fairseq-validate", data, "--task", "translation", "--user-dir", PACKAGE, "--cpu")
    checkpoint = trained / "one/checkpoint_best.pt"
    done = run(*words, "--path", checkpoint, "--valid-subset", "valid", "--max-tokens", "1000")
    loss = re.search(r"valid on 'valid' subset \| loss ([\d.]+)", done.stdout + done.stderr)
    assert loss is not None
    assert float(loss[1]) < 4  # an untrained model: log2 of 60 words is 5.9


@pytest.mark.parametrize(
    "flags", [("--no-share-encoder-decoder",), ("--pseudo-future-layer", "output")]
)
def test_other_configurations_train(
    run: Run, data: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    few = ("--max-update", "3", "--no-epoch-checkpoints", "--save-dir", tmp_path)
    run("fairseq-train", data, *TRAINING, *flags, *few)
    checkpoint = tmp_path / "checkpoint_last.pt"
    generated(run, data, checkpoint, "--beam", "2")
    if "--no-share-encoder-decoder" in flags:
        again = ("--finetune-from-model", checkpoint, "--save-dir", tmp_path / "other")
        failed = run("fairseq-train", data, *TRAINING, *again, code=1)
        assert re.match(
            r"fairseq-train: error: The decoder of the checkpoint .* for both or for neither\.$",
            failed.stderr.splitlines()[-1],
        )


def test_two_processes_equal_one_with_double_accumulation(
    run: Run, data: Path, tmp_path: Path
) -> None:
    short = ("--max-update", "10", "--no-epoch-checkpoints")
    twice = ("--update-freq", "2", "--save-dir", tmp_path / "one")
    run("fairseq-train", data, *TRAINING, *short, *twice)
    launcher = f'source "{ROOT}/examples/common/launch.sh"; launch_train "$@"'
    run(
        *("bash", "-euo", "pipefail", "-c", launcher, "launch", data, *TRAINING, *short),
        *("--save-dir", tmp_path / "two"),
        LAUNCH="cpu",
        PROCESSES="2",
    )
    one = weights(tmp_path / "one/checkpoint_last.pt")
    two = weights(tmp_path / "two/checkpoint_last.pt")
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=1e-5, rtol=0, msg=name)


@pytest.mark.skipif(OLD_HYDRA, reason="Hydra 1.0 takes no model that it has no group for")
def test_hydra_train_accepts_the_model(run: Run, data: Path, tmp_path: Path) -> None:
    run(
        *("fairseq-hydra-train", f"task.data={data}", "task=translation"),
        *("task.source_lang=src", "task.target_lang=trg", f"common.user_dir={PACKAGE}"),
        *(f"+model._name={ARCH}", "+model.pseudo_future_layer=output"),
        *(
            "+model.encoder_layers=1",
            "+model.encoder_embed_dim=16",
            "criterion=cross_entropy",
            "optimizer=adam",
        ),
        *("optimization.lr=[0.001]", "optimization.max_update=2", "dataset.max_tokens=500"),
        *("common.cpu=true", f"checkpoint.save_dir={tmp_path / 'run'}"),
        *("checkpoint.no_epoch_checkpoints=true", f"hydra.run.dir={tmp_path / 'hydra'}"),
        cwd=tmp_path,
    )
    cfg = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=False)["cfg"]["model"]
    assert (cfg["pseudo_future_layer"], cfg["encoder_layers"]) == ("output", 1)
    assert cfg["encoder_embed_dim"] == 16
