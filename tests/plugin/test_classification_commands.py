"""Training of classifiers: resumed, with two processes, in half precision, with Hydra."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fairseq_ssl.errors import ConfigurationError
from tests.conftest import OLD_HYDRA, PACKAGE, ROOT, Run, weights
from tests.plugin import classification as made

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning")]
DETERMINISTIC = ("--recurrent-dropout", "0", "--adversarial-epsilon", "1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.data_folder(tmp_path_factory.mktemp("classification"))


@pytest.fixture(scope="module")
def expert(data: Path) -> Path:
    return made.expert(data, data.parent / "expert")


@pytest.mark.slow
def test_resumed_training_equals_uninterrupted_training(
    data: Path, expert: Path, tmp_path: Path
) -> None:
    """This holds for all stages, with new shuffling and new texts for VAT in each epoch."""
    vat = (
        "--criterion",
        "virtual_adversarial_cross_entropy",
        "--classification-unlabeled-per-labeled",
        "2",
    )

    def steps(folder: Path, updates: str) -> list[Path]:
        """Train all stages up to an update, from the same initial checkpoints."""
        end = ("--max-update", updates, "--max-epoch", "100")
        kept = folder / "imitators"
        return [
            made.expert(data, folder / "expert", *vat, *end),
            made.imitators(data, kept, expert, *end),
            made.mixture(data, folder / "mixture", expert, "--mixture-random", "2", *end),
        ]

    for updates in ("3", "5"):
        steps(tmp_path / "broken", updates)
    both = steps(tmp_path / "broken", "9"), steps(tmp_path / "whole", "9")
    for broken, whole in zip(*both, strict=True):
        wanted = weights(whole)
        assert all(torch.equal(weight, wanted[name]) for name, weight in weights(broken).items())


def test_two_processes_equal_one_with_double_accumulation(
    run: Run, data: Path, tmp_path: Path
) -> None:
    flags = ("--criterion", "adversarial_cross_entropy", *DETERMINISTIC, "--max-update", "4")
    one = weights(made.expert(data, tmp_path / "one", *flags, "--update-freq", "2", epochs=9))
    words = (data, "--user-dir", PACKAGE, "--task", "semi_supervised_classification")
    more = ("--arch", "lstm_classifier", *made.SIZES, "--max-epoch", "9")
    launcher = f'source "{ROOT}/examples/common/launch.sh"; launch_train "$@"'
    start = (
        "bash",
        "-euo",
        "pipefail",
        "-c",
        launcher,
        "launch",
        *words,
        *made.TRAINING,
        *more,
        *flags,
    )
    run(*start, "--save-dir", tmp_path / "two", LAUNCH="cpu", PROCESSES="2")
    for name, weight in weights(tmp_path / "two/checkpoint_last.pt").items():
        torch.testing.assert_close(one[name], weight, atol=2e-5, rtol=0, msg=name)


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


@pytest.mark.parametrize("flags", [("--optimizer", "adam"), ("--optimizer", "lazy_adam", "--bf16")])
def test_sparse_gradients_need_lazy_adam_in_single_precision(
    data: Path, expert: Path, flags: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="needs --optimizer lazy_adam, without --fp16"):
        made.imitators(data, tmp_path, expert, "--imitator-sparse-gradients", *flags)
    amp = ("--imitator-sparse-gradients", "--optimizer", "lazy_adam", "--amp")
    assert made.imitators(data, tmp_path, expert, *amp, "--max-update", "1").exists()


@pytest.mark.parametrize("embeddings", [(), ("--recurrent-normalize-embeddings",)])
def test_half_precision_predicts_the_same(
    data: Path, embeddings: tuple[str, ...], tmp_path: Path
) -> None:
    expert = made.expert(data, tmp_path / "expert", *embeddings)
    imitators = made.imitators(data, tmp_path / "imitators", expert)
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


@pytest.mark.skipif(OLD_HYDRA, reason="Hydra 1.0 has no group for a model of a plug-in")
def test_hydra_train_accepts_model_task_and_criterion(run: Run, data: Path, tmp_path: Path) -> None:
    run(
        *("fairseq-hydra-train", f"common.user_dir={PACKAGE}", f"+task.data={data}"),
        *("+task._name=semi_supervised_classification", "+task.classification_max_length=30"),
        *("criterion._name=adversarial_cross_entropy", "+criterion.adversarial_epsilon=0.5"),
        *("+model._name=lstm_classifier", "+model.recurrent_embed_dim=8"),
        *("+model.recurrent_hidden_dim=6", "optimizer=adam", "optimization.lr=[0.001]"),
        *("optimization.max_update=2", "dataset.batch_size=8", "common.cpu=true"),
        *(f"checkpoint.save_dir={tmp_path / 'run'}", "checkpoint.no_epoch_checkpoints=true"),
        f"hydra.run.dir={tmp_path / 'hydra'}",
        cwd=tmp_path,
        HYDRA_FULL_ERROR="1",
    )
    cfg = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=False)["cfg"]
    assert (cfg["task"]["classification_max_length"], cfg["model"]["recurrent_hidden_dim"]) == (
        30,
        6,
    )
    assert cfg["criterion"]["adversarial_epsilon"] == 0.5
