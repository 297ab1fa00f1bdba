"""Language models in local folders, as the package transformers stores and loads them.

Nothing is looked for on the network, and no code that a folder holds is run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ssl.checkpoints.bert import DEFAULTS, FLAGS, KINDS, first_position
from fairseq_ssl.checkpoints.hugging_face import CONFIG, check_settings, read_config
from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.io.text_files import parse_json, read_lines

PERMUTED = ("xlnet",)
"""Encoders trained otherwise than as masked language models."""

SubwordSegmenter = Callable[[str], list[str]]


@dataclass(frozen=True)
class EncoderFiles:
    """The config and the tokenizer of a pretrained encoder, which a checkpoint stores."""

    config: Mapping[str, Any]
    """The content of config.json, empty for an encoder with random weights."""
    tokenizer: str
    """The content of tokenizer.json."""

    @classmethod
    def read(cls, folder: Path, with_config: bool = True) -> EncoderFiles:
        """Read the files of a folder."""
        config = {**read_config(folder), **load_config(folder)} if with_config else {}
        return cls(config, _tokenizer_json(folder))

    @classmethod
    def of_state(cls, state: Any) -> EncoderFiles:
        """Return the files that `state` returned, from a checkpoint."""
        try:
            config, tokenizer = parse_json(state["config"]), state["tokenizer"]
            if isinstance(config, dict) and isinstance(tokenizer, str):
                return cls(config, tokenizer)
        except (KeyError, TypeError, ValueError):
            pass
        raise DataError("The encoder of the checkpoint has no readable config or tokenizer.")

    def state(self) -> dict[str, str]:
        """Return the files as text, for a checkpoint."""
        return {"config": json.dumps(self.config), "tokenizer": self.tokenizer}

    def set_sizes(self, options: Any) -> None:
        """Set the sizes of the encoder in the options of an edit tagger."""
        if not (self.config and self.is_native):
            return
        for name, (flag, _) in FLAGS.items():
            setattr(options, flag[2:].replace("-", "_"), self.config.get(name, DEFAULTS.get(name)))
        positions = int(self.config["max_position_embeddings"]) - first_position(self.config)
        options.max_source_positions = min(options.max_source_positions, positions)

    @property
    def is_native(self) -> bool:
        """True if this package implements the encoder itself."""
        return not self.config or self.config.get("model_type") in KINDS


def _tokenizer_json(folder: Path) -> str:
    path = folder / "tokenizer.json"
    if path.is_file():
        return "\n".join(read_lines(path))
    fast = getattr(load_tokenizer(folder), "backend_tokenizer", None)
    if fast is None:
        raise DataError(
            f"{folder} has no fast tokenizer. Expected a tokenizer.json, or files that "
            "transformers converts to one."
        )
    text: str = fast.to_str()
    return text


def load_model(folder: Path, has_head: bool = False) -> Any:
    """Return the model of a folder, with its head for masked tokens if that is wanted."""
    loaders = _transformers(folder)
    loader = loaders.AutoModelForMaskedLM if has_head else loaders.AutoModel
    found, info = _loaded(loader, folder, output_loading_info=True, weights_only=True)
    lacking = [name for name in info["missing_keys"] if "pooler" not in name]
    if lacking:
        raise DataError(
            f"{folder} has no weight {lacking[0]}{' and others' if len(lacking) > 1 else ''}. "
            f"Expected a model that was saved {'with its head for masked tokens' * has_head}"
            f"{'whole' * (not has_head)}."
        )
    return found.eval()


def load_config(folder: Path) -> dict[str, Any]:
    """Return the settings of a folder's model that are not what they are by themselves."""
    found: dict[str, Any] = _loaded(_transformers(folder).AutoConfig, folder).to_diff_dict()
    return found


def of_config(given: dict[str, Any]) -> Any:
    """Return a model of the settings in a config.json, with random weights."""
    loaders = _transformers(None)
    check_settings(given, "The configuration of a BERT in the checkpoint")
    kind = _check_kind(given.get("model_type"), "The configuration of a BERT in the checkpoint")
    settings = {name: value for name, value in given.items() if name != "model_type"}
    try:
        settings = loaders.AutoConfig.for_model(kind, **settings)
        return loaders.AutoModel.from_config(settings, trust_remote_code=False)
    except Exception as error:  # each model has its own
        raise DataError(f"The {kind} of the checkpoint cannot be built: {_line(error)}") from None


def load_tokenizer(folder: Path) -> Any:
    """Return what cuts text for the model of a folder."""
    return _loaded(_transformers(folder).AutoTokenizer, folder)


def subword_segmenter(folder: Path) -> SubwordSegmenter:
    """Return what cuts a text into the model's own tokens, without those of start and end."""
    found = load_tokenizer(folder)

    def cut(text: str) -> list[str]:
        try:
            tokens: list[str] = found.tokenize(text)
        except Exception as error:  # the package tokenizers knows no other
            raise DataError(f"{folder} can not cut {text[:40]!r}: {error}.") from None
        return tokens

    return cut


def ends(found: Any) -> tuple[int, int]:
    """Return the ids that stand before and after a text, of a tokenizer."""
    first = found.bos_token_id if found.cls_token_id is None else found.cls_token_id
    last = found.eos_token_id if found.sep_token_id is None else found.sep_token_id
    if first is None or last is None:
        raise DataError(
            f"The tokenizer in {found.name_or_path} has no tokens for the start and the end of a "
            "text. Expected a BERT, a RoBERTa or the like."
        )
    return int(first), int(last)


def longest(found: Any) -> int:
    """Return how many tokens a model reads, those of start and end counted."""
    most = int(getattr(found.config, "max_position_embeddings", 10**9))
    embeddings = getattr(found.base_model, "embeddings", None)
    positions = getattr(embeddings, "position_embeddings", None)
    padding = getattr(positions, "padding_idx", None)  # a RoBERTa counts on from there
    return most - (0 if padding is None else padding + 1)


def _transformers(folder: Path | None) -> Any:
    purpose = "A model of transformers" if folder is None else f"Reading {folder}"
    return import_optional("transformers", purpose, "bert")


def _loaded(loader: Any, folder: Path, **options: Any) -> Any:
    if not (folder / CONFIG).is_file():
        raise DataError(
            f"{folder} has no {CONFIG}. Expected a model that transformers' save_pretrained wrote."
        )
    _check_kind(read_config(folder).get("model_type"), str(folder / CONFIG))
    try:
        return loader.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # each of the formats has its own
        raise DataError(f"{folder} cannot be loaded: {_line(error)}") from None


def _check_kind(kind: Any, where: str) -> str:
    """Reject models that are not masked language models; some of them load other models."""
    modeling = import_optional("transformers.models.auto.modeling_auto", f"Reading {where}", "bert")
    known = {*modeling.MODEL_FOR_MASKED_LM_MAPPING_NAMES, *PERMUTED}
    if not isinstance(kind, str) or kind not in known:
        raise DataError(
            f"{where} has the model_type {kind!r}. Expected a masked language model that "
            "transformers has itself, such as a BERT or a RoBERTa."
        )
    return kind


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
