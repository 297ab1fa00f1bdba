"""Adam without weight decay of biases and norms, and Adam of the embedding rows in a batch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from fairseq import utils
from fairseq.optim import register_optimizer
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from torch import Tensor, nn


@dataclass
class BertAdamConfig(FairseqAdamConfig):
    """The options of fairseq's Adam."""


@register_optimizer("bert_adam", dataclass=BertAdamConfig)
class BertAdam(FairseqAdam):
    """fairseq's Adam in two groups: weight decay applies to matrices, not to vectors."""

    def __init__(self, cfg: BertAdamConfig, params: Iterable[Tensor]) -> None:
        weights = list(params)
        groups: list[dict[str, Any]] = [
            {"params": [weight for weight in weights if weight.dim() > 1]},
            {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
        ]
        super().__init__(cfg, [group for group in groups if group["params"]])

    @property
    def supports_flat_params(self) -> bool:
        """Return False: --fp16 flattens all weights into one vector without this."""
        return False


MEANS = ("exp_avg", "exp_avg_sq")


@dataclass
class LazyAdamConfig(FairseqAdamConfig):
    """The options are those of fairseq's Adam."""


class Rows(NamedTuple):
    """The rows of a table that have a gradient."""

    table: nn.Parameter
    numbers: Tensor
    weights: nn.Parameter


class RowAdam(Adam):
    """fairseq's Adam; of a weight whose gradient is sparse it sees the rows in it alone.

    All other rows stay as they are, and so do their running means: Adam itself would let them
    drift on with their momentum, and read and write the whole table in every step.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all weights."""
        found = [self._taken(group, place) for group, place in self._sparse()]
        try:
            return super().step(closure)
        finally:
            for group, place, rows in found:
                self._put_back(group, place, rows)

    def _sparse(self) -> list[tuple[dict[str, Any], int]]:
        return [
            (group, place)
            for group in self.param_groups
            for place, weight in enumerate(group["params"])
            if weight.grad is not None and weight.grad.is_sparse
        ]

    def _taken(self, group: dict[str, Any], place: int) -> tuple[dict[str, Any], int, Rows]:
        """Put the rows of a table into its place, with their own state."""
        table = group["params"][place]
        gradient = table.grad.coalesce()
        numbers = gradient.indices()[0]
        rows = Rows(table, numbers, nn.Parameter(table.data[numbers]))
        rows.weights.grad = gradient.values()
        state = self.state[table]
        if not state:
            state["step"] = 0
            state.update({name: torch.zeros_like(table.data, dtype=torch.float) for name in MEANS})
        self.state[rows.weights] = {
            "step": state["step"],
            **{name: state[name][numbers] for name in MEANS},
        }
        group["params"][place] = rows.weights
        return group, place, rows

    def _put_back(self, group: dict[str, Any], place: int, rows: Rows) -> None:
        group["params"][place] = rows.table
        moved, state = self.state.pop(rows.weights), self.state[rows.table]
        rows.table.data[rows.numbers] = rows.weights.data
        state["step"] = moved["step"]
        for name in MEANS:
            state[name][rows.numbers] = moved[name].to(state[name])


@register_optimizer("lazy_adam", dataclass=LazyAdamConfig)
class LazyAdam(FairseqAdam):
    """Adam for embeddings with sparse gradients (--imitator-sparse-gradients)."""

    def __init__(self, cfg: LazyAdamConfig, params: Any) -> None:
        super().__init__(cfg, params)
        self._optimizer = RowAdam(params, **self.optimizer_config)

    def multiply_grads(self, c: Any) -> None:
        """Multiply all gradients, of which some are sparse, by a number."""
        for gradient in self._gradients():
            gradient.mul_(c)

    def clip_grad_norm(
        self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Clip the norm of all gradients together."""
        parts = [SimpleNamespace(grad=gradient) for gradient in self._gradients()]
        norm: Tensor = utils.clip_grad_norm_(parts, max_norm, aggregate_norm_fn)
        return norm

    def _gradients(self) -> list[Tensor]:
        """Return what of each gradient is there, to be changed in place."""
        found = []
        for weight in self.params:
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.coalesce()
                found.append(weight.grad.values())
            elif weight.grad is not None:
                found.append(weight.grad.data)
        return found
