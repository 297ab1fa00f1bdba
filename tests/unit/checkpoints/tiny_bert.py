"""A tiny BERT or RoBERTa in a folder, made by hand: what a test changes in it must be noticed."""

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
    """The names and shapes of all weights with the head for masked tokens."""
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
    found: dict[str, tuple[int, ...]] = {
        f"{kind}.embeddings.word_embeddings.weight": (8, 4),
        f"{kind}.embeddings.position_embeddings.weight": (10, 4),
        f"{kind}.embeddings.token_type_embeddings.weight": (2, 4),
    }
    parts = {f"{kind}.{name}": shape for name, shape in parts.items()}
    head = "cls.predictions.transform" if kind == "bert" else "lm_head"
    parts[f"{head}.dense"] = (4, 4)
    parts[f"{head}.{'LayerNorm' if kind == 'bert' else 'layer_norm'}"] = (4,)
    for name, shape in parts.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return found


def weights(kind: str = "bert") -> dict[str, Tensor]:
    torch.manual_seed(7)
    return {name: torch.randn(shape) for name, shape in shapes(kind).items()}


def save(
    folder: Path,
    kind: str = "bert",
    changed: dict[str, Tensor | None] | None = None,
    **config: Any,
) -> Path:
    """Save it with some weights or settings other than they were.

    None leaves a weight out, and `...` a setting.
    """
    found: dict[str, Tensor | None] = {**weights(kind), **(changed or {})}
    kept = {name: weight for name, weight in found.items() if weight is not None}
    torch.save(kept, folder / "pytorch_model.bin")
    if kind == "bert":
        (folder / "vocab.txt").write_text("\n".join(SYMBOLS) + "\n")
    else:
        config = {"model_type": kind, "pad_token_id": 1, **config}
        rows = {symbol: row for row, symbol in enumerate(BYTES)}
        (folder / "vocab.json").write_text(json.dumps(rows))
    written = {name: value for name, value in (CONFIG | config).items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(written))
    return folder
