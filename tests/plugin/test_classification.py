"""The three stages of algorithm 1 (MEIN), trained with fairseq."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fairseq_ssl.data.two_view_dataset import PIECES, WORDS
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.models.imitators import ExpertAndImitators
from fairseq_ssl.modules.window_classifiers import average_windows
from tests.conftest import PACKAGE, weights
from tests.plugin import classification as made


@pytest.fixture
def data(classifiers: Path) -> Path:
    return classifiers / "data"


@pytest.fixture
def expert(classifiers: Path) -> Path:
    return classifiers / "expert/checkpoint_last.pt"


@pytest.fixture
def imitators(classifiers: Path) -> Path:
    return classifiers / "imitators/checkpoint_last.pt"


@pytest.fixture
def mixture(classifiers: Path) -> Path:
    return classifiers / "mixture/checkpoint_last.pt"


def test_each_stage_trains_only_its_part(expert: Path, imitators: Path, mixture: Path) -> None:
    first, second, last = weights(expert), weights(imitators), weights(mixture)
    assert all(name.startswith("imitators.") for name in second)
    for name, weight in second.items():
        kept = last[f"groups.0.{name.removeprefix('imitators.')}"]
        assert torch.equal(weight, kept), name
    moved = [not torch.equal(one, last[f"expert.{name}"]) for name, one in first.items()]
    assert all(moved)
    assert last["lambda_steps"].ne(0).all()
    state = torch.load(mixture, weights_only=False)["last_optimizer_state"]["state"]
    assert len(state) == len(first) + 1, "the optimizer must not have the imitators"


def test_mixture_checkpoint_needs_no_other_checkpoints(
    data: Path, expert: Path, imitators: Path, tmp_path: Path
) -> None:
    """Its logits equal equation 3.6."""
    parts = [tmp_path / path.parent.name for path in (expert, imitators)]
    shutil.copy(expert, parts[0])
    shutil.copy(imitators, parts[1])
    mixture = made.mixture(data, tmp_path / "run", parts[0], "--mixture-imitators", parts[1])
    for path in parts:
        path.unlink()
    model, task = made.loaded(mixture, data)
    texts = task.unlabeled("unlabeled", [WORDS, PIECES])
    batch = texts.collater([texts[index] for index in range(6)])["net_input"]
    with torch.no_grad():
        found = model(**batch)
        logits = model.expert(batch["src_tokens"], batch["src_lengths"])
        windows = model.groups[0](batch["piece_tokens"])
        for number, one in enumerate(windows.logits):
            logits = logits + model.lambdas()[number].sigmoid() * average_windows(one, windows)
        torch.testing.assert_close(found, logits)
        for index in range(6):
            alone = texts.collater([texts[index]])["net_input"]
            torch.testing.assert_close(
                found[index : index + 1], model(**alone), rtol=1e-4, atol=1e-5
            )


def test_mixture_with_weight_0_equals_its_expert(
    data: Path, expert: Path, imitators: Path, tmp_path: Path
) -> None:
    flags = ("--mixture-imitators", imitators, "--mixture-lambda=-inf", "--lr", "0")
    mixture, task = made.loaded(made.mixture(data, tmp_path / "run", expert, *flags), data)
    alone, _ = made.loaded(expert, data)
    texts = task.unlabeled("unlabeled", [WORDS, PIECES])
    batch = texts.collater([texts[index] for index in range(6)])["net_input"]
    assert torch.equal(mixture(**batch), alone(**batch))


def test_separate_imitators_and_the_control_experiment(
    data: Path, expert: Path, tmp_path: Path
) -> None:
    apart = []
    for window in ("1", "3"):
        run = tmp_path / window
        apart.append(made.imitators(data, run, expert, "--imitator-windows", window))
    both = ":".join(map(str, apart))
    found = made.mixture(data, tmp_path / "both", expert, "--mixture-imitators", both)
    model, _ = made.loaded(found, data)
    assert [one.windows for one in model.groups] == [(1,), (3,)]
    flags = ("--mixture-random", "4", "--mixture-lambda-rate", "10")
    model, _ = made.loaded(made.mixture(data, tmp_path / "random", expert, *flags), data)
    assert model.alphas(torch.tensor([[5, 6]])).shape == (4, 1, 2)
    assert model.weights().sub(0.5).abs().max() > 0.01


def test_teacher_labels_of_a_folder_belong_to_their_lines(data: Path, tmp_path: Path) -> None:
    """Its probabilities are the labels of the texts, which the imitators learn."""
    teacher = tmp_path / "teacher"
    teacher.mkdir()
    np.save(teacher / "unlabeled.npy", np.array([[0.0, 1.0], [1.0, 0.0]] * 15, np.float16))
    flags = ("--max-epoch", "15", "--classification-unlabeled-lines", "26")
    checkpoint = made.imitators(data, tmp_path / "run", teacher, *flags)
    model, task = made.loaded(checkpoint, data, imitator_teacher=teacher)
    task.stage = "supervised"
    texts = task.unlabeled("unlabeled", [PIECES])
    batch = texts.collater([texts[index] for index in range(30)])["net_input"]
    said = sum(model.imitators.alphas(batch["piece_tokens"])).argmax(-1)
    assert (said == torch.tensor([1, 0] * 15)).float().mean() > 0.9
    np.save(teacher / "unlabeled.npy", np.full((29, 2), 0.5))
    with pytest.raises(DataError, match="30 lines of pieces, but 29 lines of teacher"):
        made.imitators(data, tmp_path / "other", teacher)


def test_full_epochs_repeat_a_sample(data: Path, tmp_path: Path) -> None:
    """The lines of further splits follow those of the first."""
    for split, count in (("unlabeled", 30), ("valid", 9)):
        np.save(tmp_path / f"{split}.npy", np.full((count, 2), 0.5))
    few = ("--classification-unlabeled-lines", "8")
    extra = ("--classification-unlabeled", "unlabeled:valid", few[0], "34")
    found, tasks, updates = {}, {}, {}
    for name, flags in {
        "all": (),
        "few": few,
        "full": (*few, "--classification-full-epochs"),
        "extra": extra,
    }.items():
        checkpoint = made.imitators(data, tmp_path / name, tmp_path, *flags, "--max-epoch", "1")
        _, tasks[name] = made.loaded(checkpoint, data, imitator_teacher=tmp_path)
        tasks[name].load_dataset("train")
        found[name] = tasks[name].datasets["train"]
        state = torch.load(checkpoint, weights_only=False)
        updates[name] = state["optimizer_history"][-1]["num_updates"]
    assert [len(texts) for texts in found.values()] == [30, 8, 30, 34]
    assert updates["all"] == updates["full"] > updates["few"]
    assert set(found["full"].lines) == set(found["few"].lines)
    times = np.unique(found["full"].lines, return_counts=True)[1]
    assert sorted(times) == [3, 3, 4, 4, 4, 4, 4, 4]
    assert set(range(30)) < set(found["extra"].lines)
    line = int(found["extra"].lines[33]) - 30
    ids = tasks["extra"].unlabeled("valid", [PIECES])[line][PIECES]
    assert torch.equal(found["extra"][33][PIECES], ids)


def test_language_model_embeddings_are_matched_by_word(data: Path, tmp_path: Path) -> None:
    save = tmp_path / "lm"
    words = (data / "lm", "--user-dir", PACKAGE, "--task", "language_modeling")
    flags = ("--arch", "recurrent_lm", *made.SIZES, "--criterion", "adaptive_loss")
    more = ("--sample-break-mode", "eos", "--max-epoch", "1", "--ddp-backend", "legacy_ddp")
    lm = made.run(save, *words, *flags, *more, "--tokens-per-sample", "50")
    other = tmp_path / "other"
    shutil.copytree(data, other, symlinks=True)
    lines = (data / "words/dict.txt").read_text().splitlines()
    (other / "words/dict.txt").write_text("\n".join(["unheard 1", *reversed(lines)]) + "\n")
    shutil.copy(data / "words/dict.txt", tmp_path / "lm.txt")
    start = ("--classifier-lm", lm, "--classifier-lm-dict", tmp_path / "lm.txt", "--lr", "0")
    found = weights(made.expert(other, tmp_path / "run", *start, epochs=1))
    known = weights(lm)
    table, theirs = found["encoder.embedding.weight"], known["decoder.encoder.embedding.weight"]
    torch.testing.assert_close(table[5:], theirs[4:].flip(0))
    assert torch.equal(table[:4], theirs[:4])
    name = "lstm.weight_hh_l0"
    assert torch.equal(found[f"encoder.{name}"], known[f"decoder.encoder.{name}"])
    with pytest.raises(ConfigurationError, match="Set --recurrent-embed-dim 8 --recurrent-hidden"):
        made.expert(data, tmp_path / "no", *start, "--recurrent-hidden-dim", "7")


@pytest.mark.parametrize("criterion", ["adversarial", "virtual_adversarial"])
def test_adversarial_training_learns(data: Path, criterion: str, tmp_path: Path) -> None:
    flags = ("--criterion", f"{criterion}_cross_entropy", "--recurrent-normalize-embeddings")
    more = ("--classification-unlabeled-per-labeled", "2", "--clip-norm", "5", "--lr", "0.03")
    found = made.expert(data, tmp_path / "run", *flags, *more, epochs=20)
    model, task = made.loaded(found, data)
    task.load_dataset("valid")
    texts = task.dataset("valid")
    batch = texts.collater([texts[index] for index in range(9)])
    assert (model(**batch["net_input"]).argmax(-1) == batch["target"]).all()


@pytest.mark.parametrize(("criterion", "asked"), [("adversarial", 1), ("virtual_adversarial", 2)])
def test_adversarial_training_of_a_mixture_calls_imitators_once_per_text(
    data: Path,
    expert: Path,
    imitators: Path,
    criterion: str,
    asked: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    alphas = ExpertAndImitators.alphas

    def counted(self: ExpertAndImitators, piece_tokens: Tensor) -> Tensor:
        calls.append(len(piece_tokens))
        return alphas(self, piece_tokens)

    monkeypatch.setattr(ExpertAndImitators, "alphas", counted)
    flags = ("--mixture-imitators", imitators, "--criterion", f"{criterion}_cross_entropy")
    more = ("--classification-unlabeled-per-labeled", "2", "--adversarial-epsilon", "1")
    found = weights(
        made.mixture(data, tmp_path / "run", expert, *flags, *more, "--max-update", "3")
    )
    assert len(calls) == 3 * asked
    for name, weight in weights(expert).items():
        assert not torch.equal(weight, found[f"expert.{name}"]), name
    for name, weight in weights(imitators).items():
        assert torch.equal(weight, found[f"groups.0.{name.removeprefix('imitators.')}"]), name
    assert found["lambda_steps"].ne(0).all()


def test_training_with_another_order_of_classes_is_rejected(
    data: Path, expert: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(data, other, symlinks=True)
    path = other / "label/dict.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    for flag in ("--finetune-from-model", "--restore-file"):
        with pytest.raises(ConfigurationError, match=rf"{expert} .* label/dict\.txt .* differs"):
            made.expert(other, tmp_path / "run", flag, expert)


@pytest.mark.parametrize(
    ("stage", "flags", "named"),
    [
        ("expert", ("--imitator-teacher", "{expert}"), "--imitator-teacher"),
        ("expert", ("--train-subset", "missing"), r"words/missing\.idx"),
        ("expert", ("--classification-full-epochs",), "-full-epochs"),
        ("imitators", ("--imitator-windows", "1,0"), "--imitator-windows"),
        ("imitators", ("--classification-unlabeled-lines", "31"), "30 unlabeled lines"),
        ("imitators", ("--imitator-sparse-gradients",), "lazy_adam"),
        ("mixture", (), "--mixture-imitators"),
        ("mixture", ("--mixture-imitators", "{expert}"), "Expected a checkpoint of imitators"),
    ],
)
def test_invalid_options_are_rejected_before_the_first_batch(
    stage: str, flags: tuple[str, ...], named: str, data: Path, expert: Path, tmp_path: Path
) -> None:
    words = [word.format(expert=expert) for word in flags]
    teacher = () if stage == "expert" else (expert,)
    with pytest.raises((ConfigurationError, DataError), match=named):
        getattr(made, stage)(data, tmp_path, *teacher, *words)


def test_imitators_of_other_subwords_are_rejected(
    data: Path, expert: Path, imitators: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(data, other, symlinks=True)
    with (other / "pieces/dict.txt").open("a") as file:
        file.write("more 1\n")
    with pytest.raises(ConfigurationError, match=r"pieces/dict\.txt"):
        made.mixture(other, tmp_path, expert, "--mixture-imitators", imitators)


def test_embeddings_without_gradient_do_not_change(
    data: Path, expert: Path, tmp_path: Path
) -> None:
    flags = ("--imitator-sparse-gradients", "--optimizer", "lazy_adam", "--clip-norm", "1")
    name = "imitators.embeddings.0.weight"
    start = weights(made.imitators(data, tmp_path / "start", expert, *flags, "--lr", "0"))[name]
    path = made.imitators(data, tmp_path / "run", expert, *flags, "--max-update", "1")
    moved = weights(path)[name].ne(start).any(1)
    assert 0 < moved.sum() < len(moved)
    learned = made.imitators(data, tmp_path / "run", expert, *flags, "--max-update", "2")
    assert weights(learned)[name].ne(start).any(1).sum() > moved.sum()
    kept = torch.load(learned, weights_only=False)["last_optimizer_state"]["state"]
    assert all(torch.is_tensor(one["exp_avg"]) for one in kept.values())


def test_half_precision_predicts_the_same(data: Path, imitators: Path, tmp_path: Path) -> None:
    expert = made.expert(data, tmp_path / "expert", "--recurrent-normalize-embeddings")
    path = made.mixture(data, tmp_path / "mixture", expert, "--mixture-imitators", imitators)
    model, task = made.loaded(path, data)
    texts = task.unlabeled("unlabeled", ["words", "pieces"])
    batch = texts.collater([texts[index] for index in range(9)])["net_input"]
    with torch.no_grad():
        wanted = model(**batch)
        for kind, most in ((torch.float16, 5e-3), (torch.bfloat16, 4e-2)):
            found = model.to(kind)(**batch)
            assert torch.isfinite(found).all()
            torch.testing.assert_close(found.float(), wanted, atol=most, rtol=most)
            model.float()
