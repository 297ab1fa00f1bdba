"""Training of two models on pairs and monolingual text."""

from __future__ import annotations

import copy
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from fairseq import tasks
from fairseq.data import data_utils
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.utils.data import Subset

import fairseq_ssl
from fairseq_ssl.criterions.reconstruction_loss import SOURCE, TARGET
from fairseq_ssl.errors import ConfigurationError, DataError
from tests.conftest import trained_only
from tests.plugin.runs import parsed, task_of
from tests.unit.models.simulated_device import move, move_model, simulated_device

fairseq_ssl.register()

PAD, EOS = 1, 2
SMALL = {
    "transformer_tiny": ("--dropout", "0"),
    "lstm": (
        *("--dropout", "0", "--encoder-embed-dim", "8", "--encoder-hidden-size", "8"),
        *("--decoder-embed-dim", "8", "--decoder-hidden-size", "8", "--decoder-out-embed-dim", "8"),
    ),
    "bytenet_digits": ("--bytenet-encoder-norm", "layer", "--bytenet-sets", "1"),
}
every_arch = pytest.mark.parametrize("arch", SMALL)


class Step:
    """An optimizer with the interface that fairseq's tasks use."""

    def __init__(self, model: Any) -> None:
        self.adam = torch.optim.Adam(model.parameters(), lr=0.01)

    def backward(self, loss: Tensor) -> None:
        torch.autograd.backward(loss)

    def step(self, size: float) -> None:
        for group in self.adam.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.grad /= size
        self.adam.step()
        self.adam.zero_grad()


def built(
    folder: Path, arch: str, *flags: str, both: bool = True, has_text: bool = True
) -> tuple[Any, Any, Any]:
    """Return a task with its training pairs, the model and the criterion."""
    texts = [f"--reconstruction-source-text={folder}/mono/train"] * has_text
    texts += [f"--reconstruction-target-text={folder}/mono/train"] * (has_text and both)
    words = ["--task", "reconstruction_translation", "-s", "words", "-t", "digits", "--arch", arch]
    words += ["--criterion", "reconstruction_loss", *SMALL.get(arch, ())]
    beam = ["--reconstruction-beam", "3"] * has_text
    cfg = parsed(folder / "bin", *words, *beam, *texts, *flags)
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    model = task.build_model(cfg.model)
    task.load_dataset("train")
    return task, model, task.build_criterion(cfg.criterion)


def batches(task: Any, size: int = 6, epoch: int = 1) -> list[dict[str, Any]]:
    iterator = task.get_batch_iterator(task.datasets["train"], max_sentences=size, epoch=epoch)
    return list(iterator.next_epoch_itr(shuffle=False))


def alone(model: Any, source: list[int], target: list[int]) -> Tensor:
    """Return log P of one target for one source, without padding."""
    previous = torch.tensor([[EOS, *target[:-1]]])
    scores = model(torch.tensor([source]), torch.tensor([len(source)]), previous)[0][0]
    total: Tensor = scores.log_softmax(-1)[range(len(target)), target].sum()
    return total


def sentences(tokens: Tensor) -> list[list[int]]:
    return [[word for word in row if word != PAD] for row in tokens.tolist()]


def test_different_pairs_of_the_two_directions_are_rejected(digits: Path, tmp_path: Path) -> None:
    data = tmp_path / "bin"
    shutil.copytree(digits / "bin", data)
    for suffix in ("bin", "idx"):
        for side in ("words", "digits"):
            name = f"digits-words.{side}.{suffix}"
            shutil.copy(data / f"valid.words-digits.{side}.{suffix}", data / f"train.{name}")
    task = task_of(
        *(data, "--task", "reconstruction_translation", "-s", "words", "-t", "digits"),
        *("--arch", "transformer_tiny"),
    )
    task.load_dataset("valid")
    with pytest.raises(DataError, match=r"different pairs for .* in the split train"):
        task.load_dataset("train")


@every_arch
def test_gradient_equals_the_weighted_gradients_of_the_candidates(digits: Path, arch: str) -> None:
    """Slides: -sum_k w_k d(log P(y_k | x) + log P(x | y_k)), with w the softmax of the sums."""
    task, model, criterion = built(digits, arch, "--reconstruction-weight", "0.3")
    sample = batches(task)[0]
    there = {SOURCE: "words-digits", TARGET: "digits-words"}
    expected = torch.zeros(())
    for name, direction in there.items():
        ways = model.models[direction], model.models["-".join(reversed(direction.split("-")))]
        text = sentences(sample[name]["net_input"]["src_tokens"])
        found = task._translate(sample[name], model, direction)
        for words, hypotheses in zip(text, found, strict=True):
            assert len(hypotheses) == 3
            made = [one["tokens"].tolist() for one in hypotheses]
            both = torch.stack([alone(ways[0], words, y) + alone(ways[1], y, words) for y in made])
            shares = both.detach().softmax(0)
            expected = expected - 0.3 * (shares * both).sum()
    source = sentences(sample["net_input"]["src_tokens"])
    for words, target in zip(source, sentences(sample["target"]), strict=True):
        expected = expected - alone(model.models["words-digits"], words, target)
        expected = expected - alone(model.models["digits-words"], target, words)
    torch.autograd.backward(expected)
    trained = trained_only(dict(model.named_parameters()))
    wanted = {name: cast(torch.Tensor, weight.grad).clone() for name, weight in trained.items()}
    model.zero_grad()
    size, log = task.train_step(sample, model, criterion, Step(model), 1)[1:]
    assert (size, log["source_text_sentences"], log["target_text_sentences"]) == (6, 6, 6)
    for name, weight in trained.items():
        torch.testing.assert_close(weight.grad, wanted[name], atol=1e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize("arch", ["transformer_tiny", "bytenet_digits"])
def test_gradient_on_a_device(digits: Path, arch: str) -> None:
    """Search, candidates and both directions do not mix tensors of two devices."""
    task, model, criterion = built(digits, arch)
    sample = batches(task)[0]
    torch.manual_seed(2)
    loss, _, _ = task.train_step(sample, model, criterion, Step(model), 1)
    task, moved, criterion = built(digits, arch)
    move_model(moved)
    torch.manual_seed(2)
    with simulated_device():
        found, _, _ = task.train_step(move(sample), moved, criterion, Step(moved), 1)
    torch.testing.assert_close(found.stored, loss)
    for weight, on_cpu in zip(moved.parameters(), model.parameters(), strict=True):
        if on_cpu.grad is not None:
            torch.testing.assert_close(weight.grad.stored, on_cpu.grad, atol=1e-4, rtol=1e-3)


def test_with_lambda_0_each_model_is_trained_as_if_alone(digits: Path) -> None:
    from fairseq.criterions.cross_entropy import CrossEntropyCriterion

    task, model, criterion = built(digits, "bytenet_digits", "--reconstruction-weight", "0")
    apart = {name: copy.deepcopy(one) for name, one in model.models.items()}
    step = Step(model)
    for update, sample in enumerate(batches(task)):
        assert task.train_step(sample, model, criterion, step, update)[1] == 6
        step.step(6)
    for name, one in apart.items():
        own_task = task.directions[name]
        own = CrossEntropyCriterion(own_task, sentence_avg=True)
        step = Step(one)
        for update, sample in enumerate(batches(task)):
            pairs = own_task.datasets["train"]
            sample = pairs.collater([pairs[int(i)] for i in sample["id"]])
            own_task.train_step(sample, one, own, step, update)
            step.step(6)
        for weight, expected in one.state_dict().items():
            found = model.models[name].state_dict()[weight]
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4, msg=weight)


def test_candidates_do_not_update_batch_norm_statistics(digits: Path) -> None:
    flags = ("--bytenet-encoder-norm", "batch")
    statistics = []
    for weight in ("0", "1"):
        task, model, criterion = built(
            digits, "bytenet_digits", *flags, "--reconstruction-weight", weight
        )
        task.train_step(batches(task)[0], model, criterion, Step(model), 1)
        assert model.training
        assert all(module.training for module in model.modules())
        names = [name for name in model.state_dict() if "running" in name]
        statistics.append([model.state_dict()[name] for name in names])
    assert len(statistics[0]) == 2 * 2 * 3 * 5  # mean and variance, models, norms, blocks
    for one, other in zip(*statistics, strict=True):
        assert torch.equal(one, other)


def test_all_modules_are_in_training_mode_after_search_and_validation(digits: Path) -> None:
    task, model, criterion = built(digits, "bytenet_digits")
    step = Step(model)
    for _ in range(2):
        task.train_step(batches(task)[0], model, criterion, step, 1)
        assert all(module.training for module in model.modules())
        model.eval()
        assert not any(module.training for module in model.modules())


def test_set_num_updates_reaches_each_module_once(digits: Path) -> None:
    _, model, _ = built(digits, "transformer_tiny")
    calls: list[tuple[nn.Module, int]] = []
    for module in model.modules():
        if module is not model:
            module.set_num_updates = partial(
                lambda one, number: calls.append((one, number)), module
            )
    model.set_num_updates(3)
    assert {module for module, _ in calls} == set(model.models.values())
    for both in model.models.values():
        del both.set_num_updates
    model.set_num_updates(4)
    wanted = set(model.modules()) - {model, model.models, *model.models.values()}
    assert {module for module, number in calls if number == 4} == wanted


def test_both_texts_have_the_schedule_of_lambda(digits: Path) -> None:
    late = ("--reconstruction-start-update", "5", "--reconstruction-weight", "5:0.2,6:0")
    task, model, criterion = built(digits, "transformer_tiny", *late)
    sample = batches(task)[0]
    logs = [task.train_step(sample, model, criterion, Step(model), at)[2] for at in (4, 5, 6)]
    counts = [[log[f"{name}_sentences"] for name in (SOURCE, TARGET)] for log in logs]
    assert counts == [[0, 0], [6, 6], [0, 0]]


def test_a_batch_without_monolingual_text_logs_the_same_keys(digits: Path) -> None:
    task, model, criterion = built(digits, "transformer_tiny")
    sample = batches(task)[0]
    # Of several processes, one without a batch gets a batch of the validation set.
    bare = {name: one for name, one in sample.items() if name not in (SOURCE, TARGET)}
    logs = [task.train_step(one, model, criterion, Step(model), 1)[2] for one in (sample, bare)]
    kinds = [{name: torch.is_tensor(one) for name, one in log.items()} for log in logs]
    assert list(kinds[0].items()) == list(kinds[1].items()), "fairseq adds them up in this order"


def test_an_epoch_has_all_pairs_and_continues_the_text(digits: Path) -> None:
    task, _, _ = built(digits, "transformer_tiny", both=False)
    data = task.datasets["train"]
    assert (len(data), len(data.texts[SOURCE])) == (24, 60)
    seen: Counter[int] = Counter()
    for epoch in range(1, 6):  # 120 sentences, twice the text
        data.set_epoch(epoch)
        seen.update(int(one) for one in data.chosen[SOURCE])
        lengths = data.texts[SOURCE].src_sizes[data.chosen[SOURCE]][data.by_length]
        assert (lengths[1:] >= lengths[:-1]).all()
    assert set(seen.values()) == {2}
    assert len(seen) == 60
    data.set_epoch(2)
    again = built(digits, "transformer_tiny", both=False)[0].datasets["train"]
    again.set_epoch(2)
    assert (again.chosen[SOURCE] == data.chosen[SOURCE]).all()
    sample = batches(task, 5, epoch=2)[0]
    assert TARGET not in sample
    assert len(sample[SOURCE]["id"]) == len(sample["id"]) == len(sample["backward"]["id"])
    assert data.num_tokens(0) == data.num_tokens_vec(torch.arange(1).numpy())[0]


def test_folders_in_turn_read_different_text(digits: Path) -> None:
    task, _, _ = built(digits, "transformer_tiny", both=False)
    data, used = task.datasets["train"], list[int]()
    data.folders = 2
    every = data.dataset
    for epoch in range(1, 5):
        data.dataset = Subset(every, range(12 if epoch % 2 else 4))
        data.by_length = np.arange(len(data.dataset))
        data.set_epoch(epoch)
        used += data.chosen[SOURCE].tolist()
    assert len(used) == 2 * 12 + 2 * 4
    assert len(set(used)) == len(used)


def test_candidates_fit_into_the_model_that_reads_them(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ("--max-source-positions", "15", "--max-target-positions", "60")
    task, model, criterion = built(digits, "transformer_tiny", *limits, "--encoder-learned-pos")
    monkeypatch.setattr(task, "_max_len", lambda _: (3, 40))
    translate, sizes = task._translate, list[int]()

    def recorded(*inputs: Any) -> Any:
        found = translate(*inputs)
        sizes.extend(len(one["tokens"]) for hypotheses in found for one in hypotheses)
        return found

    task._translate = recorded
    model.set_num_updates(0)
    loss, *_ = task.train_step(batches(task)[0], model, criterion, Step(model), 0)
    assert loss.isfinite()
    assert max(sizes) == 15


def test_text_longer_than_max_tokens_is_not_used(digits: Path) -> None:
    """fairseq drops such pairs, too, and fails on them if it forms batches."""
    lengths = built(digits, "transformer_tiny")[0].datasets["train"].texts[SOURCE].src_sizes
    limit = int(max(lengths)) - 1
    task, _, _ = built(digits, "transformer_tiny", "--max-tokens", str(limit))
    data = task.datasets["train"]
    assert len(data.texts[SOURCE]) == sum(lengths <= limit) < len(lengths)
    sizes = {"max_tokens": limit, "max_positions": (limit, limit), "ignore_invalid_inputs": True}
    for epoch in (1, 2, 3):
        assert len(task.get_batch_iterator(data, epoch=epoch, **sizes))
    with pytest.raises(ConfigurationError, match=r"no sentence of at most 1 tokens.*--max-tokens"):
        built(digits, "transformer_tiny", "--max-tokens", "1")


def test_mixed_length_batches_change_with_the_epoch(digits: Path) -> None:
    """They do not depend on numpy's seed, which fairseq 0.12.2 sets to the same in all epochs."""
    flags = ("--reconstruction-mixed-lengths",)
    task, _, _ = built(digits, "transformer_tiny", *flags, both=False)
    data = task.datasets["train"]

    def formed(epoch: int, seed: int = 7) -> list[int]:
        batches(task, epoch=epoch)
        with data_utils.numpy_seed(seed):
            order: list[int] = data.ordered_indices().tolist()
        return order

    orders = [formed(epoch) for epoch in (1, 2, 3)]
    assert all(sorted(order) == list(range(24)) for order in orders)
    assert len(set(map(tuple, orders))) == 3
    assert formed(2, seed=8) == orders[1]
    lengths = data.dataset.src_sizes[orders[0]]
    assert (lengths[1:] < lengths[:-1]).any()


def test_alignment_is_rejected_without_attention(digits: Path) -> None:
    cfg = OmegaConf.structured(FairseqConfig)
    for name, value in (("print_alignment", "hard"), ("replace_unk", "")):
        aligned = copy.deepcopy(cfg)
        setattr(aligned.generation, name, value)
        _, model, _ = built(digits, "bytenet_digits")
        with pytest.raises(ConfigurationError, match="with bytenet, which has no attention"):
            model.prepare_for_inference_(aligned)
        _, model, _ = built(digits, "transformer_tiny")
        model.prepare_for_inference_(aligned)
    model = built(digits, "bytenet_digits")[1]
    model.prepare_for_inference_(cfg)
    assert not any(part.training for part in model.modules())


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        ("--reconstruction-weight -1", "--reconstruction-weight"),
        ("--eval-bleu", "--eval-bleu"),
        ("--num-batch-buckets 3", "--num-batch-buckets"),
        ("--criterion cross_entropy", "--criterion reconstruction_loss"),
        ("--task translation", "--task reconstruction_translation"),
        ("--reconstruction-source-text nowhere/train", "nowhere"),
        ("--arch shape_transformer_tiny --shape-shared-shift", "--shape-shared-shift"),
        ("--arch pointer_transformer_tiny --copy-vocabulary 10", "--copy-vocabulary"),
    ],
)
def test_invalid_options_are_rejected(digits: Path, flags: str, culprit: str) -> None:
    with pytest.raises(ConfigurationError, match=culprit):
        built(digits, "transformer_tiny", *flags.split(), has_text="--task" not in flags)


@pytest.mark.parametrize("arch", ["shape_transformer_tiny", "pointer_transformer_tiny"])
def test_other_architectures_are_built(digits: Path, arch: str) -> None:
    assert built(digits, arch)


def test_another_dictionary_is_rejected(digits: Path, tmp_path: Path) -> None:
    for path in (digits / "mono").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "dict.words.txt").open("a", encoding="utf-8") as file:
        file.write("more 1\n")
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        built(digits, "transformer_tiny", f"--reconstruction-source-text={tmp_path}/train")
