"""The Python interface to edit taggers: `EditCorrector.correct` returns text and edits."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq import hub_utils
from fairseq.data import encoders
from torch import nn

from fairseq_ssl.checkpoints.ensembles import check_registered
from fairseq_ssl.data.edit_dataset import EditDataset
from fairseq_ssl.errors import ConfigurationError, nearest
from fairseq_ssl.generation.edit_rounds import AppliedEdit

__all__ = ["Correction", "EditCorrector"]

MAX_UNKNOWN_WORDS = 500_000
"""Max number of words outside the dictionary to remember, whose tables take about 100 MB."""


@dataclass(frozen=True)
class Correction:
    """A corrected sentence."""

    text: str
    """The corrected text, detokenized."""
    tokens: tuple[str, ...]
    """The corrected tokens."""
    edits: tuple[AppliedEdit, ...]
    """The edits of all rounds."""
    score: float
    """Mean log-probability of the edits in the last round, including keep."""
    rounds: int
    """Number of rounds. It is lower than the maximum if a round changed nothing or undid edits."""


class EditCorrector(nn.Module):
    """An edit tagger, or an ensemble of them, with its task. ``to(device)`` moves the models."""

    def __init__(self, cfg: Any, task: Any, models: Sequence[Any]) -> None:
        """Prepare `models` for inference.

        Args:
            cfg: the configuration, as loaded by fairseq.
            task: an edit_labeling task.
            models: one model, or an ensemble.
        """
        super().__init__()
        for model in models:
            model.prepare_for_inference_(cfg)
        self.models = nn.ModuleList(models)
        self.task = task
        self.cfg = cfg
        self.set_options()
        self.tokenizer = encoders.build_tokenizer(cfg.tokenizer)
        self.subwords = encoders.build_bpe(cfg.bpe)
        self.register_buffer("_device_marker", torch.empty(0), persistent=False)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "checkpoint_best.pt",
        data_name_or_path: str = ".",
        **overrides: Any,
    ) -> EditCorrector:
        """Load the models and the task, as fairseq's `from_pretrained` does.

        Call `fairseq_ssl.register()` first.

        Args:
            model_name_or_path: folder of the checkpoints.
            checkpoint_file: a checkpoint, or several separated by ":" for an ensemble.
            data_name_or_path: folder with dict.*.txt and edits.txt. A path that starts with "." is
                relative to `model_name_or_path`.
            overrides: training or decoding options to override, such as edit_iterations=2.
        """
        check_registered()
        loaded = hub_utils.from_pretrained(
            model_name_or_path, checkpoint_file, data_name_or_path, **overrides
        )
        return cls(loaded["args"], loaded["task"], loaded["models"])

    def set_options(self, **options: Any) -> None:
        """Set decoding options, such as edit_keep_bias=0.1, and rebuild the generator.

        If a value is rejected, all options keep their values.
        """
        cfg = self.task.cfg
        for name in options:
            if not hasattr(cfg, name):
                raise ConfigurationError(f"edit_labeling has no option {name}.{nearest(name, cfg)}")
        previous = {name: getattr(cfg, name) for name in options}
        generation = copy.copy(self.cfg.generation)  # `print_edits` sets one of its options
        try:
            for name, value in options.items():
                setattr(cfg, name, value)
            self.generator = self.task.build_generator(list(self.models), generation)
        except Exception:
            for name, value in previous.items():
                setattr(cfg, name, value)
            raise

    def correct(self, sentences: Sequence[str], batch_size: int = 64) -> list[Correction]:
        """Correct sentences in batches. Return the corrections in the same order.

        The tokenizer and the subword model are set in the configuration (--tokenizer, --bpe).
        Without them, sentences are split at spaces.

        Args:
            sentences: the sentences to correct.
            batch_size: number of sentences per batch, 1 or more.
        """
        if isinstance(sentences, str):
            raise ConfigurationError(
                "The argument of correct() is a string; expected a list of strings, one per "
                "sentence."
            )
        if batch_size < 1:
            raise ConfigurationError(f"batch_size is {batch_size}; expected 1 or more.")
        lines = self.encode(sentences)
        lengths = np.array([len(line) for line in lines])
        # The generator looks up subwords itself, for each round.
        data = EditDataset(lines, lengths, self.task.source_dictionary, shuffle=False)
        order = sorted(range(len(lines)), key=lambda index: -lengths[index])
        corrections: list[Any] = [None] * len(lines)
        for begin in range(0, len(order), batch_size):
            batch = data.collater([data[index] for index in order[begin : begin + batch_size]])
            net_input = batch["net_input"]
            inputs = {
                name: net_input[name].to(self.device) for name in ("src_tokens", "src_lengths")
            }
            results = self.task.inference_step(self.generator, self.models, {"net_input": inputs})
            for index, hypotheses in zip(batch["id"].tolist(), results, strict=True):
                corrections[index] = self._correction(hypotheses[0])
        if len(self.task.source_dictionary.surfaces) > MAX_UNKNOWN_WORDS:
            self._forget_unknown_words()
        return corrections

    @property
    def device(self) -> torch.device:
        """The device of the models."""
        return self.get_buffer("_device_marker").device

    def encode(self, sentences: Sequence[str]) -> list[torch.Tensor]:
        """Return the ids of sentences, each with </s>. Unknown words get new ids."""
        words = self.task.source_dictionary
        lines = map(self.tokenize, sentences)
        return [words.encode_line(line, add_if_not_exist=False).long() for line in lines]

    def _forget_unknown_words(self) -> None:
        """Free the memory of words that are not in the dictionary, and rebuild the generator."""
        self.task.source_dictionary.forget_unknown()
        for model in self.models:
            words: Any = model.subwords
            if words is not None:
                words.forget_unknown()
        self.set_options()

    def tokenize(self, sentence: str) -> str:
        """Return the tokens of a sentence, separated by spaces."""
        for part in (self.tokenizer, self.subwords):
            sentence = sentence if part is None else part.encode(sentence)
        return sentence

    def _correction(self, hypothesis: dict[str, Any]) -> Correction:
        dictionary = self.task.target_dictionary
        tokens = tuple(dictionary[number] for number in hypothesis["tokens"][:-1].tolist())
        text = " ".join(tokens)
        for part in (self.subwords, self.tokenizer):
            text = text if part is None else part.decode(text)
        edits, score = tuple(hypothesis["edits"]), hypothesis["score"]
        return Correction(text, tokens, edits, score, hypothesis["steps"])
