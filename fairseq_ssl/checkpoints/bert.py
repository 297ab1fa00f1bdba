"""Initialization of an edit tagger from the weights of a BERT or RoBERTa.

The encoder is initialized from the encoder of the language model, and the output layer from the
masked language model head. The edit tagger has no token types. The embedding of the first token
type is added to all rows of the position table instead. This is equivalent: a position embedding is
one row or the mean of two rows, so it includes the embedding of the token type exactly once.
"""

from __future__ import annotations

import logging
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

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaggerSizes:
    """Sizes of an edit tagger, which must match the language model. `FLAGS` has their flags."""

    layers: int
    dim: int
    inner_dim: int
    heads: int
    positions: int
    epsilon: float
    factorized: bool


@dataclass(frozen=True)
class Kind:
    """Names of the special symbols and weights of BERT or RoBERTa."""

    special: Mapping[str, str]
    """Special symbols of fairseq, and their names in the language model if they differ."""
    mask: str
    head: str
    """Prefix of the weights of the masked language model head."""
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
"""Names of symbols and weights by the model_type in config.json."""

FLAGS = {
    "num_hidden_layers": ("--encoder-layers", "layers"),
    "hidden_size": ("--encoder-embed-dim", "dim"),
    "intermediate_size": ("--encoder-ffn-embed-dim", "inner_dim"),
    "num_attention_heads": ("--encoder-attention-heads", "heads"),
    "layer_norm_eps": ("--edit-layer-norm-eps", "epsilon"),
}
"""Flag and field of `TaggerSizes` for each size in config.json."""

DEFAULTS: dict[str, Any] = {
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "type_vocab_size": 2,
    "pad_token_id": 1,
}
"""Defaults of settings that are missing in config.json. The padding id is RoBERTa's."""

FIXED = ("hidden_act", "position_embedding_type", "is_decoder")
"""Settings for which the edit tagger supports only the default."""

LAYER = {
    "attention.output.dense": "out_proj",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_norm",
}
"""Modules of a layer of the language model, and their names in the edit tagger."""

WORDS = "embeddings.word_embeddings.weight"
UNUSED = re.compile(
    r"pooler\..*|cls\.seq_relationship\..*|embeddings\.(position_ids|token_type_ids)"
    r"|(cls\.predictions|lm_head)\.(bias|decoder\.(weight|bias))"
)
"""Pattern of the names of weights that an edit tagger does not use."""

SHOWN = 5
"""Maximum number of symbols to list in an error message."""


def initial_weights(
    folder: Path, sizes: TaggerSizes, symbols: Sequence[str], start: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the weights of an edit tagger that are initialized from a language model.

    Args:
        folder: folder with config.json, the files of the tokenizer and the weights.
        sizes: sizes of the edit tagger.
        symbols: symbols of the fairseq dictionary, by id.
        start: state dict of the new edit tagger. Padding entries (madeupword) of the dictionary
            keep their embeddings from it.
    """
    config = read_config(folder)
    kind = _kind(config, folder)
    _check_config(config, sizes, folder)
    rows = read_vocabulary(folder)
    _check_rows(rows, config, folder)
    source = _Source(read_weights(folder), str(config["model_type"]), folder)
    words = source.take(WORDS, config["vocab_size"], sizes.dim)
    initial = {
        "encoder.tokens.weight": _tokens(
            words, rows, symbols, kind, folder, start["encoder.tokens.weight"]
        ),
        "encoder.mask": words[_row(rows, kind.mask, folder)],
        "encoder.positions.weight": _positions(source, config, sizes),
        **source.linear_or_norm("embeddings.LayerNorm", "encoder.norm", sizes.dim),
    }
    for layer in range(sizes.layers):
        initial |= _layer(source, layer, sizes)
    if sizes.factorized:
        initial |= _head(source, kind, sizes.dim)
        source.check_tied(f"{kind.head}.decoder.weight", words)
    source.check_all_used(None if sizes.factorized else f"{kind.head}.")
    return initial


def _kind(config: Mapping[str, Any], folder: Path) -> Kind:
    model_type = config.get("model_type")
    if model_type not in KINDS:
        raise ConfigurationError(
            f"{folder / CONFIG} has the model_type {model_type!r}; expected {' or '.join(KINDS)}."
        )
    return KINDS[model_type]


def _check_config(config: dict[str, Any], sizes: TaggerSizes, folder: Path) -> None:
    """Set missing settings to their defaults, and check all settings.

    Raises:
        DataError: if a size is not a number.
        ConfigurationError: if an edit tagger does not support a setting or has other sizes.
    """
    for name, default in DEFAULTS.items():
        if config.get(name) is None:
            config[name] = default
    integers = {*FLAGS, "max_position_embeddings", "vocab_size", "type_vocab_size", "pad_token_id"}
    for name in sorted(integers - {"layer_norm_eps"}):
        if not isinstance(config.get(name), int):
            raise DataError(
                f"{folder / CONFIG}: {name} is {config.get(name)!r}; expected a number."
            )
    for name in FIXED:
        if config[name] != DEFAULTS[name]:
            raise ConfigurationError(
                f"{folder / CONFIG}: {name} is {config[name]!r}, but an edit_tagger supports only "
                f"{DEFAULTS[name]!r}. Use a different model."
            )
    wrong = [
        f"{flag} {config[name]} (it is {getattr(sizes, field)})"
        for name, (flag, field) in FLAGS.items()
        if config[name] != getattr(sizes, field)
    ]
    max_positions = config["max_position_embeddings"] - first_position(config)
    if sizes.positions > max_positions:
        wrong.append(f"--max-source-positions {max_positions} or less (it is {sizes.positions})")
    if wrong:
        raise ConfigurationError(
            f"The sizes of the edit_tagger do not match the language model in {folder}. "
            f"Set {', '.join(wrong)}."
        )


def first_position(config: Mapping[str, Any]) -> int:
    """Return the row of the first token's position. RoBERTa starts after its padding id."""
    return int(config["pad_token_id"]) + 1 if config["model_type"] == "roberta" else 0


def _check_rows(rows: dict[str, int], config: Mapping[str, Any], folder: Path) -> None:
    last = max(rows, key=rows.__getitem__, default=None)
    if last is not None and rows[last] >= config["vocab_size"]:
        raise DataError(
            f"{folder}: the symbol {last!r} has the row {rows[last]} but vocab_size in {CONFIG} is "
            f"{config['vocab_size']}. Expected the files of one model."
        )


def _row(rows: Mapping[str, int], symbol: str, folder: Path) -> int:
    if symbol not in rows:
        raise DataError(
            f"{folder} has no symbol {symbol}. Expected the files of the model's own tokenizer."
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
    """Return the embeddings of the fairseq dictionary [symbols, dim].

    Padding entries (madeupword) keep their embeddings from `start`.
    """
    for name in kind.special.values():
        _row(rows, name, folder)
    names = [kind.special.get(symbol, symbol) for symbol in symbols]
    missing = [name for name in names if name not in rows and not is_padding_entry(name)]
    if missing:
        shown = ", ".join(map(repr, missing[:SHOWN])) + (", ..." if missing[SHOWN:] else "")
        raise DataError(
            f"{len(missing)} of the dictionary's {len(symbols)} symbols are unknown to the "
            f"language model in {folder}: {shown}. Tokenize the text with the model's tokenizer, "
            "and binarize it with --srcdict and a dictionary of the model's symbols."
        )
    ids = [index for index, name in enumerate(names) if name in rows]
    tokens = start.detach().clone()
    tokens[ids] = words[[rows[names[index]] for index in ids]].to(tokens)
    return tokens


def _positions(source: _Source, config: Mapping[str, Any], sizes: TaggerSizes) -> Tensor:
    """Return the position table [positions, dim] plus the embedding of the first token type."""
    shape = (config["max_position_embeddings"], sizes.dim)
    table = source.take("embeddings.position_embeddings.weight", *shape)
    types = source.take(
        "embeddings.token_type_embeddings.weight", config["type_vocab_size"], sizes.dim
    )
    first = first_position(config)
    return table[first : first + sizes.positions] + types[0]


def _layer(source: _Source, number: int, sizes: TaggerSizes) -> dict[str, Tensor]:
    theirs, ours = f"encoder.layer.{number}", f"encoder.layers.{number}"
    layer = {}
    for kind, shape in (("weight", (sizes.dim, sizes.dim)), ("bias", (sizes.dim,))):
        parts = [
            source.take(f"{theirs}.attention.self.{part}.{kind}", *shape)
            for part in ("query", "key", "value")
        ]
        layer[f"{ours}.in_proj.{kind}"] = torch.cat(parts)
    shapes = {
        "out_proj": (sizes.dim, sizes.dim),
        "fc1": (sizes.inner_dim, sizes.dim),
        "fc2": (sizes.dim, sizes.inner_dim),
    }
    for name, our_name in LAYER.items():
        shape = shapes.get(our_name, (sizes.dim,))
        layer |= source.linear_or_norm(f"{theirs}.{name}", f"{ours}.{our_name}", *shape)
    return layer


def _head(source: _Source, kind: Kind, dim: int) -> dict[str, Tensor]:
    """Return the weights of the masked language model head. Without a head, return no weights."""
    if f"{kind.transform}.weight" not in source:
        logger.warning(
            f"{source.folder} has no masked language model head. The head of the edit scores "
            "starts from random weights."
        )
        return {}
    return {
        **source.linear_or_norm(kind.transform, "scores.transform", dim, dim),
        **source.linear_or_norm(kind.norm, "scores.transform_norm", dim),
    }


class _Source:
    """Weights of the language model. Each weight is checked when it is used."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, folder: Path) -> None:
        self.folder = folder
        self.weights: dict[str, Tensor] = {}
        self.stored: dict[str, str] = {}
        """Names of the weights in the file, by their names in `weights`."""
        self.taken: set[str] = set()
        for stored, weight in weights.items():
            name = stored.removeprefix(f"{prefix}.")
            name = re.sub(r"\bLayerNorm\.gamma$", "LayerNorm.weight", name)
            name = re.sub(r"\bLayerNorm\.beta$", "LayerNorm.bias", name)
            if name in self.weights:
                raise DataError(
                    f"{folder} has the same weight under two names: {self.stored[name]} and "
                    f"{stored}. Remove one of them."
                )
            self.weights[name], self.stored[name] = weight, stored

    def __contains__(self, name: str) -> bool:
        return name in self.weights

    def take(self, name: str, *shape: int) -> Tensor:
        """Return a weight in float32. Raise DataError unless it is finite and of shape `shape`."""
        if name not in self.weights:
            raise DataError(
                f"{self.folder} has no weight {name} of shape {shape}. Expected a BERT or RoBERTa "
                "in the format of Hugging Face."
            )
        weight, stored = self.weights[name], self.stored[name]
        if tuple(weight.shape) != shape:
            raise DataError(
                f"{self.folder}: the weight {stored} is of shape {tuple(weight.shape)}; expected "
                f"{shape}, as in {CONFIG}."
            )
        if not weight.is_floating_point():
            raise DataError(
                f"{self.folder}: the weight {stored} is of type {weight.dtype}; expected floating "
                "point. Use the model before quantization."
            )
        if not torch.isfinite(weight).all():
            raise DataError(
                f"{self.folder}: the weight {stored} has infinite values or NaN. Copy the model "
                "again."
            )
        self.taken.add(name)
        return weight.float()

    def linear_or_norm(self, name: str, our_name: str, *shape: int) -> dict[str, Tensor]:
        """Return weight and bias of a linear layer or LayerNorm, named for the edit tagger.

        Args:
            name: name of the module in the language model.
            our_name: name of the module in the edit tagger.
            shape: shape of the weight.
        """
        return {
            f"{our_name}.weight": self.take(f"{name}.weight", *shape),
            f"{our_name}.bias": self.take(f"{name}.bias", shape[0]),
        }

    def check_tied(self, name: str, words: Tensor) -> None:
        """Raise DataError if the head has its own embeddings instead of the word embeddings."""
        if name in self.weights and not torch.equal(self.weights[name].float(), words):
            raise DataError(
                f"{self.folder}: the weight {self.stored[name]} is not equal to {WORDS}. An "
                "edit_tagger needs tied embeddings. Use a different model, or pass "
                "--edit-unfactorized."
            )

    def check_all_used(self, unused_prefix: str | None) -> None:
        """Raise DataError for a weight that was not used and is not in `UNUSED`.

        Args:
            unused_prefix: prefix of further weights that are allowed to be unused (None: none).
        """
        for name, stored in self.stored.items():
            is_unused = unused_prefix is not None and name.startswith(unused_prefix)
            if name not in self.taken and not is_unused and not UNUSED.fullmatch(name):
                raise DataError(
                    f"{self.folder}: the weight {stored}, of shape "
                    f"{tuple(self.weights[name].shape)}, is not used by an edit_tagger. Expected "
                    f"a standard BERT or RoBERTa with the sizes in {CONFIG}."
                )
