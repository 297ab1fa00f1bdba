"""Reading of checkpoints: all parts and tensors are those of a fairseq checkpoint."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ssl.checkpoints.averaging import average
from fairseq_ssl.checkpoints.files import State, check_finite, read_checkpoint, training_data
from fairseq_ssl.errors import DataError, UsageError


def state_with(weight: Any = None, name: Any = "w", **parts: Any) -> State:
    weight = torch.ones(2, 3) if weight is None else weight
    return {
        "args": None,
        "cfg": {"model": {"_name": "transformer"}, "task": Namespace(_name="translation")},
        "model": {name: weight},
        "extra_state": {"train_iterator": {"epoch": 1}},
        "optimizer_history": [{"num_updates": 5}],
        **parts,
    }


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


ONE = torch.ones(1)
ATTACKS: dict[str, tuple[Callable[[], State], str]] = {
    "stride 0": (lambda: state_with(ONE.expand(2**21, 2**20)), "tensor w "),
    "values shared by overlapping weights": (
        lambda: state_with(model={f"w{i}": ONE.expand(1, i + 1) for i in range(2)}),
        "tensor w. ",
    ),
    "sparse": (lambda: state_with(torch.eye(3).to_sparse()), "tensor w "),
    "compressed rows": (lambda: state_with(torch.eye(3).to_sparse_csr()), "tensor w "),
    "nested": (
        lambda: state_with(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])),
        "tensor w ",
    ),
    "meta": (lambda: state_with(torch.ones(2, device="meta")), "tensor w "),
    "quantized": (
        lambda: state_with(torch.quantize_per_tensor(ONE, 1, 0, torch.qint8)),
        "tensor w ",
    ),
    "complex": (lambda: state_with(torch.ones(2, dtype=torch.complex64)), "tensor w "),
    "tensor of an optimizer": (
        lambda: state_with(last_optimizer_state={"state": {0: {"exp_avg": ONE.to_sparse()}}}),
        "tensor exp_avg ",
    ),
    "number as a name": (lambda: state_with(name=5), "weight is 5"),
    "number as a weight": (lambda: state_with(5), "weight w "),
    "average without weights": (
        lambda: state_with(extra_state={"ema": {"a": 5}}),
        "weight a ",
    ),
    "nested lists": (lambda: state_with(extra_state={"x": nested(100)}), "nested"),
    "no model": (lambda: state_with(model=None), "model"),
    "number as a part": (lambda: state_with(optimizer_history=5), "optimizer_history"),
    "number as a group": (lambda: state_with(cfg={"task": 5}), r"cfg\.task"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # prototypes of torch
@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_rejected(attack: str, tmp_path: Path) -> None:
    build, culprit = ATTACKS[attack]
    torch.save(build(), tmp_path / "evil.pt")
    with pytest.raises(DataError, match=rf"evil\.pt .*{culprit}"):
        read_checkpoint(tmp_path / "evil.pt")


def test_a_deep_checkpoint_can_be_written_with_the_limit(tmp_path: Path) -> None:
    recursive: list[Any] = []
    recursive.append(recursive)
    torch.save(state_with(extra_state={"x": nested(40), "y": recursive}), tmp_path / "a.pt")
    state = read_checkpoint(tmp_path / "a.pt")
    torch.save(state, tmp_path / "b.pt")
    assert len(state["extra_state"]["x"]) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_states_of_trainings_are_read(dtype: torch.dtype, tmp_path: Path) -> None:
    """Tied weights, parameters, views of one storage, scalars, averages and optimizer states."""
    tied = torch.ones(4, 4).to(dtype)
    flat = torch.arange(6.0)
    model = {"a": tied, "b": tied, "c": flat[:4].view(2, 2), "d": flat[4:], "e": torch.empty(0)}
    model |= {"f": torch.nn.Parameter(torch.ones(2)), "g": torch.tensor(3), "h": tied.t()[:0]}
    averages = {"ema": model, "ema_fp32_params": {"a": tied.float()}}
    optimizer = {"state": {0: {"step": 3, "exp_avg": torch.zeros(3)}}, "param_groups": [{}]}
    written = state_with(model=model, extra_state=averages, last_optimizer_state=optimizer)
    torch.save(written, tmp_path / "a.pt")
    state = read_checkpoint(tmp_path / "a.pt")
    assert all(torch.equal(state["model"][name], model[name]) for name in model)


def test_a_checkpoint_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(DataError, match=str(path)):
            read_checkpoint(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_first_weight_that_is_not_finite_is_named(value: float, dtype: torch.dtype) -> None:
    largest = torch.full((100,), torch.finfo(dtype).max, dtype=dtype)  # the sum overflows
    weights = {"a": largest, "b": torch.ones(3, dtype=torch.int64), "c": largest.clone()}
    check_finite({**weights, "embed_positions._float_tensor": torch.tensor([value])}, "m.pt")
    weights["c"][7] = value
    with pytest.raises(DataError, match=r"m\.pt .* weight c contains NaN or infinite values"):
        check_finite({**weights, "d": weights["c"]}, "m.pt")


def test_an_average_rejects_weights_that_are_not_finite(tmp_path: Path) -> None:
    broken = torch.tensor([1.0, float("nan")])
    for number, weight in enumerate([torch.ones(2), broken]):
        torch.save(
            state_with(weight, extra_state={"ema": {"w": broken}}), tmp_path / f"{number}.pt"
        )
    assert average([tmp_path / "0.pt"])["model"]["w"].tolist() == [1, 1]
    for names, moving in ((("0.pt", "1.pt"), False), (("0.pt",), True)):
        with pytest.raises(DataError, match="weight w "):
            average([tmp_path / name for name in names], moving)


def test_the_data_folder_of_a_checkpoint_is_not_read(tmp_path: Path) -> None:
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text("a 1\n")
    task = {"_name": "translation", "source_lang": "de", "target_lang": "en", "data": str(tmp_path)}
    with pytest.raises(UsageError, match="`data_dir`"):
        training_data({"cfg": {"task": task}}, None)
    data = training_data({"cfg": {"task": task}}, tmp_path)
    assert data.dictionaries == (tmp_path / "dict.de.txt", tmp_path / "dict.en.txt")
