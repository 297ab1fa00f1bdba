"""A fake edit tagger, whose scores a test defines and which records its inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import GROUPS, Transforms, english_suffixes
from fairseq_ssl.generation.edit_generator import EditGenerator

GRAMS = [("x",), ("b",), ("a", "new"), ("c",)]
EDITS = EditDictionary.of_counts(Counter(GRAMS), 10, 2, Transforms.of(english_suffixes(), GROUPS))
Scores = list[dict[str, float]]
"""For the start and each token, the logits of some labels. Other labels have -30."""
NONE = -30.0


class Logits(NamedTuple):
    edits: torch.Tensor
    errors: torch.Tensor | None


def dictionary(words: str = "a b c d e x") -> OovDictionary:
    found = OovDictionary()
    for word in words.split():
        found.add_symbol(word)
    return found


class FakeTagger:
    """A tagger that computes scores by a function of the words of a sentence or window."""

    def __init__(
        self,
        words: OovDictionary,
        scores: Callable[[list[str]], Scores],
        errors: Callable[[list[str]], Sequence[float]] | None = None,
        positions: int = 512,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.words, self.scores, self.errors, self.dtype = words, scores, errors, dtype
        self.subwords = None
        self.max_subwords = positions - 2
        self.seen: list[list[str]] = []
        self.shapes: list[tuple[int, ...]] = []

    def eval(self) -> None:
        pass

    def __call__(self, src_tokens: torch.Tensor, src_lengths: torch.Tensor) -> Logits:
        self.shapes.append(tuple(src_tokens.shape))
        rows: Scores = []
        errors: list[float] = []
        for row, length in zip(src_tokens.tolist(), src_lengths.tolist(), strict=True):
            assert row[0] == 0
            assert row[length - 1] == 2
            assert set(row[length:]) <= {1}
            assert not {1, 2} & set(row[: length - 1])
            sentence = [self.words[one] for one in row[1 : length - 1]]
            self.seen.append(sentence)
            rows += self.scores(sentence)
            errors += self.errors(sentence) if self.errors else []
        edits = torch.full((len(rows), len(EDITS.labels)), NONE)
        for at, one in enumerate(rows):
            for name, value in one.items():
                edits[at, EDITS.names.index(name)] = value
        return Logits(edits.to(self.dtype), torch.tensor(errors) if self.errors else None)


def sure(labels: dict[str, str]) -> Callable[[list[str]], Scores]:
    """Return a score function with an edit for each word in `labels`. Other words are kept."""
    return lambda words: [{labels.get(word, "KEEP"): 0.0} for word in ["<s>", *words]]


def by_sentence(edits: dict[str, str]) -> Callable[[list[str]], Scores]:
    """Return a score function with labels, separated by spaces, for each sentence in `edits`."""

    def scores(words: list[str]) -> Scores:
        kept = " ".join(["KEEP"] * (len(words) + 1))
        return [{name: 0.0} for name in edits.get(" ".join(words), kept).split()]

    return scores


def batch(words: OovDictionary, *sentences: str) -> dict[str, Any]:
    """Return a batch of sentences as the task collates it, padded on the right."""
    rows = [
        torch.cat([torch.tensor([words.bos()]), words.encode_line(one, add_if_not_exist=False)])
        for one in sentences
    ]
    padded = torch.nn.utils.rnn.pad_sequence([*map(torch.Tensor.long, rows)], True, words.pad())
    return {"net_input": {"src_tokens": padded, "src_lengths": torch.tensor([*map(len, rows)])}}


def corrected(
    *models: FakeTagger,
    sentences: Sequence[str],
    weights: Sequence[float] | None = None,
    history: bool = False,
    **search: Any,
) -> list[dict[str, Any]]:
    """Correct sentences. Return the hypotheses, with their `text`."""
    words = models[0].words
    rounds = EditGenerator(models, words, EDITS, CorrectionSearch(**search), weights, history)
    found = rounds.generate(models, batch(words, *sentences))
    assert all(len(one) == 1 for one in found)
    return [{**one, "text": words.string(one["tokens"])} for (one,) in found]
