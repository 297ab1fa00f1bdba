"""Adam as BERT was trained: LayerNorm weights and biases have no weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch import Tensor


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
