"""A tiny BERT or RoBERTa with random weights in a folder, whose parts a test can change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.bert import TaggerSizes

SIZES = TaggerSizes(
    layers=2, dim=4, inner_dim=6, heads=2, positions=8, epsilon=1e-12, factorized=True
)
SYMBOLS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "c"]
BYTES = ["<s>", "<pad>", "</s>", "<unk>", "a", "Ġb", "c", "<mask>"]
DICTIONARY = ["<s>", "<pad>", "</s>", "<unk>", "c", "a"]
CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 8,
    "hidden_size": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 6,
    "max_position_embeddings": 10,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}


def shapes(kind: str = "bert") -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of all weights, including the masked language model head."""
    parts: dict[str, tuple[int, ...]] = {"embeddings.LayerNorm": (4,)}
    for layer in range(2):
        inside = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            parts[f"{inside}.attention.self.{name}"] = (4, 4)
        parts[f"{inside}.attention.output.dense"] = (4, 4)
        parts[f"{inside}.attention.output.LayerNorm"] = (4,)
        parts[f"{inside}.intermediate.dense"] = (6, 4)
        parts[f"{inside}.output.dense"] = (4, 6)
        parts[f"{inside}.output.LayerNorm"] = (4,)
    all_shapes: dict[str, tuple[int, ...]] = {
        f"{kind}.embeddings.word_embeddings.weight": (8, 4),
        f"{kind}.embeddings.position_embeddings.weight": (10, 4),
        f"{kind}.embeddings.token_type_embeddings.weight": (2, 4),
    }
    parts = {f"{kind}.{name}": shape for name, shape in parts.items()}
    head = "cls.predictions.transform" if kind == "bert" else "lm_head"
    parts[f"{head}.dense"] = (4, 4)
    parts[f"{head}.{'LayerNorm' if kind == 'bert' else 'layer_norm'}"] = (4,)
    for name, shape in parts.items():
        all_shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return all_shapes


def weights(kind: str = "bert") -> dict[str, Tensor]:
    torch.manual_seed(7)
    return {name: torch.randn(shape) for name, shape in shapes(kind).items()}


def save(
    folder: Path,
    kind: str = "bert",
    changed: dict[str, Tensor | None] | None = None,
    **config: Any,
) -> Path:
    """Save a model with some weights or settings changed.

    None removes a weight, and `...` removes a setting.
    """
    all_weights: dict[str, Tensor | None] = {**weights(kind), **(changed or {})}
    present = {name: weight for name, weight in all_weights.items() if weight is not None}
    torch.save(present, folder / "pytorch_model.bin")
    if kind == "bert":
        (folder / "vocab.txt").write_text("\n".join(SYMBOLS) + "\n")
    else:
        config = {"model_type": kind, "pad_token_id": 1, **config}
        rows = {symbol: row for row, symbol in enumerate(BYTES)}
        (folder / "vocab.json").write_text(json.dumps(rows))
    settings = {name: value for name, value in (CONFIG | config).items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder
