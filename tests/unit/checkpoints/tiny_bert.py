"""A tiny BERT or RoBERTa with random weights in a folder, whose parts a test can change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

OPTIONS: dict[str, Any] = {
    "encoder_layers": 2,
    "encoder_embed_dim": 4,
    "encoder_ffn_embed_dim": 6,
    "encoder_attention_heads": 2,
    "max_source_positions": 8,
    "edit_unfactorized": False,
}
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


def weights(kind: str = "bert") -> dict[str, Tensor]:
    """Return all weights of a masked language model except those of its output layer."""
    name = {"bert": "Bert", "roberta": "Roberta"}[kind]
    config = getattr(transformers, f"{name}Config")(**{**CONFIG, "model_type": kind})
    model = getattr(transformers, f"{name}ForMaskedLM")(config)
    torch.manual_seed(7)
    return {
        key: torch.randn(weight.shape)
        for key, weight in model.state_dict().items()
        if not re.search(r"decoder|predictions\.bias|lm_head\.bias|position_ids", key)
    }


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
