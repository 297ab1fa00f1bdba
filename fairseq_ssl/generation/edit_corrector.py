"""Correct sentences from Python: text in, text and edits out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.data import encoders
from torch import nn

from fairseq_ssl.errors import ConfigurationError, nearest
from fairseq_ssl.generation.edit_rounds import MadeEdit


@dataclass(frozen=True)
class Correction:
    """A sentence corrected."""

    text: str
    edits: tuple[MadeEdit, ...]
    """Those made, with the round, the place, the label and its probability."""
    score: float
    """Mean log probability of all edits of the last round, those that keep among them."""
    rounds: int
    """That looked at it; the last of them often changes nothing."""


class EditCorrector(nn.Module):
    """Trained edit taggers with all that is needed to use them; moves to a device as a module."""

    def __init__(self, cfg: Any, task: Any, models: Sequence[Any]) -> None:
        """Take what fairseq has loaded of one checkpoint or more."""
        super().__init__()
        for model in models:
            model.prepare_for_inference_(cfg)
        self.models = nn.ModuleList(models)
        self.task = task
        self.cfg = cfg
        self.set_options()
        self.tokenizer = encoders.build_tokenizer(cfg.tokenizer)
        self.subwords = encoders.build_bpe(cfg.bpe)
        self.register_buffer("_anywhere", torch.empty(0), persistent=False)

    def set_options(self, **options: Any) -> None:
        """Correct with other values of these options of the task, as in edit_keep_bias=0.1."""
        for name, value in options.items():
            if not hasattr(self.task.cfg, name):
                raise ConfigurationError(
                    f"edit_labeling has no option {name}.{nearest(name, self.task.cfg)}"
                )
            setattr(self.task.cfg, name, value)
        self.rounds = self.task.build_generator(list(self.models), self.cfg.generation)

    def correct(self, sentences: Sequence[str], batch_size: int = 64) -> list[Correction]:
        """Correct sentences, so many at a time, and return as many in the same order.

        They are cut into tokens as in training: by the tokenizer and the subwords that the model
        was trained with if fairseq was told of them, else at spaces.
        """
        if isinstance(sentences, str):
            raise ConfigurationError("correct() takes a list of sentences, not one string.")
        if batch_size < 1:
            raise ConfigurationError(f"batch_size is {batch_size}; expected 1 or more.")
        words = self.task.source_dictionary
        lines = [
            words.encode_line(self._cut(one), add_if_not_exist=False).long() for one in sentences
        ]
        lengths = [len(line) for line in lines]
        data = self.task.build_dataset_for_inference(lines, lengths)
        order = sorted(range(len(lines)), key=lambda one: -lengths[one])
        found: list[Any] = [None] * len(lines)
        for begin in range(0, len(order), batch_size):
            batch = data.collater([data[one] for one in order[begin : begin + batch_size]])
            net_input = batch["net_input"]
            device = self.get_buffer("_anywhere").device
            moved = {name: tensor.to(device) for name, tensor in net_input.items()}
            done = self.task.inference_step(self.rounds, self.models, {"net_input": moved})
            for one, hypotheses in zip(batch["id"].tolist(), done, strict=True):
                found[one] = self._correction(hypotheses[0])
        return found

    def _cut(self, sentence: str) -> str:
        for part in (self.tokenizer, self.subwords):
            sentence = sentence if part is None else part.encode(sentence)
        return sentence

    def _correction(self, hypothesis: dict[str, Any]) -> Correction:
        text = self.task.target_dictionary.string(hypothesis["tokens"])
        for part in (self.subwords, self.tokenizer):
            text = text if part is None else part.decode(text)
        edits, score = tuple(hypothesis["edits"]), hypothesis["score"]
        return Correction(text, edits, score, hypothesis["steps"])
