"""On what the models of a process compute."""

from __future__ import annotations

from typing import Any


def gpus() -> int:
    """Return how many of this machine's GPUs torch can use."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def device_of(kind: str, worker: int) -> Any:
    """Return the device, cpu or a GPU, of the process of this number, from 0."""
    import torch

    if kind == "cuda":
        return torch.device("cuda", worker % torch.cuda.device_count())
    return torch.device("cpu")
