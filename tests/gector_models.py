"""Tiny GECToR models with random weights, in the formats of the package and of the authors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors

from tests.pretrained import LETTERS, SIZES

START = "$START"
LABELS = (
    *("<OOV>", "$KEEP", "$TRANSFORM_VERB_VB_VBZ", "$DELETE", "$APPEND_the", "$APPEND_,"),
    *("$REPLACE_the", "$TRANSFORM_CASE_CAPITAL", "$APPEND_a_b", "$TRANSFORM_AGREEMENT_PLURAL"),
    *("$MERGE_HYPHEN", "$REPLACE_is", "$TRANSFORM_AGREEMENT_SINGULAR", "$TRANSFORM_SPLIT_HYPHEN"),
    *("$TRANSFORM_CASE_LOWER", "$TRANSFORM_VERB_VBZ_VB", "$MERGE_SPACE", "$TRANSFORM_CASE_UPPER"),
    *("$TRANSFORM_CASE_CAPITAL_1", "$TRANSFORM_CASE_UPPER_-1", "$MERGE_SWAP"),
)
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {**SIZES, "pad_token_id": 0},
    "roberta": {**SIZES, "pad_token_id": 1, "type_vocab_size": 1},
    "xlnet": {"d_model": 8, "n_layer": 2, "n_head": 2, "d_inner": 12, "pad_token_id": 2},
    "deberta": {
        **SIZES,
        "pad_token_id": 1,
        "type_vocab_size": 0,
        "relative_attention": True,
        "position_biased_input": False,
        "pos_att_type": ["c2p", "p2c"],
    },
}
PREFIXES = {
    "bert.": "text_field_embedder.token_embedder_bert.bert_model.",
    "label_proj_layer.": "tag_labels_projection_layer._module.",
    "d_proj_layer.": "tag_detect_projection_layer._module.",
}


def tokenizer(kind: str) -> tokenizers.Tokenizer:
    """Return a tokenizer of letters with the normalizer and the symbols of a kind of encoder."""
    if kind == "bert":
        symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "$", "S"]
        pieces = [*symbols, *LETTERS, *(f"##{letter}" for letter in f"{LETTERS}TAR"), "good"]
        vocabulary = {piece: row for row, piece in enumerate(pieces)}
        built = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        built.normalizer = normalizers.BertNormalizer(lowercase=False)
        built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        around, special = ("[CLS]", "$A", "[SEP]"), symbols[:4]
    elif kind == "xlnet":
        symbols = ["<unk>", "<s>", "<pad>", "<sep>", "<cls>", "▁", "$", *LETTERS, *"STAR"]
        scores = [
            (piece, 0.0 if row < 5 else -3.0) for row, piece in enumerate([*symbols, "▁good"])
        ]
        built = tokenizers.Tokenizer(models.Unigram(scores, unk_id=0))
        built.normalizer = normalizers.Replace("``", '"')
        built.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        around, special = ("$A", "<sep>", "<cls>"), symbols[:5]
    else:
        names = {"roberta": "<s> <pad> </s> <unk>", "deberta": "[CLS] [PAD] [SEP] [UNK]"}[kind]
        special = names.split()
        pieces = [*special, "Ġ", "$", *LETTERS, *"START", "Ġg", "oo", "Ġgoo", "Ġgood"]
        vocabulary = {piece: row for row, piece in enumerate(dict.fromkeys(pieces))}
        merges = [("Ġ", "g"), ("o", "o"), ("Ġg", "oo"), ("Ġgoo", "d")]
        built = tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token=special[3]))
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        around = (special[0], "$A", special[2])
    built.add_special_tokens(special)
    built.post_processor = processors.TemplateProcessing(
        single=" ".join(around),
        special_tokens=[(name, built.token_to_id(name)) for name in around if name != "$A"],
    )
    return built


def encoder(kind: str, has_start: bool) -> Any:
    """Return an encoder of transformers, with or without an embedding of $START."""
    size = tokenizer(kind).get_vocab_size() + has_start
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, vocab_size=size, **CONFIGS[kind])
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():  # as they come they are all but zero
            weight.mul_(8)
    return model


def _state(model: Any, labels: int, errors: int) -> dict[str, torch.Tensor]:
    state = {f"bert.{name}": weight for name, weight in model.state_dict().items()}
    for name, rows in (("label_proj_layer", labels), ("d_proj_layer", errors)):
        state |= {f"{name}.weight": torch.randn(rows, 8), f"{name}.bias": torch.randn(rows)}
    return state


def write_encoder(folder: Path, kind: str) -> Path:
    """Write config.json and tokenizer.json of an encoder."""
    folder.mkdir()
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=tokenizer(kind).get_vocab_size(), **CONFIGS[kind]
    )
    config.save_pretrained(folder)
    tokenizer(kind).save(str(folder / "tokenizer.json"))
    return folder


def write_package(
    folder: Path, kind: str, labels: tuple[str, ...] = LABELS, **settings: Any
) -> Any:
    """Write a model in the format of the package, and its encoder's folder. Return the encoder."""
    folder.mkdir()
    write_encoder(folder / "encoder", kind)
    model = encoder(kind, has_start=True)
    safetensors.torch.save_file(_state(model, len(labels), 2), folder / "model.safetensors")
    names = (*labels, "<PAD>")
    settings = {
        "model_id": "someone/tiny",
        "model_type": "",
        "id2label": dict(enumerate(names)),
        "label2id": {name: row for row, name in enumerate(names)},
        "max_length": 36,
        **settings,
    }
    (folder / "config.json").write_text(json.dumps(settings))
    extended = tokenizer(kind)
    extended.add_special_tokens([START])
    extended.save(str(folder / "tokenizer.json"))
    return model


def write_th(folder: Path, kind: str, has_start: bool, legacy: bool = False) -> Any:
    """Write a file model.th, its labels, and its encoder's folder. Return the encoder."""
    (folder / "output_vocabulary").mkdir(parents=True)
    write_encoder(folder / "encoder", kind)
    labels = (*(name for name in LABELS if name != "<OOV>"), "@@UNKNOWN@@", "@@PADDING@@")
    (folder / "output_vocabulary/labels.txt").write_text("\n".join(labels) + "\n")
    model = encoder(kind, has_start)
    state = {}
    for name, weight in _state(model, len(labels), 4).items():
        prefix = next(prefix for prefix in PREFIXES if name.startswith(prefix))
        state[f"{PREFIXES[prefix]}{name.removeprefix(prefix)}"] = weight
    torch.save(state, folder / "model.th", _use_new_zipfile_serialization=not legacy)
    return model
