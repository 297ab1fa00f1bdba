"""Averages of checkpoints, compared with numpy."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ssl.checkpoints import average
from fairseq_ssl.checkpoints.files import read_checkpoint, write_checkpoint
from fairseq_ssl.errors import DataError
from tests.conftest import Run

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Return a function that writes a checkpoint with the given weights."""

    def save_checkpoint(
        name: str, model: dict[str, torch.Tensor], arch: str = "a", **rest: Any
    ) -> Path:
        state = {"args": None, "cfg": {"model": {"_name": arch}}, "model": model, **rest}
        write_checkpoint(state, tmp_path / name)
        return tmp_path / name

    return save_checkpoint


@settings(max_examples=20)
@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=6))
def test_average_is_equal_to_numpy(values: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{i}.pt" for i in range(len(values))]
        for path, value in zip(paths, values, strict=True):
            weights = {"w": torch.tensor([value, -value])}
            write_checkpoint({"cfg": {"model": {"_name": "a"}}, "model": weights}, path)
        mean = np.float32(np.mean(np.array(values, dtype=np.float64)))
        assert average(paths)["model"]["w"].tolist() == [mean, -mean]


def test_half_precision_is_summed_in_float64(save: Save) -> None:
    # In float16, 2048 + 1 is 2048, so a sum in float16 would ignore each 1.
    values = [2048.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    paths = [
        save(f"{i}.pt", {"w": torch.tensor([v], dtype=torch.float16)}) for i, v in enumerate(values)
    ]
    mean = average(paths)["model"]["w"]
    assert mean.dtype == torch.float16
    assert mean.item() == np.float16(sum(values) / 8)


def test_integers_and_other_parts_are_copied_from_the_last_checkpoint(save: Save) -> None:
    first = save("1.pt", {"n": torch.tensor(1), "w": torch.tensor(1.0)}, extra_state={"epoch": 1})
    extra = {"epoch": 2, "ema": {"w": torch.tensor(9.0)}}
    second = save(
        *("2.pt", {"n": torch.tensor(4), "w": torch.tensor(2.0)}),
        extra_state=extra,
        last_optimizer_state={"m": torch.ones(3)},
    )
    mean = average([first, second])
    assert mean["model"] == {"n": torch.tensor(4), "w": torch.tensor(1.5)}
    assert mean["extra_state"] == {"epoch": 2}
    assert "last_optimizer_state" not in mean


def test_tied_weights_stay_tied_and_are_stored_once(save: Save, tmp_path: Path) -> None:
    paths = []
    for i in range(2):
        shared = torch.full((100, 100), float(i))
        paths.append(save(f"{i}.pt", {"embed": shared, "project": shared}))
    write_checkpoint(average(paths), tmp_path / "mean.pt")
    assert (tmp_path / "mean.pt").stat().st_size < 1.2 * paths[0].stat().st_size
    model = read_checkpoint(tmp_path / "mean.pt")["model"]
    assert model["embed"].data_ptr() == model["project"].data_ptr()
    assert model["embed"].unique().tolist() == [0.5]


def test_copies_of_tied_weights_in_one_checkpoint_are_averaged(save: Save) -> None:
    shared = torch.zeros(2)
    paths = [
        save("cpu.pt", {"embed": shared, "project": shared}),
        save("gpu.pt", {"embed": torch.full((2,), 10.0), "project": torch.full((2,), 20.0)}),
    ]
    for order in (paths, paths[::-1]):
        model = average(order)["model"]
        assert (model["embed"].tolist(), model["project"].tolist()) == ([5.0, 5.0], [10.0, 10.0])


@pytest.mark.parametrize(
    ("other", "arch", "culprit"),
    [
        ({"w": torch.zeros(2)}, "b", "the architectures are 'b' and 'a'"),
        ({"v": torch.zeros(2)}, "a", "the weight 'v'"),
        ({"w": torch.zeros(3)}, "a", "'w'"),
    ],
)
def test_different_models_are_rejected(
    save: Save, other: dict[str, torch.Tensor], arch: str, culprit: str
) -> None:
    paths = [save("1.pt", {"w": torch.zeros(2)}), save("2.pt", other, arch)]
    with pytest.raises(DataError, match=culprit):
        average(paths)


def test_memory_is_one_model_and_one_sum(run: Run, save: Save) -> None:
    """Five checkpoints of 20 MB weights and 40 MB optimizer state do not need 300 MB."""
    paths = []
    for i in range(5):
        weights = {f"w{j}": torch.full((500_000,), float(i)) for j in range(10)}
        optimizer = {"m": torch.zeros(10_000_000)}
        paths.append(save(f"{i}.pt", weights, last_optimizer_state=optimizer))
    script = """
import resource, sys
from fairseq_ssl.checkpoints.averaging import average
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
average(sys.argv[1:])
print(peak() - before)
"""
    grown = float(run(sys.executable, "-c", script, *paths).stdout)
    assert grown < 150  # model 20, sum 40, mean 20, and mapped pages of the file


def test_moving_average_replaces_the_weights(save: Save) -> None:
    extra_state = {"ema": {"w": torch.tensor([3.0])}}
    path = save("ema.pt", {"w": torch.tensor([1.0])}, extra_state=extra_state)
    state = average([path], moving=True)
    assert state["model"]["w"].tolist() == [3.0]
    assert "ema" not in state["extra_state"]
    with pytest.raises(DataError, match="contains no exponential moving averages"):
        average([save("plain.pt", {"w": torch.tensor([1.0])})], moving=True)


def test_options_are_kept_but_no_paths(save: Save) -> None:
    model = {"encoder_embed_path": "/x", "adam_betas": "(0.9, 0.98)"}
    common = {"user_dir": "/x", "seed": 7, "wandb_project": "GEC (baseline)"}
    cfg = {"model": model, "task": {"data": "/home/stranger"}, "common": common}
    averaged = average([save("a.pt", {"w": torch.ones(1)}, cfg=cfg)])["cfg"]
    assert averaged["model"] == {"encoder_embed_path": None, "adam_betas": "(0.9, 0.98)"}
    assert averaged["task"] == {"data": "???"}
    assert averaged["common"] == {**common, "user_dir": None}
