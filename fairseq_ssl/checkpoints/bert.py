"""The weights of a BERT or RoBERTa under the names that they have in an edit tagger.

A fresh model takes all of its encoder from it, and the head of the masked language model for
the scores of edits. Of the token types only the first is in use; its embedding is added to
every row of the position table. A token takes one row, and a unit one row or the mean of two,
so that each gets it exactly once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.hugging_face import (
    CONFIG,
    read_config,
    read_vocabulary,
    read_weights,
)
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.text.vocabulary import is_padding_entry


@dataclass(frozen=True)
class TaggerSizes:
    """What of an edit tagger must be as in the language model; see `FLAGS`."""

    layers: int
    dim: int
    inner_dim: int
    heads: int
    positions: int
    epsilon: float
    factorized: bool


@dataclass(frozen=True)
class Kind:
    """How one of the two names things."""

    special: Mapping[str, str]
    """fairseq's symbols that it has other names for."""
    mask: str
    head: str
    """What the names of the head for masked tokens begin with."""
    transform: str
    norm: str


KINDS = {
    "bert": Kind(
        {"<s>": "[CLS]", "</s>": "[SEP]", "<pad>": "[PAD]", "<unk>": "[UNK]"},
        "[MASK]",
        "cls.predictions",
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
    ),
    "roberta": Kind({}, "<mask>", "lm_head", "lm_head.dense", "lm_head.layer_norm"),
}
"""By the model_type of config.json."""

FLAGS = {
    "num_hidden_layers": ("--encoder-layers", "layers"),
    "hidden_size": ("--encoder-embed-dim", "dim"),
    "intermediate_size": ("--encoder-ffn-embed-dim", "inner_dim"),
    "num_attention_heads": ("--encoder-attention-heads", "heads"),
    "layer_norm_eps": ("--edit-layer-norm-eps", "epsilon"),
}
"""What config.json calls a size: the flag that sets it, and its field."""

DEFAULTS: dict[str, Any] = {
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "type_vocab_size": 2,
    "pad_token_id": 1,
}
"""What a config.json that leaves it out means; the padding is a RoBERTa's."""

FIXED = ("hidden_act", "position_embedding_type", "is_decoder")
"""Where the edit tagger has the default and nothing else."""

LAYER = {
    "attention.output.dense": "out_proj",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_norm",
}
"""The parts of a layer that are taken as they are."""

WORDS = "embeddings.word_embeddings.weight"
UNUSED = re.compile(
    r"pooler\..*|cls\.seq_relationship\..*|embeddings\.(position_ids|token_type_ids)"
    r"|(cls\.predictions|lm_head)\.(bias|decoder\.(weight|bias))"
)
"""Weights that an edit tagger has no use for."""

SHOWN = 5


def initial_weights(
    folder: Path, sizes: TaggerSizes, symbols: Sequence[str], start: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the weights of an edit tagger that the language model in `folder` has.

    Args:
        folder: config.json, the tokenizer's files and the weights
        sizes: of the tagger
        symbols: fairseq's dictionary, by id
        start: the tagger's state, from which what has no counterpart is kept
    """
    config = read_config(folder)
    kind = _kind(config, folder)
    _check_config(config, sizes, folder)
    rows = _rows(read_vocabulary(folder), config, folder)
    source = _Source(read_weights(folder), str(config["model_type"]), folder)
    words = source.take(WORDS, config["vocab_size"], sizes.dim)
    found = {
        "encoder.tokens.weight": _tokens(
            words, rows, symbols, kind, folder, start["encoder.tokens.weight"]
        ),
        "encoder.mask": words[_row(rows, kind.mask, folder)],
        "encoder.positions.weight": _positions(source, config, sizes),
        **source.linear_or_norm("embeddings.LayerNorm", "encoder.norm", sizes.dim),
    }
    for layer in range(sizes.layers):
        found |= _layer(source, layer, sizes)
    if sizes.factorized:
        found |= _head(source, kind, sizes.dim)
        source.check_tied(f"{kind.head}.decoder.weight", words)
    source.check_rest(None if sizes.factorized else f"{kind.head}.")
    return found


def _kind(config: Mapping[str, Any], folder: Path) -> Kind:
    found = config.get("model_type")
    if found not in KINDS:
        raise ConfigurationError(
            f"{folder / CONFIG} has the model_type {found!r}; expected {' or '.join(KINDS)}."
        )
    return KINDS[found]


def _check_config(config: dict[str, Any], sizes: TaggerSizes, folder: Path) -> None:
    """Refuse another model than the options make, and fill in what config.json leaves out."""
    for name, default in DEFAULTS.items():
        if config.get(name) is None:
            config[name] = default
    whole = {*FLAGS, "max_position_embeddings", "vocab_size", "type_vocab_size", "pad_token_id"}
    for name in sorted(whole - {"layer_norm_eps"}):
        if not isinstance(config.get(name), int):
            raise DataError(
                f"{folder / CONFIG}: {name} is {config.get(name)!r}; expected a number."
            )
    for name in FIXED:
        if config[name] != DEFAULTS[name]:
            raise ConfigurationError(
                f"{folder / CONFIG}: {name} is {config[name]!r}, and an edit_tagger can only have "
                f"{DEFAULTS[name]!r}. Take another model."
            )
    wrong = [
        f"{flag} {config[name]} (it is {getattr(sizes, field)})"
        for name, (flag, field) in FLAGS.items()
        if config[name] != getattr(sizes, field)
    ]
    longest = config["max_position_embeddings"] - first_position(config)
    if sizes.positions > longest:
        wrong.append(f"--max-source-positions {longest} or less (it is {sizes.positions})")
    if wrong:
        raise ConfigurationError(
            f"The language model in {folder} has other sizes than the edit_tagger. "
            f"Set {', '.join(wrong)}."
        )


def first_position(config: Mapping[str, Any]) -> int:
    """Return the row of the first token's position: a RoBERTa counts on from its padding's id."""
    return int(config["pad_token_id"]) + 1 if config["model_type"] == "roberta" else 0


def _rows(rows: dict[str, int], config: Mapping[str, Any], folder: Path) -> dict[str, int]:
    last = max(rows, key=rows.__getitem__, default=None)
    if last is not None and rows[last] >= config["vocab_size"]:
        raise DataError(
            f"{folder}: the symbol {last!r} has the row {rows[last]}, and {CONFIG} tells of "
            f"{config['vocab_size']} rows (vocab_size). Expected the files of one model."
        )
    return rows


def _row(rows: Mapping[str, int], symbol: str, folder: Path) -> int:
    if symbol not in rows:
        raise DataError(
            f"{folder} has no symbol {symbol}. Expected the files of its own tokenizer."
        )
    return rows[symbol]


def _tokens(
    words: Tensor,
    rows: Mapping[str, int],
    symbols: Sequence[str],
    kind: Kind,
    folder: Path,
    start: Tensor,
) -> Tensor:
    """Return the embeddings of fairseq's symbols [symbols, dim]; fillers keep those of `start`."""
    for name in kind.special.values():
        _row(rows, name, folder)
    names = [kind.special.get(symbol, symbol) for symbol in symbols]
    lacking = [name for name in names if name not in rows and not is_padding_entry(name)]
    if lacking:
        shown = ", ".join(map(repr, lacking[:SHOWN])) + (", ..." if lacking[SHOWN:] else "")
        raise DataError(
            f"{len(lacking)} of the dictionary's {len(symbols)} symbols are unknown to the "
            f"language model in {folder}: {shown}. Tokenize the text with its own tokenizer, and "
            "binarize it with --srcdict and a dictionary that is made of its symbols."
        )
    ids = [number for number, name in enumerate(names) if name in rows]
    tokens = start.detach().clone()
    tokens[ids] = words[[rows[names[number]] for number in ids]].to(tokens)
    return tokens


def _positions(source: _Source, config: Mapping[str, Any], sizes: TaggerSizes) -> Tensor:
    """Return the rows in use [positions, dim], with the first token type in them."""
    shape = (config["max_position_embeddings"], sizes.dim)
    table = source.take("embeddings.position_embeddings.weight", *shape)
    types = source.take(
        "embeddings.token_type_embeddings.weight", config["type_vocab_size"], sizes.dim
    )
    first = first_position(config)
    return table[first : first + sizes.positions] + types[0]


def _layer(source: _Source, number: int, sizes: TaggerSizes) -> dict[str, Tensor]:
    theirs, ours = f"encoder.layer.{number}", f"encoder.layers.{number}"
    found = {}
    for kind, shape in (("weight", (sizes.dim, sizes.dim)), ("bias", (sizes.dim,))):
        parts = [
            source.take(f"{theirs}.attention.self.{part}.{kind}", *shape)
            for part in ("query", "key", "value")
        ]
        found[f"{ours}.in_proj.{kind}"] = torch.cat(parts)
    shapes = {
        "out_proj": (sizes.dim, sizes.dim),
        "fc1": (sizes.inner_dim, sizes.dim),
        "fc2": (sizes.dim, sizes.inner_dim),
    }
    for name, our_name in LAYER.items():
        shape = shapes.get(our_name, (sizes.dim,))
        found |= source.linear_or_norm(f"{theirs}.{name}", f"{ours}.{our_name}", *shape)
    return found


def _head(source: _Source, kind: Kind, dim: int) -> dict[str, Tensor]:
    first = f"{kind.transform}.weight"
    if first not in source:
        raise DataError(
            f"{source.folder} has no weight {first}: it is a language model without its head for "
            "masked tokens, which scores edits. Take a folder that was saved with the head, or "
            "pass --edit-unfactorized."
        )
    return {
        **source.linear_or_norm(kind.transform, "scores.transform", dim, dim),
        **source.linear_or_norm(kind.norm, "scores.transform_norm", dim),
    }


class _Source:
    """The language model's weights, each checked when it is taken."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, folder: Path) -> None:
        self.folder = folder
        self.weights: dict[str, Tensor] = {}
        self.stored: dict[str, str] = {}
        """The name in the file, of each."""
        self.taken: set[str] = set()
        for stored, weight in weights.items():
            name = stored.removeprefix(f"{prefix}.")
            name = re.sub(r"\bLayerNorm\.gamma$", "LayerNorm.weight", name)
            name = re.sub(r"\bLayerNorm\.beta$", "LayerNorm.bias", name)
            if name in self.weights:
                raise DataError(
                    f"{folder} has one weight under two names: {self.stored[name]} and {stored}."
                )
            self.weights[name], self.stored[name] = weight, stored

    def __contains__(self, name: str) -> bool:
        return name in self.weights

    def take(self, name: str, *shape: int) -> Tensor:
        """Return a weight in single precision; it must be there, of this shape, and sound."""
        if name not in self.weights:
            raise DataError(
                f"{self.folder} has no weight {name}; expected one of shape {shape}. Expected a "
                "BERT or RoBERTa as Hugging Face stores it."
            )
        weight, stored = self.weights[name], self.stored[name]
        if tuple(weight.shape) != shape:
            raise DataError(
                f"{self.folder}: the weight {stored} is of shape {tuple(weight.shape)}; expected "
                f"{shape}, as {CONFIG} tells."
            )
        if not weight.is_floating_point():
            raise DataError(
                f"{self.folder}: the weight {stored} is of type {weight.dtype}; expected numbers "
                "with a point. Take the model as it was before it was quantized."
            )
        if not torch.isfinite(weight).all():
            raise DataError(f"{self.folder}: the weight {stored} holds values that are no numbers.")
        self.taken.add(name)
        return weight.float()

    def linear_or_norm(self, name: str, our_name: str, *shape: int) -> dict[str, Tensor]:
        """Return weight and bias of a part under our name; `shape` is the weight's."""
        return {
            f"{our_name}.weight": self.take(f"{name}.weight", *shape),
            f"{our_name}.bias": self.take(f"{name}.bias", shape[0]),
        }

    def check_tied(self, name: str, words: Tensor) -> None:
        """Refuse a head that compares with other embeddings than those of the tokens."""
        if name in self.weights and not torch.equal(self.weights[name].float(), words):
            raise DataError(
                f"{self.folder}: the weight {self.stored[name]} is not that of {WORDS}, and edits "
                "are compared with the latter. Take another model, or pass --edit-unfactorized."
            )

    def check_rest(self, unused_prefix: str | None) -> None:
        """Refuse what is neither in use nor known to be of no use."""
        for name, stored in self.stored.items():
            is_unused = unused_prefix is not None and name.startswith(unused_prefix)
            if name not in self.taken and not is_unused and not UNUSED.fullmatch(name):
                raise DataError(
                    f"{self.folder}: the weight {stored}, of shape "
                    f"{tuple(self.weights[name].shape)}, is of no use to an edit_tagger. Expected "
                    f"a plain BERT or RoBERTa of the sizes in {CONFIG}."
                )
