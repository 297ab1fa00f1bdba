"""Pretrained language models in local folders, loaded with transformers.

Nothing is downloaded, and no code in a folder is run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ssl.checkpoints.hugging_face import CONFIG, check_settings, read_config
from fairseq_ssl.errors import DataError, import_optional, library_errors
from fairseq_ssl.io.text_files import parse_json, read_lines

PERMUTED = ("xlnet",)
"""Supported model types that are not masked language models."""

UNTRAINED = ("pooler", "mask_emb", "seg_embed", "r_s_bias")
"""Substrings in names of weights that do not affect hidden states. The last three are XLNet's."""

SubwordSegmenter = Callable[[str], list[str]]


@dataclass(frozen=True)
class EncoderFiles:
    """The config and the tokenizer of a pretrained encoder, to store in a checkpoint."""

    config: Mapping[str, Any]
    """The content of config.json, empty for an encoder with random weights."""
    tokenizer: str
    """The content of tokenizer.json."""

    @classmethod
    def read(cls, folder: Path, with_config: bool = True) -> EncoderFiles:
        """Read the files in a folder. If `with_config` is False, the config is empty."""
        return cls(encoder_config(folder) if with_config else {}, _tokenizer_json(folder))

    @classmethod
    def of_state(cls, state: Any) -> EncoderFiles:
        """Build from a dictionary returned by `state`. Raise DataError if it is malformed."""
        try:
            config, tokenizer = parse_json(state["config"]), state["tokenizer"]
            if isinstance(config, dict) and isinstance(tokenizer, str):
                return cls(config, tokenizer)
        except (KeyError, TypeError, ValueError):
            pass
        raise DataError(
            "The encoder config or the tokenizer in the checkpoint is missing or invalid. Use "
            "another checkpoint of the training run."
        )

    def state(self) -> dict[str, str]:
        """Return the config and the tokenizer as JSON strings, to store in a checkpoint."""
        return {"config": json.dumps(self.config), "tokenizer": self.tokenizer}


def _tokenizer_json(folder: Path) -> str:
    path = folder / "tokenizer.json"
    if path.is_file():
        return "\n".join(read_lines(path))
    fast = getattr(load_tokenizer(folder), "backend_tokenizer", None)
    if fast is None:
        raise DataError(
            f"{folder} contains no fast tokenizer. Expected tokenizer.json, or tokenizer files "
            "that transformers can convert to it."
        )
    text: str = fast.to_str()
    return text


def load_model(folder: Path, has_head: bool = False) -> Any:
    """Load the model in a folder, in evaluation mode. Raise DataError if a weight is missing.

    Args:
        folder: folder written by `save_pretrained`.
        has_head: whether to load the masked language model head.
    """
    model, info = load_with_info(folder, "AutoModelForMaskedLM" if has_head else "AutoModel")
    missing = [name for name in info["missing_keys"] if "pooler" not in name]
    if missing:
        expected = "all weights and a masked language model head" if has_head else "all weights"
        raise DataError(
            f"{folder} lacks the weight {missing[0]}{' and others' if len(missing) > 1 else ''}. "
            f"Expected {expected}."
        )
    return _freeze_untrained(model).eval()


def load_with_info(folder: Path, loader: str) -> tuple[Any, dict[str, Any]]:
    """Load the model in a folder. Return the model and the loading info of transformers.

    Args:
        folder: folder written by `save_pretrained`.
        loader: name of the transformers class that loads the model.
    """
    model, info = _load(
        getattr(_transformers(folder), loader),
        folder,
        output_loading_info=True,
        weights_only=True,
        ignore_mismatched_sizes=True,
    )
    if info["mismatched_keys"]:
        first = min(info["mismatched_keys"])
        name = first if isinstance(first, str) else first[0]  # with its shapes in transformers 5
        raise DataError(
            f"{folder}: the shape of the weight {name} does not match the sizes in {CONFIG}. Copy "
            "the model again."
        )
    return model, info


def _freeze_untrained(model: Any) -> Any:
    """Freeze the weights in `UNTRAINED`, and return the model.

    These weights get no gradient. DistributedDataParallel fails if a trainable weight gets none.
    """
    for name, weight in model.named_parameters():
        if any(part in name for part in UNTRAINED):
            weight.requires_grad_(False)
    return model


def encoder_config(folder: Path) -> dict[str, Any]:
    """Return the settings in config.json, completed with the defaults of the model type."""
    return {**read_config(folder), **load_config(folder)}


def load_config(folder: Path) -> dict[str, Any]:
    """Return a model's settings, except those equal to the defaults of `PretrainedConfig`."""
    settings: dict[str, Any] = _load(_transformers(folder).AutoConfig, folder).to_diff_dict()
    return settings


def of_config(given: dict[str, Any], loader: str = "AutoModel") -> Any:
    """Build a model with random weights from the settings of a config.json.

    Args:
        given: the settings, which are checked with `check_settings`.
        loader: name of the transformers class that builds the model.
    """
    loaders = _transformers(None)
    check_settings(given, "The encoder config in the checkpoint")
    kind = _check_kind(given.get("model_type"), "The encoder config in the checkpoint")
    settings = {name: value for name, value in given.items() if name != "model_type"}
    with library_errors(f"The {kind} of the checkpoint cannot be built"):
        settings = loaders.AutoConfig.for_model(kind, **settings)
        model = getattr(loaders, loader).from_config(settings, trust_remote_code=False)
    return _freeze_untrained(model)


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer in a folder. Raise DataError unless all ids are below vocab_size."""
    tokenizer = _load(_transformers(folder).AutoTokenizer, folder)
    largest = max(tokenizer.get_vocab().values(), default=0)
    size = read_config(folder).get("vocab_size")
    if isinstance(size, int) and largest >= size:
        raise DataError(
            f"The tokenizer in {folder} has ids up to {largest}. Expected ids below {size}, the "
            f"vocab_size in {CONFIG}."
        )
    return tokenizer


def subword_segmenter(folder: Path) -> SubwordSegmenter:
    """Return a function that splits text into subwords, without start and end tokens."""
    tokenizer = load_tokenizer(folder)

    def segment(text: str) -> list[str]:
        with library_errors(f"The tokenizer in {folder} cannot tokenize {text[:40]!r}"):
            tokens: list[str] = tokenizer.tokenize(text)
        return tokens

    return segment


def ends(tokenizer: Any) -> tuple[int, int]:
    """Return the ids of a tokenizer's start and end tokens. Raise DataError if one is missing."""
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    first = tokenizer.bos_token_id if first is None else first
    last = tokenizer.eos_token_id if last is None else last
    if first is None or last is None:
        raise DataError(
            f"The tokenizer in {tokenizer.name_or_path} has no start token or no end token. "
            "Expected the tokenizer of a model such as BERT or RoBERTa."
        )
    return int(first), int(last)


def longest(model: Any) -> int:
    """Return a model's maximum input length, with start and end tokens (10**9 if unlimited)."""
    max_positions = int(getattr(model.config, "max_position_embeddings", 10**9))
    embeddings = getattr(model.base_model, "embeddings", None)
    positions = getattr(embeddings, "position_embeddings", None)
    padding = getattr(positions, "padding_idx", None)  # RoBERTa's positions start after it
    return max_positions - (0 if padding is None else padding + 1)


def _transformers(folder: Path | None) -> Any:
    purpose = "A model of transformers" if folder is None else f"Reading {folder}"
    return import_optional("transformers", purpose, "bert")


def _load(loader: Any, folder: Path, **options: Any) -> Any:
    _check_kind(read_config(folder).get("model_type"), str(folder / CONFIG))
    with library_errors(f"{folder} cannot be loaded"):
        return loader.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, **options
        )


def _check_kind(kind: Any, where: str) -> str:
    """Return the model type `kind`. Raise DataError if it is not XLNet or a masked language model.

    Other model types can load further models.
    """
    modeling = import_optional("transformers.models.auto.modeling_auto", f"Reading {where}", "bert")
    known = {*modeling.MODEL_FOR_MASKED_LM_MAPPING_NAMES, *PERMUTED}
    if not isinstance(kind, str) or kind not in known:
        raise DataError(
            f"{where} contains the model_type {kind!r}. Expected a masked language model that is "
            "part of transformers, such as BERT or RoBERTa."
        )
    return kind
