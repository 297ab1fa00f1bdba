"""GECToR models (Omelianchuk et al., 2020) as word-level edit taggers.

Two formats are supported. A folder of the package `gector` contains config.json, tokenizer.json,
and weights in Hugging Face format. A model of the GECToR authors consists of a `.th` file and
output_vocabulary/labels.txt in the same folder. Both folders can also contain the encoder's
config.json and tokenizer.json in a subfolder `encoder`, and a table of English verb forms,
verb-form-vocab.txt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.bert import (
    check_bert_settings,
    encoder_weights,
    first_position,
    is_native,
)
from fairseq_ssl.checkpoints.files import can_map, check_finite, load_checkpoint, weight_difference
from fairseq_ssl.checkpoints.hugging_face import CONFIG, read_config, read_settings
from fairseq_ssl.checkpoints.pretrained import EncoderFiles, encoder_config, of_config
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.gector_labels import VERB_FORMS, LabelTable, label_table
from fairseq_ssl.edits.subwords import PROBE, START
from fairseq_ssl.errors import DataError, import_optional, library_errors, reject_options
from fairseq_ssl.io.text_files import read_lines

LABELS, TOKENIZER, ENCODER = "output_vocabulary/labels.txt", "tokenizer.json", "encoder"
MAX_LENGTH = 80
"""Maximum number of subwords per sentence, if config.json contains no `max_length`."""
MIN_LENGTH = 8
FULL_TABLE = 5001
"""Number of labels in the published models, excluding padding."""
ORGANIZATIONS = ("", "google-bert", "FacebookAI", "xlnet", "microsoft")
"""Owners of the public encoders on the Hugging Face Hub. Older model names contain no owner."""
SIZES = {"base": (768, 12, 12, 3072), "large": (1024, 24, 16, 4096)}
"""Values of `SIZE_NAMES` for the public encoders, by size."""
SIZE_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
XLNET_NAMES = ("d_model", "n_layer", "n_head", "d_inner")
SETTING_NAMES = (
    *("vocab_size", "max_position_embeddings", "type_vocab_size"),
    *("layer_norm_eps", "pad_token_id"),
)
SETTINGS: dict[str, tuple[Any, ...]] = {
    "bert": (28996, 512, 2, 1e-12, 0),
    "roberta": (50265, 514, 1, 1e-5, 1),
    "xlnet": (32000, None, None, 1e-12, 5),
    "deberta": (50265, 512, 0, 1e-7, 0),
}
"""Values of `SETTING_NAMES` for the public encoders, by model type. None omits a setting."""
DEBERTA = {
    "relative_attention": True,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "pos_att_type": ["c2p", "p2c"],
}
"""Additional settings of DeBERTa."""
ENCODERS = {
    "bert-base-cased": (0.4, 0.5),
    "bert-large-cased": (0.5, 0.0),
    "roberta-base": (0.3, 0.6),
    "roberta-large": (0.0, 0.6),
    "xlnet-base-cased": (0.0, 0.6),
    "xlnet-large-cased": (0.0, 0.6),
    "deberta-base": (0.3, 0.6),
    "deberta-large": (0.0, 0.6),
}
"""Published keep bias and minimum error probability of gotutiyan/gector-ENCODER-5k, by encoder."""
AUTHORS = {"bert": (0.1, 0.41), "roberta": (0.2, 0.5), "xlnet": (0.2, 0.5)}
"""Keep bias and minimum error probability of the authors' base models, version 2, by type."""
PREFIXES = {
    "bert.": "",
    "label_proj_layer.": "labels.",
    "d_proj_layer.": "errors.",
    "text_field_embedder.token_embedder_bert.bert_model.": "",
    "tag_labels_projection_layer._module.": "labels.",
    "tag_detect_projection_layer._module.": "errors.",
}
"""Replacements for weight name prefixes, by prefix, for both formats."""
UNUSED = re.compile(r"(^|\.)(pooler\..*|position_ids)$")
"""Pattern of the names of weights and buffers that do not affect the hidden states."""


@dataclass(frozen=True)
class GectorModel:
    """A GECToR model, from which a word-level edit tagger is built."""

    encoder: EncoderFiles
    """Config and tokenizer of the encoder. The tokenizer prepends `START` to the words."""
    edits: EditDictionary
    max_length: int
    """Maximum number of subwords per sentence, including `START` and the encoder's symbols."""
    rows: tuple[int, ...]
    """Row in the label head for each label of `edits`."""
    state: Mapping[str, Tensor] = field(repr=False)
    """Encoder weights by transformers name, and the weights of the label and error heads."""

    def set_options(self, options: Any) -> None:
        """Set the edit tagger options that depend on the model, except for the encoder sizes."""
        reject_options("a GECToR model", {"edit_gap_inserts": options.edit_gap_inserts})
        options.edit_unfactorized = options.edit_detection = True
        options.max_source_positions = min(options.max_source_positions, self.max_length)

    def weights(self, positions: int | None = None) -> dict[str, Tensor]:
        """Return the state dict of the edit tagger in float32.

        Args:
            positions: maximum number of subwords per sentence (default: `max_length`).
        """
        state = {name: weight.float() for name, weight in self.state.items()}
        heads = {name: state.pop(name) for name in self.state if name.startswith(_HEADS)}
        if is_native(self.encoder.config):
            words = state[_word_embeddings(state)]
            weights = encoder_weights(state, self.encoder.config, positions or self.max_length)
            weights |= {"encoder.tokens.weight": words, "encoder.mask": torch.zeros_like(words[0])}
        else:
            weights = {f"encoder.model.{name}": weight for name, weight in state.items()}
        for kind in ("weight", "bias"):
            weights[f"scores.edits.{kind}"] = heads[f"labels.{kind}"][list(self.rows)]
            correct, incorrect = heads[f"errors.{kind}"][:2]
            weights[f"errors.{kind}"] = (incorrect - correct)[None]
        return weights


_HEADS = ("labels.", "errors.")


def is_gector(path: Path) -> bool:
    """Return True if `path` is the folder or the `.th` file of a GECToR model."""
    if path.is_file():
        return path.suffix == ".th"
    config = path / CONFIG
    settings = read_settings(config) if config.is_file() else {}
    return settings.keys() >= {"label2id", "model_id"} or any(path.glob("*.th"))


def read_gector(path: Path, encoder: Path | None = None) -> GectorModel:
    """Read a GECToR model.

    Args:
        path: folder of the model, or its `.th` file.
        encoder: folder of the encoder with which the model was trained (default: the subfolder
            `encoder` of the model). The encoder's weights are not read. A `.th` file needs the
            folder, and other models need it unless their encoder is one of `ENCODERS`.

    Raises:
        DataError: if a file is missing, damaged or does not match the other files.
    """
    files = _Files.read(path, encoder)
    edits, rows = read_labels(path)
    config = files.config
    state = _read_state(files.weights)
    subwords = len(state[_word_embeddings(state)])
    has_start = subwords - 1 == config.get("vocab_size")
    if has_start:
        config["vocab_size"] = subwords
    _check_shapes(state, config, len(rows), files.is_th, path)
    # The package gives models of the authors a row for START, also if they read its subwords.
    tokenizer = files.with_start(has_start and (files.is_th or not files.is_authors))
    return GectorModel(EncoderFiles(config, tokenizer), edits, files.max_length, rows, state)


def read_search(path: Path, encoder: Path | None = None) -> CorrectionSearch:
    """Return search options with a GECToR model's published thresholds (0 if there are none).

    The weights are not read. The minimum error probability applies to the probability of an edit
    and to the maximum error probability of the words and `START`. The package `gector` excludes
    `START` from the maximum if it is the first symbol of the input, as in `.th` models.
    """
    return _Files.read(path, encoder).search(len(read_labels(path).rows))


def read_labels(path: Path) -> LabelTable:
    """Read the label table of a GECToR model, with the verb forms in verb-form-vocab.txt.

    If the folder of the model does not contain this file, lemminflect generates the verb forms.
    """
    file = _th_file(path)
    folder = path if file is None else file.parent
    verbs = folder / VERB_FORMS if (folder / VERB_FORMS).is_file() else None
    if file is None:
        where = folder / CONFIG
        return label_table(_package_labels(read_config(folder), where), where, verbs)
    where = folder / LABELS
    if not where.is_file():
        raise DataError(
            f"{where} does not exist. Expected the labels of {file}. Copy them from GECToR's "
            "repository."
        )
    *names, padding = [*read_lines(where), ""][:-1] or [""]
    if padding != "@@PADDING@@":
        raise DataError(f"The last label in {where} is {padding[:60]!r}. Expected @@PADDING@@.")
    return label_table(names, where, verbs)


@dataclass(frozen=True)
class _Files:
    """The files of a model, except for the labels."""

    path: Path
    weights: list[Path]
    settings: Mapping[str, Any]
    """The content of config.json, empty for a `.th` file."""
    config: dict[str, Any]
    """Settings of the encoder."""
    tokenizer: str
    """The content of tokenizer.json."""

    @classmethod
    def read(cls, path: Path, encoder: Path | None) -> _Files:
        """Read the files. The arguments are as in `read_gector`."""
        file = _th_file(path)
        own_encoder = (path if file is None else file.parent) / ENCODER
        if encoder is None and own_encoder.is_dir():
            encoder = own_encoder
        if file is not None:
            if encoder is None:
                raise DataError(
                    f"{file} contains only weights. Pass the folder of its encoder, which contains "
                    f"{CONFIG} and {TOKENIZER}, or copy that folder to {own_encoder}."
                )
            own = EncoderFiles.read(encoder)
            files = cls(path, [file], {}, dict(own.config), own.tokenizer)
        else:
            settings = read_config(path)
            config = _public_encoder(settings, path) if encoder is None else encoder_config(encoder)
            names = ("model*.safetensors", "pytorch_model*.bin")
            weights = next(filter(None, (sorted(path.glob(name)) for name in names)), [])
            for name, exists in ((TOKENIZER, (path / TOKENIZER).is_file()), (names[0], weights)):
                if not exists:
                    raise DataError(
                        f"{path} contains no {name}. Expected {CONFIG}, {TOKENIZER} and weights."
                    )
            tokenizer = "\n".join(read_lines(path / TOKENIZER))
            files = cls(path, weights, settings, config, tokenizer)
        if is_native(files.config):
            check_bert_settings(files.config, (encoder or path) / CONFIG)
        return files

    @property
    def is_th(self) -> bool:
        """True for a `.th` checkpoint of the GECToR authors."""
        return self.weights[0].suffix == ".th"

    @property
    def is_authors(self) -> bool:
        """True for a model of the GECToR authors, in either format."""
        return self.is_th or self.settings.get("is_official_model") is True

    @property
    def max_length(self) -> int:
        """Maximum number of subwords per sentence, at most the encoder's number of positions."""
        length = self.settings.get("max_length", MAX_LENGTH)
        if not isinstance(length, int) or length < MIN_LENGTH:
            raise DataError(
                f"{self.path / CONFIG}: max_length is {length!r}. Expected an integer, "
                f"{MIN_LENGTH} or more."
            )
        if not is_native(self.config):
            return length
        positions = int(self.config["max_position_embeddings"]) - first_position(self.config)
        return min(length, positions)

    def search(self, labels: int) -> CorrectionSearch:
        """Return the result of `read_search`. `labels` is the model's number of labels."""
        kind = str(self.config.get("model_type"))
        names = XLNET_NAMES if kind == "xlnet" else SIZE_NAMES
        is_base = tuple(self.config.get(name) for name in names) == SIZES["base"]
        published = None
        if labels == FULL_TABLE and not self.is_authors:
            published = ENCODERS.get(_public_name(self.settings) or "")
        elif labels == FULL_TABLE and is_base:
            published = AUTHORS.get(kind)
        keep_bias, error = published or (0.0, 0.0)
        return CorrectionSearch(
            iterations=5, keep_bias=keep_bias, min_confidence=error, min_sentence_confidence=error
        )

    def with_start(self, has_start: bool) -> str:
        """Return the content of a tokenizer.json that prepends `START` to the words.

        Args:
            has_start: whether to add `START` to the tokenizer as a special token. If False, `START`
                is split into subwords unless the tokenizer already contains it.
        """
        library = import_optional("tokenizers", "A GECToR model", "bert")
        with library_errors(f"The tokenizer of {self.path} cannot be read"):
            tokenizer = library.Tokenizer.from_str(self.tokenizer)
            tokenizer.no_truncation()
            tokenizer.no_padding()
            if has_start:
                tokenizer.add_special_tokens([START])
            encoded = tokenizer.encode(PROBE, add_special_tokens=True)
            words = [at for at, special in enumerate(encoded.special_tokens_mask) if not special]
            before, after = encoded.ids[: words[0]], encoded.ids[words[-1] + 1 :]
            if self.is_authors:  # which were trained without the encoder's symbols
                before, after = [], []
            before += tokenizer.encode(START, add_special_tokens=False).ids
            tokenizer.post_processor = library.processors.TemplateProcessing(
                single=["before", "$A", "after"] if after else ["before", "$A"],
                special_tokens=[
                    {"id": name, "ids": ids, "tokens": list(map(tokenizer.id_to_token, ids))}
                    for name, ids in (("before", before), ("after", after))
                    if ids
                ],
            )
            with_start: str = tokenizer.to_str()
        return with_start


def _th_file(path: Path) -> Path | None:
    """Return a model's `.th` file, or None for a `gector` folder. Reject any other path."""
    if not is_gector(path):
        raise DataError(
            f"{path} is not an edit tagger. Expected a checkpoint of fairseq-train, a folder "
            "written by fairseq-ssl export --to onnx, or a GECToR model: a folder whose "
            "config.json contains model_id and label2id, or a .th file."
        )
    files = [path] if path.is_file() else sorted(path.glob("*.th"))
    if len(files) > 1:
        raise DataError(f"{path} contains {len(files)} .th files. Pass one of them.")
    return files[0] if files else None


def _package_labels(settings: Mapping[str, Any], where: Path) -> list[str]:
    """Return label names in order of ids, without padding. Reject ids that are not consecutive."""
    labels = settings.get("label2id")
    if isinstance(labels, dict) and all(isinstance(row, int) for row in labels.values()):
        names = sorted(labels.keys() - {"<PAD>"}, key=labels.__getitem__)
        if [labels[name] for name in names] == list(range(len(names))):
            return names
    raise DataError(
        f"{where} does not contain the labels of a GECToR model. Expected label2id with "
        "consecutive ids from 0, and <PAD> last."
    )


def _public_name(settings: Mapping[str, Any]) -> str | None:
    """Return the name of a model's encoder, or None if it is not one of the public `ENCODERS`."""
    owner, _, name = str(settings.get("model_id")).rpartition("/")
    return name if name in ENCODERS and owner in ORGANIZATIONS else None


def _public_encoder(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the config of a model's public encoder. Raise DataError if the encoder is unknown."""
    name = _public_name(settings)
    if name is None:
        raise DataError(
            f"The encoder of {folder} is {str(settings.get('model_id'))[:80]!r}, whose sizes are "
            f"unknown. Expected one of {', '.join(ENCODERS)}. For a different encoder, pass its "
            f"folder, or copy that folder to {folder / ENCODER}."
        )
    kind, size, *_ = name.split("-")
    names = XLNET_NAMES if kind == "xlnet" else SIZE_NAMES
    values = zip((*names, *SETTING_NAMES), SIZES[size] + SETTINGS[kind], strict=True)
    config = {name: value for name, value in values if value is not None}
    return {"model_type": kind, **config, **(DEBERTA if kind == "deberta" else {})}


def _read_state(files: Sequence[Path]) -> dict[str, Tensor]:
    """Read the weights, except `UNUSED`, and rename them as described for `GectorModel.state`."""
    state: dict[str, Any] = {}
    for path in files:
        if path.suffix == ".safetensors":
            library = import_optional("safetensors.torch", f"Reading {path}", "bert")
            with library_errors(f"{path} cannot be read"):
                state |= library.load_file(path)
        else:
            state |= load_checkpoint(path, path, mmap=can_map(path))
    renamed = {_rename(str(name)): weight for name, weight in state.items()}
    weights = {
        name: weight
        for name, weight in renamed.items()
        if isinstance(weight, Tensor) and not UNUSED.search(name)
    }
    check_finite(weights, files[0])
    _word_embeddings(weights, files[0])
    return weights


def _rename(name: str) -> str:
    for prefix, replacement in PREFIXES.items():
        if name.startswith(prefix):
            return f"{replacement}{name.removeprefix(prefix)}"
    return name


def _word_embeddings(state: Mapping[str, Tensor], path: object = "The encoder") -> str:
    """Return the name of the word embeddings. Raise DataError unless they are a matrix."""
    name = next((name for name, weight in state.items() if "word_embedding" in name), None)
    if name is None or state[name].dim() != 2:
        raise DataError(
            f"{path} contains no matrix of word embeddings. Expected the weights of a GECToR model."
        )
    return name


def _check_shapes(
    state: Mapping[str, Tensor], config: Mapping[str, Any], labels: int, is_th: bool, path: Path
) -> None:
    """Raise DataError unless the weights match the encoder and both heads.

    In a `.th` file, both heads also have a row for padding, and the error head has a row for
    unknown labels.
    """
    with torch.device("meta"):
        encoder = of_config(dict(config)).state_dict()
        expected = {name: weight for name, weight in encoder.items() if not UNUSED.search(name)}
        dim = expected[_word_embeddings(expected)].size(1)
        for head, rows in (("labels", labels + is_th), ("errors", 2 + 2 * is_th)):
            expected[f"{head}.weight"] = torch.empty(rows, dim)
            expected[f"{head}.bias"] = torch.empty(rows)
    difference = weight_difference(state, expected)
    if difference is not None:
        raise DataError(
            f"The weights in {path} and those of a model with its {labels} labels and its encoder "
            f"({config.get('model_type')}) differ: {difference}. Expected the labels and the "
            "encoder with which the model was trained."
        )
