"""A text classifier with BERT, RoBERTa or another encoder from Hugging Face transformers (MEIN)."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.models.common import register_model
from fairseq_ssl.models.text_classifier import (
    ClassificationHead,
    PooledConfig,
    TextClassifier,
    require_classes,
)
from fairseq_ssl.options import option
from fairseq_ssl.text.vocabulary import is_padding_entry

logger = logging.getLogger(__name__)


@dataclass
class BertClassifierConfig(PooledConfig):
    """Options of the BERT classifier."""

    classifier_bert: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None, "folder of the pretrained encoder in Hugging Face format (required)"
    )
    classifier_bert_config: str = ""
    """The encoder's config as a JSON string, from config.json in the folder `classifier_bert`."""


@register_model("bert_classifier", dataclass=BertClassifierConfig)
class BertClassifier(TextClassifier):
    """An encoder from Hugging Face transformers with a classification head.

    Tokenize the texts with the encoder's own tokenizer: `fairseq-ssl classify prepare --tokenizer
    bert:FOLDER`. The model prepends the start token.
    """

    def __init__(self, cfg: BertClassifierConfig, encoder: Any, symbols: int, classes: int) -> None:
        """Add a classification head to an encoder.

        Args:
            cfg: the options.
            encoder: an encoder from Hugging Face transformers.
            symbols: size of the task's dictionary.
            classes: number of classes.
        """
        super().__init__()
        self.encoder = encoder
        self.dropout = cfg.classifier_dropout
        self.classes = ClassificationHead(cfg, encoder.config.hidden_size, classes)
        self.register_buffer("rows", torch.zeros(symbols, dtype=torch.long))
        self.register_buffer("start", torch.zeros((), dtype=torch.long))

    rows: Tensor
    """[symbols], the id of each dictionary symbol in the encoder's vocabulary."""
    start: Tensor
    """Id of the start token in the encoder's vocabulary, a scalar."""

    @classmethod
    def build_model(cls, cfg: BertClassifierConfig, task: Any) -> "BertClassifier":
        """Build the model for a classification task.

        If `classifier_bert` is set, load the encoder from this folder. Otherwise, build an encoder
        with random weights from `classifier_bert_config`, which is stored in checkpoints.
        """
        require_classes(task, "bert_classifier")
        symbols, classes = task.source_dictionary.symbols, len(task.classes)
        if cfg.classifier_bert is None:
            if not cfg.classifier_bert_config:
                raise ConfigurationError(
                    "--arch bert_classifier needs a pretrained encoder. Set --classifier-bert to "
                    "its folder."
                )
            config = json.loads(cfg.classifier_bert_config)
            return cls(cfg, pretrained.of_config(config), len(symbols), classes)
        folder = Path(cfg.classifier_bert).expanduser()
        encoder = pretrained.load_model(folder)
        if encoder.config.model_type in pretrained.PERMUTED:
            raise ConfigurationError(
                f"{folder} contains an {type(encoder).__name__}, which expects the classification "
                "token at the end of a text. Expected a masked language model, such as BERT."
            )
        model = cls(cfg, encoder, len(symbols), classes)
        tokenizer = pretrained.load_tokenizer(folder)
        start, end = pretrained.ends(tokenizer)
        model.start.fill_(start)
        model.rows.copy_(torch.tensor(_map_symbols(symbols, tokenizer, end, folder)))
        return model

    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return token embeddings [batch, time, dim], with dropout in training."""
        embeddings = self.encoder.get_input_embeddings()
        embedded: Tensor = embeddings(self.rows[src_tokens])
        return functional.dropout(embedded, self.dropout, self.training)

    def classify(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the logits [batch, classes]. The start token's embedding is prepended."""
        first = self.encoder.get_input_embeddings()(self.start).expand(len(embedded), 1, -1)
        inputs = torch.cat([first, embedded], 1)
        is_word = torch.arange(inputs.size(1), device=inputs.device) <= src_lengths[:, None]
        output = self.encoder(inputs_embeds=inputs, attention_mask=is_word.long())
        logits: Tensor = self.classes(output.last_hidden_state, is_word)
        return logits

    def max_positions(self) -> int:
        """Return the maximum text length in tokens, including </s> but not the start token."""
        return pretrained.longest(self.encoder) - 1


def read_config(folder: str) -> str:
    """Return the content of config.json in the encoder's folder as a JSON string."""
    return json.dumps(pretrained.load_config(Path(folder).expanduser()))


def _map_symbols(symbols: list[str], tokenizer: Any, end: int, folder: Path) -> list[int]:
    """Return each dictionary symbol's id in the encoder's vocabulary.

    Unused entries that fill up the dictionary (madeupword) get the id of <unk>. Raise DataError if
    any other symbol is not in the encoder's vocabulary.
    """
    vocabulary = tokenizer.get_vocab()
    special = {
        "<s>": pretrained.ends(tokenizer)[0],
        "</s>": end,
        "<pad>": tokenizer.pad_token_id,
        "<unk>": tokenizer.unk_token_id,
    }
    rows = [special.get(symbol, vocabulary.get(symbol)) for symbol in symbols]
    missing = [
        symbol
        for symbol, row in zip(symbols, rows, strict=True)
        if row is None and not is_padding_entry(symbol)
    ]
    if missing:
        examples = ", ".join(map(repr, missing[:5]))
        raise DataError(
            f"{len(missing)} of the {len(symbols)} symbols in the dictionary, such as {examples}, "
            f"are not in the vocabulary of the encoder in {folder}. Prepare the data with "
            f"`fairseq-ssl classify prepare --tokenizer bert:{folder}`."
        )
    unknown = special["<unk>"]
    return [unknown if row is None else row for row in rows]
