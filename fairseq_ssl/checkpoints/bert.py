"""Initialization of an edit tagger from BERT or RoBERTa weights.

The encoder is initialized from the encoder of the language model, and the output layer from the
masked language model head. The edit tagger has no token types. The embedding of the first token
type is added to all rows of the position table instead. This is equivalent: a position embedding is
one row or the mean of two rows, so it includes the embedding of the token type exactly once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.files import check_finite
from fairseq_ssl.checkpoints.hugging_face import CONFIG, read_config
from fairseq_ssl.checkpoints.partial_init import rows_by_symbol
from fairseq_ssl.checkpoints.pretrained import load_tokenizer, load_with_info
from fairseq_ssl.errors import ConfigurationError, DataError, flag
from fairseq_ssl.text.vocabulary import is_padding_entry

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kind:
    """Names of special symbols and weights in BERT or RoBERTa."""

    special: Mapping[str, str]
    """Special symbols of the language model, by fairseq's name, if the names differ."""
    mask: str
    head: str
    """Prefix of the weight names in the masked language model head."""
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
"""Names of symbols and weights, by the model_type in config.json."""

SIZES = {
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "encoder_embed_dim",
    "intermediate_size": "encoder_ffn_embed_dim",
    "num_attention_heads": "encoder_attention_heads",
}
"""Edit tagger option for each size in config.json."""

DEFAULTS: dict[str, Any] = {
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "type_vocab_size": 2,
    "pad_token_id": 1,
}
"""Default values for settings missing in config.json. The padding id is RoBERTa's."""

FIXED = ("hidden_act", "position_embedding_type", "is_decoder")
"""Settings for which the edit tagger supports only the value in `DEFAULTS`."""

LAYER = {
    "attention.output.dense": "out_proj",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_norm",
}
"""Names of a layer's modules in the edit tagger, by their names in the language model."""

WORDS = "embeddings.word_embeddings.weight"
SHOWN = 5
"""Maximum number of symbols listed in an error message."""


def initial_weights(
    folder: Path, options: Any, symbols: Sequence[str], start: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the weights of an edit tagger that are initialized from a language model.

    Args:
        folder: folder with config.json, tokenizer files and weights.
        options: options of the edit tagger, whose sizes must match the language model.
        symbols: symbols of the fairseq dictionary, by id.
        start: state dict of the new edit tagger, from which the embeddings of padding entries
            (madeupword) in the dictionary are copied.
    """
    config = read_config(folder)
    kind = _kind(config, folder)
    check_bert_settings(config, folder / CONFIG)
    _check_sizes(config, options, folder)
    rows = load_tokenizer(folder).get_vocab()
    source = _load_weights(folder, kind, has_head=not options.edit_unfactorized)
    words = source[WORDS]
    initial = {
        "encoder.tokens.weight": _tokens(
            words, rows, symbols, kind, folder, start["encoder.tokens.weight"]
        ),
        "encoder.mask": words[rows[kind.mask]],
        **encoder_weights(source, config, options.max_source_positions),
    }
    if f"{kind.transform}.weight" in source:
        initial |= _module(source, kind.transform, "scores.transform")
        initial |= _module(source, kind.norm, "scores.transform_norm")
    return initial


def encoder_weights(
    source: Mapping[str, Tensor], config: Mapping[str, Any], positions: int
) -> dict[str, Tensor]:
    """Convert language model weights to `EditEncoder` weights, without token and mask embeddings.

    Args:
        source: language model weights, by name without the model prefix (such as ``bert.``).
        config: settings of the language model, checked with `check_bert_settings`.
        positions: maximum number of positions of the edit tagger.
    """
    first = first_position(config)
    table = source["embeddings.position_embeddings.weight"][first : first + positions]
    weights = {
        "encoder.positions.weight": table + source["embeddings.token_type_embeddings.weight"][0],
        **_module(source, "embeddings.LayerNorm", "encoder.norm"),
    }
    for layer in range(config["num_hidden_layers"]):
        weights |= _layer(source, layer)
    return weights


def _kind(config: Mapping[str, Any], folder: Path) -> Kind:
    model_type = config.get("model_type")
    if model_type not in KINDS:
        raise ConfigurationError(
            f"{folder / CONFIG}: model_type is {model_type!r}. Expected {' or '.join(KINDS)}."
        )
    return KINDS[model_type]


def check_bert_settings(config: dict[str, Any], path: Path) -> None:
    """Add defaults for missing settings to `config`, and check all settings. Errors contain `path`.

    Raises:
        DataError: if a size is not a positive integer.
        ConfigurationError: if an edit tagger does not support a setting.
    """
    for name, default in DEFAULTS.items():
        if config.get(name) is None:
            config[name] = default
    integers = {*SIZES, "max_position_embeddings", "vocab_size", "type_vocab_size", "pad_token_id"}
    for name in sorted(integers):
        value, low = config.get(name), int(name != "pad_token_id")
        if not isinstance(value, int) or value < low:
            raise DataError(f"{path}: {name} is {value!r}. Expected an integer, {low} or more.")
    for name in FIXED:
        if config[name] != DEFAULTS[name]:
            raise ConfigurationError(
                f"{path}: {name} is {config[name]!r}, but an edit_tagger supports only "
                f"{DEFAULTS[name]!r}. Use a different model."
            )


def _check_sizes(config: Mapping[str, Any], options: Any, folder: Path) -> None:
    """Raise ConfigurationError if an edit tagger's sizes do not match the language model."""
    wrong = [
        f"{flag(option)} {config[name]} (currently {getattr(options, option)})"
        for name, option in SIZES.items()
        if config[name] != getattr(options, option)
    ]
    max_positions = config["max_position_embeddings"] - first_position(config)
    if options.max_source_positions > max_positions:
        own = options.max_source_positions
        wrong.append(f"--max-source-positions {max_positions} or less (currently {own})")
    if wrong:
        raise ConfigurationError(
            f"The sizes of the edit_tagger do not match the language model in {folder}. "
            f"Set {', '.join(wrong)}."
        )


def is_native(config: Mapping[str, Any]) -> bool:
    """Return True if `EditEncoder` implements the encoder: BERT, RoBERTa or an empty config."""
    return not config or config.get("model_type") in KINDS


def set_sizes(options: Any, config: Mapping[str, Any]) -> None:
    """Set the sizes and the LayerNorm epsilon of an edit tagger to the values in a config.

    Also limit `max_source_positions` to the config's positions. Do nothing unless the config is
    that of BERT or RoBERTa.
    """
    if not (config and is_native(config)):
        return
    for name, option in SIZES.items():
        setattr(options, option, config.get(name))
    set_epsilon(options, config)
    positions = int(config["max_position_embeddings"]) - first_position(config)
    options.max_source_positions = min(options.max_source_positions, positions)


def set_epsilon(options: Any, config: Mapping[str, Any]) -> None:
    """Set the LayerNorm epsilon of an edit tagger to the value in a config (default: 1e-12)."""
    name = "layer_norm_eps"
    options.edit_layer_norm_eps = config.get(name, DEFAULTS[name])


def first_position(config: Mapping[str, Any]) -> int:
    """Return the first token's row in the position table: 0, or for RoBERTa the padding id + 1."""
    return int(config["pad_token_id"]) + 1 if config["model_type"] == "roberta" else 0


def _tokens(
    words: Tensor,
    rows: Mapping[str, int],
    symbols: Sequence[str],
    kind: Kind,
    folder: Path,
    start: Tensor,
) -> Tensor:
    """Return embeddings for the fairseq dictionary [symbols, dim], copied from `words`.

    Unused entries that fill up the dictionary (madeupword) keep their embeddings from `start`.
    Raise DataError if any other symbol is unknown to the language model.
    """
    names = [kind.special.get(symbol, symbol) for symbol in symbols]
    missing = [name for name in names if name not in rows and not is_padding_entry(name)]
    if missing:
        listed = ", ".join(map(repr, missing[:SHOWN])) + (", ..." if missing[SHOWN:] else "")
        raise DataError(
            f"{len(missing)} of the dictionary's {len(symbols)} symbols are unknown to the "
            f"language model in {folder}: {listed}. Tokenize the text with the model's tokenizer. "
            "Binarize it with fairseq-preprocess and a source dictionary of the model's symbols."
        )
    return rows_by_symbol(words, rows, names, start)[0]


def _layer(source: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    theirs, ours = f"encoder.layer.{number}", f"encoder.layers.{number}"
    layer = {
        f"{ours}.in_proj.{kind}": torch.cat(
            [source[f"{theirs}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
        )
        for kind in ("weight", "bias")
    }
    for name, our_name in LAYER.items():
        layer |= _module(source, f"{theirs}.{name}", f"{ours}.{our_name}")
    return layer


def _module(source: Mapping[str, Tensor], name: str, our_name: str) -> dict[str, Tensor]:
    """Return the weight and the bias of a linear layer or LayerNorm, renamed for the tagger."""
    return {f"{our_name}.{kind}": source[f"{name}.{kind}"] for kind in ("weight", "bias")}


def _load_weights(folder: Path, kind: Kind, has_head: bool) -> dict[str, Tensor]:
    """Load the language model weights in float32, by name without the model prefix.

    If `has_head` is False or the folder contains no head, the layers of the head are omitted. Raise
    DataError if a weight is missing, is not finite or has an unexpected shape, or if the embeddings
    of the input and of a loaded head are not tied.
    """
    model, info = load_with_info(folder, "AutoModelForMaskedLM")
    missing = set(info["missing_keys"])
    head = {f"{name}.{part}" for name in (kind.transform, kind.norm) for part in ("weight", "bias")}
    if head <= missing:
        missing -= head
        if has_head:
            logger.warning(
                f"{folder} has no masked language model head. The head of the edit scores is "
                "initialized randomly."
            )
        has_head = False
    missing = {name for name in missing if name in head or not name.startswith(f"{kind.head}.")}
    if missing:
        raise DataError(
            f"{folder} lacks the weight {min(missing)}. Expected a standard BERT or RoBERTa with "
            f"the sizes in {CONFIG}."
        )
    state = model.float().state_dict()
    check_finite(state, folder)
    prefix = f"{model.base_model_prefix}."
    weights = {name.removeprefix(prefix): weight for name, weight in state.items()}
    if has_head and not torch.equal(model.get_output_embeddings().weight, weights[WORDS]):
        raise DataError(
            f"{folder}: the weight {kind.head}.decoder.weight is not equal to {WORDS}. A "
            "factorized edit_tagger needs equal weights. Use another model, or --edit-unfactorized."
        )
    return weights if has_head else {name: weights[name] for name in weights if name not in head}
