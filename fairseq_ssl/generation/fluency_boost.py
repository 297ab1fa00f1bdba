"""Fluency boost: keep hypotheses that are less fluent than their source (Ge, Wei and Zhou, 2018).

A model that generates errors may also copy or correct a sentence. A hypothesis in the n-best list
is kept only if the ratio of source fluency to hypothesis fluency reaches a minimum.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.checkpoints.ensembles import load_models
from fairseq_ssl.data.id_batches import padded_batches, start_id
from fairseq_ssl.errors import ConfigurationError

logger = logging.getLogger(__name__)

MAX_TOKENS = 4000
"""Maximum number of tokens in a batch, including padding."""


class Fluency:
    """Scorer of sentence fluency, 1 / (1 + H), with a language model.

    H is the cross-entropy per token in nats, including </s>.
    """

    def __init__(self, model: Any, dictionary: Any, begin: int | None = None) -> None:
        """Set the language model to evaluation mode.

        Args:
            model: a fairseq language model.
            dictionary: the model's dictionary.
            begin: id of the start symbol (default: the id of </s>).
        """
        self.model = model.eval()
        self.dictionary = dictionary
        self.begin = dictionary.eos() if begin is None else begin
        self.max_length = int(min(model.max_positions(), sys.maxsize))  # fconv_lm: infinite

    @classmethod
    def load(cls, path: Path, folder: Path | None) -> Fluency:
        """Load a language model trained with fairseq's task language_modeling.

        Args:
            path: path of the checkpoint.
            folder: the folder with the model's dict.txt.
        """
        if folder is None:
            raise ConfigurationError(
                "--fluency-boost-data is not set. Set it to the folder with the dict.txt of the "
                f"language model {path}."
            )
        models, _, task = load_models([path], data=str(folder))
        dictionary = getattr(task, "dictionary", None)
        if dictionary is None or hasattr(models[0], "encoder"):
            raise ConfigurationError(
                f"{path} is not a language model. Expected a checkpoint trained with --task "
                "language_modeling."
            )
        return cls(models[0], dictionary, start_id(task))

    def map_symbols(self, dictionary: Any) -> Tensor:
        """Return the id of each symbol of `dictionary` in the language model's dictionary.

        Raise ConfigurationError if more than half of the symbols are unknown.
        """
        ids = [self.dictionary.index(symbol) for symbol in dictionary.symbols]
        unknown = ids.count(self.dictionary.unk()) - 1
        if unknown > len(ids) // 2:
            raise ConfigurationError(
                f"The language model's dictionary contains only {len(ids) - unknown} of the "
                f"{len(ids)} symbols of the translation model. Use a language model trained on "
                "text with the same subwords."
            )
        return torch.tensor(ids)

    def score(self, sentences: Sequence[Tensor]) -> Tensor:
        """Return the fluency of each sentence [sentences].

        Long sentences are truncated to the model's maximum length.

        Args:
            sentences: ids from the language model's dictionary, with </s>.
        """
        sentences = [self._truncate(sentence) for sentence in sentences]
        fluency = torch.zeros(len(sentences))
        for indices in padded_batches(list(map(len, sentences)), MAX_TOKENS):
            entropy = self._entropy([sentences[index] for index in indices])
            fluency[torch.tensor(indices)] = 1 / (1 + entropy.cpu())
        return fluency

    def _truncate(self, sentence: Tensor) -> Tensor:
        if len(sentence) <= self.max_length:
            return sentence
        return torch.cat([sentence[: self.max_length - 1], sentence[-1:]])

    @torch.no_grad()
    def _entropy(self, sentences: list[Tensor]) -> Tensor:
        pad = self.dictionary.pad()
        rows = torch.nn.utils.rnn.pad_sequence(sentences, True, pad)
        self.model.to(rows.device)
        previous = rows.roll(1, 1)
        previous[:, 0] = self.begin
        lengths = torch.tensor([len(sentence) for sentence in sentences], device=rows.device)
        output = self.model(previous, src_lengths=lengths)
        scores: Tensor = self.model.get_normalized_probs(output, True, {"target": rows})
        losses = -scores.gather(2, rows.unsqueeze(2)).squeeze(2).float()
        return losses.masked_fill(rows == pad, 0).sum(1) / lengths


class FluencyBoost:
    """A wrapper around a generator that filters its hypotheses by fluency.

    If no hypothesis of a sentence is kept, the sentence gets an empty hypothesis.
    """

    def __init__(
        self,
        generator: Any,
        fluency: Fluency,
        source: Any,
        target: Any,
        ratio: float,
        tags: Collection[int] = (),
    ) -> None:
        """Wrap a generator. Map its dictionaries to the dictionary of the language model.

        Args:
            generator: a fairseq generator.
            fluency: scorer of sources and hypotheses.
            source: source dictionary of the generator's models.
            target: target dictionary of the generator's models.
            ratio: minimum ratio of source fluency to hypothesis fluency (sigma), above 0.
            tags: ids of source tags, which are not scored.
        """
        self.generator = generator
        self.fluency = fluency
        self.source, self.target = fluency.map_symbols(source), fluency.map_symbols(target)
        self.ignored = torch.tensor([source.pad(), *tags])
        self.ratio = ratio

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped generator."""
        return getattr(self.generator, name)

    def generate(self, models: Any, sample: dict[str, Any], **options: Any) -> Any:
        """Return the hypotheses for which the fluency ratio reaches the minimum.

        A sentence without such a hypothesis gets an empty hypothesis with score -inf.
        """
        results = self.generator.generate(models, sample, **options)
        rows = sample["net_input"]["src_tokens"]
        is_text = ~torch.isin(rows, self.ignored.to(rows.device))
        sources = [row[real] for row, real in zip(rows, is_text, strict=True)]
        source_fluency = self._score(sources, self.source).tolist()
        tokens = [hypothesis["tokens"] for hypotheses in results for hypothesis in hypotheses]
        fluency = iter(self._score(tokens, self.target).tolist())
        filtered = []
        for of_source, hypotheses in zip(source_fluency, results, strict=True):
            kept = [
                hypothesis for hypothesis in hypotheses if of_source >= self.ratio * next(fluency)
            ]
            filtered.append(kept or [_empty_hypothesis(hypotheses[0])])
        return filtered

    def _score(self, sentences: list[Tensor], ids: Tensor) -> Tensor:
        ids = ids.to(sentences[0].device) if sentences else ids
        return self.fluency.score([ids[sentence] for sentence in sentences])


def _empty_hypothesis(hypothesis: dict[str, Any]) -> dict[str, Any]:
    """Return an empty hypothesis with score -inf. fairseq-generate needs one per sentence."""
    scores = hypothesis["tokens"].new_full((1,), float("-inf"), dtype=torch.float)
    empty = {"tokens": hypothesis["tokens"][-1:], "score": scores[0], "positional_scores": scores}
    return {**hypothesis, **empty, "attention": None, "alignment": torch.empty(0)}
