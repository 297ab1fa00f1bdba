"""Variants of Adam: weight decay as in BERT, lazy updates for sparse gradients, a fused kernel."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from fairseq import utils
from fairseq.optim import register_optimizer
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from torch import Tensor, nn
from torch.optim.adamw import adamw


@register_optimizer("bert_adam", dataclass=FairseqAdamConfig)
class BertAdam(FairseqAdam):
    """fairseq's Adam with weight decay for matrices, but not for vectors (biases, LayerNorm).

    Weights are not updated before their first nonzero gradient. Frozen weights therefore do not
    decay, even if --fp16, --bf16 or --ddp-backend legacy_ddp set their missing gradients to zero.
    """

    def __init__(self, cfg: FairseqAdamConfig, params: Iterable[Tensor]) -> None:
        weights = list(params)
        groups: list[dict[str, Any]] = [
            {"params": [weight for weight in weights if weight.dim() > 1]},
            {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
        ]
        super().__init__(cfg, [group for group in groups if group["params"]])
        self.optimizer.register_step_pre_hook(_skip_without_gradient)  # --amp bypasses self.step

    def load_state_dict(
        self, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None
    ) -> None:
        """Load an optimizer state. Vectors get no weight decay, even if an override sets one."""
        super().load_state_dict(state_dict, optimizer_overrides)
        for group in self.param_groups:
            if all(weight.dim() <= 1 for weight in group["params"]):
                group["weight_decay"] = 0.0

    @property
    def supports_flat_params(self) -> bool:
        """False, because weights merged into one flat vector would get no weight decay."""
        return False


def _skip_without_gradient(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Remove the gradients of weights that have had no nonzero gradient yet."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            has_state = weight in optimizer.state
            if weight.grad is not None and not has_state and not weight.grad.any():
                weight.grad = None


MOMENTS = ("exp_avg", "exp_avg_sq")
"""Keys of the first and second moment in the state that fairseq's Adam stores for a weight."""


class SparseRows(NamedTuple):
    """The rows of an embedding table that have a gradient."""

    table: nn.Parameter
    """The complete embedding table."""
    indices: Tensor
    """[rows], the indices of the rows in the table."""
    weights: nn.Parameter
    """[rows, dim], a copy of the rows, with their gradient as a dense tensor."""


class RowAdam(Adam):
    """fairseq's Adam with lazy updates: a sparse gradient updates only the rows that it contains.

    Other rows and their moments do not change. Standard Adam would update all rows with their
    momentum, and read and write the whole table in each step.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one optimization step. Return the output of `closure`, or None without it."""
        extracted = [self._extract_rows(group, index) for group, index in self._find_sparse()]
        try:
            return super().step(closure)
        finally:
            for group, index, rows in extracted:
                self._write_rows(group, index, rows)

    def _find_sparse(self) -> list[tuple[dict[str, Any], int]]:
        return [
            (group, index)
            for group in self.param_groups
            for index, weight in enumerate(group["params"])
            if weight.grad is not None and weight.grad.is_sparse
        ]

    def _extract_rows(
        self, group: dict[str, Any], index: int
    ) -> tuple[dict[str, Any], int, SparseRows]:
        """Replace an embedding table in its parameter group with the rows that have a gradient.

        Return the arguments for `_write_rows`.
        """
        table = group["params"][index]
        gradient = table.grad.coalesce()
        indices = gradient.indices()[0]
        rows = SparseRows(table, indices, nn.Parameter(table.data[indices]))
        rows.weights.grad = gradient.values()
        state = self.state[table]
        if not state:
            state["step"] = 0
            for name in MOMENTS:
                state[name] = torch.zeros_like(table.data, dtype=torch.float)
        self.state[rows.weights] = {
            "step": state["step"],
            **{name: state[name][indices] for name in MOMENTS},
        }
        group["params"][index] = rows.weights
        return group, index, rows

    def _write_rows(self, group: dict[str, Any], index: int, rows: SparseRows) -> None:
        """Restore the table in its parameter group, with the updated rows and moments."""
        group["params"][index] = rows.table
        updated, state = self.state.pop(rows.weights), self.state[rows.table]
        rows.table.data[rows.indices] = rows.weights.data
        state["step"] = updated["step"]
        for name in MOMENTS:
            state[name][rows.indices] = updated[name].to(state[name])


@register_optimizer("lazy_adam", dataclass=FairseqAdamConfig)
class LazyAdam(FairseqAdam):
    """Adam with lazy updates for sparse gradients of embeddings (--imitator-sparse-gradients)."""

    def __init__(self, cfg: FairseqAdamConfig, params: Any) -> None:
        super().__init__(cfg, params)
        self._optimizer = RowAdam(params, **self.optimizer_config)

    def multiply_grads(self, c: Any) -> None:
        """Multiply all gradients, dense and sparse, by the factor `c`."""
        for gradient in self._gradients():
            gradient.mul_(c)

    def clip_grad_norm(
        self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Clip the norm of all gradients, dense and sparse. Return the norm before clipping."""
        parts = [SimpleNamespace(grad=gradient) for gradient in self._gradients()]
        norm: Tensor = utils.clip_grad_norm_(parts, max_norm, aggregate_norm_fn)
        return norm

    def _gradients(self) -> list[Tensor]:
        """Return views of the values of all dense and sparse gradients, for in-place operations."""
        gradients = []
        for weight in self.params:
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.coalesce()
                gradients.append(weight.grad.values())
            elif weight.grad is not None:
                gradients.append(weight.grad.data)
        return gradients


FUSED_DEVICES = ("cpu", "cuda")


def can_fuse(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if the fused kernel supports the optimizer's weights, gradients and options."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    device = weights[0].device
    return (
        device.type in FUSED_DEVICES
        and not any(group.get("amsgrad") for group in optimizer.param_groups)
        and all(
            weight.device == device
            and weight.dtype is torch.float32
            and (weight.grad is None or _is_plain(weight.grad))
            for weight in weights
        )
    )


def _is_plain(gradient: Tensor) -> bool:
    return gradient.dtype is torch.float32 and not gradient.is_sparse


@torch.no_grad()
def fused_step(optimizer: torch.optim.Optimizer) -> None:
    """Update the weights as in fairseq's Adam, but with PyTorch's fused kernel.

    fairseq adds epsilon to the square root of the second moment before bias correction, but PyTorch
    adds it after bias correction. To compensate, epsilon is also divided by the correction factor.
    """
    for group in optimizer.param_groups:
        beta1, beta2 = group["betas"]
        for step, weights in _group_by_step(optimizer, group["params"]).items():
            states = [optimizer.state[weight] for weight in weights]
            adamw(
                weights,
                [weight.grad for weight in weights if weight.grad is not None],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                list(weights[0].new_full((len(weights),), step - 1).unbind()),  # the kernel adds 1
                fused=True,
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"] / (1 - beta2**step) ** 0.5,
                maximize=False,
            )


def _group_by_step(
    optimizer: torch.optim.Optimizer, weights: list[Tensor]
) -> dict[int, list[Tensor]]:
    """Increment the step count of each weight with a gradient. Return these weights by step."""
    by_step = defaultdict(list)
    for weight in weights:
        if weight.grad is None:
            continue
        state: dict[str, Any] = optimizer.state[weight]
        if not state:
            state.update(
                step=0, exp_avg=torch.zeros_like(weight), exp_avg_sq=torch.zeros_like(weight)
            )
        for name in MOMENTS:
            state[name] = state[name].to(weight)  # loaded checkpoints may have half precision
        state["step"] += 1
        by_step[state["step"]].append(weight)
    return by_step
