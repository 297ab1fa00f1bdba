"""Conversion of edit taggers to token classifiers in Hugging Face format.

The classifier scores the edits of a word at its first subword, and the edits of the sentence start
at the first symbol. `id2label` in config.json contains the names of the edits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.checkpoints.bert import DEFAULTS, LAYER, WORDS, first_position, is_native
from fairseq_ssl.checkpoints.hugging_face import CONFIG
from fairseq_ssl.checkpoints.model_folder import check_replaceable
from fairseq_ssl.errors import DataError, import_optional, library_errors
from fairseq_ssl.io.outputs import atomic_folder

HEAD = "classifier"
LOADER = "AutoModelForTokenClassification"
SPECIAL = {
    "unk_token": ("[UNK]", "<unk>"),
    "pad_token": ("[PAD]", "<pad>"),
    "cls_token": ("[CLS]", "<cls>", "<s>"),
    "sep_token": ("[SEP]", "<sep>", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}
"""Common names of special tokens, by the attribute of transformers tokenizers."""


def write_token_classifier(model: Any, task: Any, output: Path) -> None:
    """Write an edit tagger as a folder that `AutoModelForTokenClassification` loads.

    Args:
        model: an edit tagger in float32.
        task: the model's task, which contains the edit dictionary and the encoder files.
        output: folder to create.

    Raises:
        DataError: if the model has parts that a token classifier lacks.
    """
    _check_supported(model)
    check_replaceable(output, CONFIG, "a model in Hugging Face format")
    config = _config(model, task)
    built = pretrained.of_config(config, LOADER).eval()
    base = str(built.base_model_prefix)
    state = {f"{base}.{name}": weight for name, weight in _encoder(model, config)}
    state |= {f"{HEAD}.{name}": weight for name, weight in model.scores.edits.state_dict().items()}
    _load(built, state)
    with atomic_folder(output) as folder:
        built.save_pretrained(folder)
        _tokenizer(task.encoder.tokenizer).save_pretrained(folder)


def _check_supported(model: Any) -> None:
    """Raise DataError if a token classifier cannot represent the model."""
    if model.subwords is None:
        problem = "labels the tokens of its data instead of words"
    elif model.scores.factorized:
        problem = "is factorized"
    elif model.scores.no_insert is not None:
        problem = "decides insertions in gaps separately"
    elif model.errors is not None:
        problem = "has an error detection head"
    else:
        return
    raise DataError(
        f"The model {problem}, which Hugging Face token classifiers do not support. Expected an "
        "unfactorized word-level edit tagger without gap insertions and error detection. Export "
        "other models to ONNX."
    )


def _config(model: Any, task: Any) -> dict[str, Any]:
    """Return the config of the token classifier, in which the edits are the labels."""
    names = list(task.edits.names)
    config = dict(task.encoder.config)
    if not config:  # random weights
        cfg = model.cfg
        config = {
            "model_type": "bert",
            "vocab_size": model.subwords.vocabulary,
            "hidden_size": cfg.encoder_embed_dim,
            "num_hidden_layers": cfg.encoder_layers,
            "num_attention_heads": cfg.encoder_attention_heads,
            "intermediate_size": cfg.encoder_ffn_embed_dim,
            "layer_norm_eps": cfg.edit_layer_norm_eps,
            "pad_token_id": model.subwords.padding,
        }
    for name in ("_name_or_path", "architectures", "num_labels"):
        config.pop(name, None)
    if is_native(task.encoder.config):
        positions = model.encoder.positions.num_embeddings
        config["max_position_embeddings"] = positions + first_position(config)
    labels = {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}
    return config | labels


def _encoder(model: Any, config: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Yield the encoder weights with their names in transformers."""
    encoder = model.encoder
    if hasattr(encoder, "model"):  # an encoder of transformers
        yield from encoder.model.state_dict().items()
        return
    positions, dim = encoder.positions.weight, encoder.dim
    padding = positions.new_zeros(first_position(config), dim)
    yield WORDS, encoder.tokens.weight
    yield "embeddings.position_embeddings.weight", torch.cat([padding, positions])
    types = config.get("type_vocab_size", DEFAULTS["type_vocab_size"])
    yield "embeddings.token_type_embeddings.weight", positions.new_zeros(types, dim)
    yield from _renamed("embeddings.LayerNorm", encoder.norm)
    for number, layer in enumerate(encoder.layers):
        theirs = f"encoder.layer.{number}"
        for kind, weight in layer.in_proj.state_dict().items():
            for part, rows in zip(("query", "key", "value"), weight.chunk(3), strict=True):
                yield f"{theirs}.attention.self.{part}.{kind}", rows
        for name, ours in LAYER.items():
            yield from _renamed(f"{theirs}.{name}", getattr(layer, ours))


def _renamed(name: str, module: Any) -> Iterator[tuple[str, Tensor]]:
    for kind, weight in module.state_dict().items():
        yield f"{name}.{kind}", weight


def _load(built: Any, state: Mapping[str, Tensor]) -> None:
    """Load weights into a token classifier. Raise DataError if its head or weights do not match."""
    base = f"{built.base_model_prefix}."
    head = {name for name, _ in built.named_parameters() if not name.startswith(base)}
    if head != {f"{HEAD}.weight", f"{HEAD}.bias"}:
        kind = built.config.model_type
        raise DataError(
            "The edit tagger cannot be exported to this format: the token classifier of "
            f"transformers for {kind!r} has a different head. Export the edit tagger to ONNX."
        )
    missing, _ = built.load_state_dict(state, strict=False)
    if missing:
        raise DataError(
            f"The encoder of the checkpoint lacks the weight {missing[0]}. Use another checkpoint "
            "of the run."
        )


def _tokenizer(text: str) -> Any:
    """Return a transformers tokenizer that accepts text and lists of words."""
    transformers = import_optional("transformers", "Export to Hugging Face", "bert")
    tokenizers = import_optional("tokenizers", "Export to Hugging Face", "bert")
    with library_errors("The tokenizer cannot be read"):
        content = json.loads(text)
        if "add_prefix_space" in (content["pre_tokenizer"] or {}):
            content["pre_tokenizer"]["add_prefix_space"] = True  # each word is as after a space
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
    special = {
        kind: next((name for name in names if tokenizer.token_to_id(name) is not None), None)
        for kind, names in SPECIAL.items()
    }
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        add_prefix_space=True,
        model_input_names=["input_ids", "attention_mask"],
        **{kind: name for kind, name in special.items() if name},
    )
