"""A BERT, a RoBERTa or the like as an expert: any encoder that transformers knows (MEIN)."""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.models import register_model
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.models.text_classifier import (
    PooledConfig,
    TextClassifier,
    pooled_classes,
    require_task,
)
from fairseq_ssl.text.vocabulary import is_padding_entry

logger = logging.getLogger(__name__)


@dataclass
class BertClassifierConfig(PooledConfig):
    """The options of the model."""

    classifier_bert: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "folder of the language model, as transformers' save_pretrained writes it"
        },
    )
    classifier_bert_config: str = field(
        default="", metadata={"help": "filled in from the folder's config.json"}
    )


@register_model("bert_classifier", dataclass=BertClassifierConfig)
class BertClassifier(TextClassifier):
    """An encoder of transformers', and a perceptron over its states.

    Texts come cut into its own tokens, as `fairseq-ssl classify prepare --cut bert:FOLDER` cuts
    them; the token of the start is put before each here.
    """

    def __init__(self, cfg: BertClassifierConfig, encoder: Any, symbols: int, classes: int) -> None:
        """Join the parts.

        Args:
            cfg: the options
            encoder: of transformers
            symbols: how many the task's dictionary has
            classes: how many there are
        """
        super().__init__()
        self.encoder = encoder
        self.dropout = cfg.classifier_dropout
        self.classes = pooled_classes(cfg, encoder.config.hidden_size, classes)
        self.register_buffer("rows", torch.zeros(symbols, dtype=torch.long))
        self.register_buffer("start", torch.zeros((), dtype=torch.long))

    rows: Tensor
    """The encoder's id of each symbol of the task's dictionary [symbols]."""
    start: Tensor
    """That of the token before a text."""

    @classmethod
    def build_model(cls, cfg: BertClassifierConfig, task: Any) -> "BertClassifier":
        """Make the model from a folder, or for a checkpoint that brings its weights."""
        require_task(task, "bert_classifier")
        symbols, classes = task.source_dictionary.symbols, len(task.classes)
        if cfg.classifier_bert is None:
            if not cfg.classifier_bert_config:
                raise ConfigurationError(
                    "--arch bert_classifier needs --classifier-bert, the folder of a BERT."
                )
            config = json.loads(cfg.classifier_bert_config)
            return cls(cfg, pretrained.of_config(config), len(symbols), classes)
        folder = Path(cfg.classifier_bert).expanduser()
        encoder = pretrained.load_model(folder)
        model = cls(cfg, encoder, len(symbols), classes)
        tokenizer = pretrained.load_tokenizer(folder)
        start, end = pretrained.ends(tokenizer)
        model.start.fill_(start)
        model.rows.copy_(torch.tensor(_rows(symbols, tokenizer, end, folder)))
        return model

    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return the embeddings of tokens with dropout [batch, time, dim]."""
        embeddings = self.encoder.get_input_embeddings()
        found: Tensor = embeddings(self.rows[src_tokens])
        return functional.dropout(found, self.dropout, self.training)

    def scored(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the logits [batch, classes]."""
        first = self.encoder.get_input_embeddings()(self.start).expand(len(embedded), 1, -1)
        whole = torch.cat([first, embedded], 1)
        places = torch.arange(whole.size(1), device=whole.device)
        is_word = places <= src_lengths[:, None]
        states = self.encoder(inputs_embeds=whole, attention_mask=is_word.long()).last_hidden_state
        logits: Tensor = self.classes(states, is_word)
        return logits

    def max_positions(self) -> int:
        """Return how many tokens of a text it reads, the end counted."""
        return pretrained.longest(self.encoder) - 1


def config_of(folder: str) -> str:
    """Return what makes the encoder of a folder, as JSON."""
    return json.dumps(pretrained.load_config(Path(folder).expanduser()))


def _rows(symbols: list[str], tokenizer: Any, end: int, folder: Path) -> list[int]:
    """Return the encoder's id of each symbol of fairseq's dictionary."""
    known = tokenizer.get_vocab()
    special = {
        "<s>": pretrained.ends(tokenizer)[0],
        "</s>": end,
        "<pad>": tokenizer.pad_token_id,
        "<unk>": tokenizer.unk_token_id,
    }
    rows = [special.get(symbol, known.get(symbol)) for symbol in symbols]
    lacking = [symbol for symbol, row in zip(symbols, rows, strict=True) if row is None]
    fillers = [symbol for symbol in lacking if is_padding_entry(symbol)]
    if len(lacking) > len(fillers):
        shown = ", ".join(map(repr, [one for one in lacking if one not in fillers][:5]))
        raise DataError(
            f"{len(lacking) - len(fillers)} of the dictionary's {len(symbols)} symbols are unknown "
            f"to the language model in {folder}, as {shown}. Make the data with `fairseq-ssl "
            f"classify prepare --cut bert:{folder}`."
        )
    unknown = special["<unk>"]
    return [unknown if row is None else row for row in rows]
