"""Scorers based on left-to-right and masked language models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.data.id_batches import pad_rows, padded_batches, start_id, token_ids
from fairseq_ssl.errors import DataError, UsageError, library_errors
from fairseq_ssl.inference.loading import (
    LoadedModels,
    load_scoring_models,
    set_threads,
    torch_device,
)
from fairseq_ssl.inference.scoring import Scored, ScoringConfig, TokenPair
from fairseq_ssl.io.text_files import path_list
from fairseq_ssl.text.vocabulary import read_entries

LogProbabilities = NDArray[np.float64]
PENALTY = 0.8
"""Exponent alpha of the length penalty in PenLP (Lau et al., 2020)."""


def by_length(
    log_probabilities: LogProbabilities, lengths: LogProbabilities, penalty: float = 1.0
) -> LogProbabilities:
    """Normalize log P by length ** penalty, as in fairseq-generate. A length of 0 counts as 1."""
    return log_probabilities / np.maximum(lengths, 1) ** penalty


def slor(
    log_probabilities: LogProbabilities, unigrams: LogProbabilities, lengths: LogProbabilities
) -> LogProbabilities:
    """Return the syntactic log-odds ratio, SLOR: (log P - log Pu) / length.

    Pu is the unigram probability (Pauls and Klein, 2012). A length of 0 counts as 1.
    """
    return (log_probabilities - unigrams) / np.maximum(lengths, 1)


def penalized(log_probabilities: LogProbabilities, lengths: LogProbabilities) -> LogProbabilities:
    """Return PenLP (Lau et al., 2020): log P divided by ((5 + length) / (5 + 1)) ** 0.8."""
    return log_probabilities / ((5.0 + lengths) / (5.0 + 1.0)) ** PENALTY


def unigram_log_probabilities(counts: LogProbabilities) -> LogProbabilities:
    """Return the add-one-smoothed unigram log-probability of each symbol [symbols]."""
    smoothed = counts + 1.0
    return np.asarray(np.log(smoothed / smoothed.sum()))


class Special(NamedTuple):
    """Special token ids of a masked language model."""

    start: int
    end: int
    pad: int
    unknown: int
    mask: int


class FairseqModels:
    """Masked language models trained with fairseq's masked_lm task."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.loaded = load_scoring_models(scoring, worker)
        self.dictionary = self.loaded.task.source_dictionary
        words = self.dictionary
        self.special = Special(
            words.bos(), words.eos(), words.pad(), words.unk(), int(self.loaded.task.mask_idx)
        )

    def rows(self, sentences: Sequence[list[str]]) -> list[list[int]]:
        """Return the dictionary ids of each sentence, without start and end tokens."""
        return [token_ids(self.dictionary, sentence) for sentence in sentences]

    def longest(self) -> int:
        """Return the maximum sentence length in tokens, including start and end tokens."""
        return self.loaded.longest()

    def states(self, block: Any) -> Any:
        """Return the last hidden states [rows, time, dim] of the first model.

        Args:
            block: ids [rows, time] of sentences with start and end tokens.
        """
        return self.loaded.models[0](block, features_only=True)[0]

    def scores(self, model: Any, block: Any, masked: Any) -> Any:
        """Return logits [tokens, symbols] for the masked tokens.

        Args:
            model: a model of the ensemble.
            block: ids [rows, time] of sentences with start and end tokens.
            masked: [rows, time], True for the tokens to score.
        """
        return model(block, masked_tokens=masked)[0]


class FolderModels:
    """Masked language models in Hugging Face folders, with the tokenizer of the first model."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        import torch

        set_threads(scoring.threads)
        folders = path_list(scoring.models)
        self.folder = folders[0]
        self.tokenizer = pretrained.load_tokenizer(self.folder)
        symbols = self.tokenizer.get_vocab()
        for folder in folders[1:]:
            if pretrained.load_tokenizer(folder).get_vocab() != symbols:
                raise DataError(
                    f"{folder} and {folders[0]} have different vocabularies. The models of "
                    "an ensemble must have the same vocabulary."
                )
        device = torch_device(scoring.device, worker)
        dtype = torch.float16 if scoring.fp16 else torch.float32
        models = [pretrained.load_model(folder, has_head=True) for folder in folders]
        self.loaded = LoadedModels(
            [model.to(device=device, dtype=dtype) for model in models], None, device
        )
        tokenizer = self.tokenizer
        if tokenizer.mask_token_id is None:
            raise DataError(
                f"The tokenizer in {folders[0]} has no mask token. Expected the tokenizer "
                "of a masked language model."
            )
        self.special = Special(
            *pretrained.ends(tokenizer),
            tokenizer.pad_token_id,
            tokenizer.unk_token_id,
            tokenizer.mask_token_id,
        )

    def rows(self, sentences: Sequence[list[str]]) -> list[list[int]]:
        """Join the tokens of each sentence with spaces, tokenize the text and return the ids."""
        if not sentences:
            return []
        texts = [" ".join(sentence) for sentence in sentences]
        with library_errors(f"The tokenizer in {self.folder} cannot tokenize a sentence"):
            ids: list[list[int]] = self.tokenizer(
                texts, add_special_tokens=False, return_attention_mask=False, verbose=False
            )["input_ids"]
        return ids

    def longest(self) -> int:
        """Return the maximum sentence length in tokens, including start and end tokens."""
        return min(pretrained.longest(model) for model in self.loaded.models)

    def states(self, block: Any) -> Any:
        """Return the last hidden states [rows, time, dim] of the first model."""
        model = self.loaded.models[0].base_model
        return model(block, attention_mask=self._attention_mask(block)).last_hidden_state

    def scores(self, model: Any, block: Any, masked: Any) -> Any:
        """Return logits [tokens, symbols] for the masked tokens."""
        return model(block, attention_mask=self._attention_mask(block)).logits[masked]

    def _attention_mask(self, block: Any) -> Any:
        return block.ne(self.special.pad).long()


MaskedModels = FairseqModels | FolderModels


def masked_models(scoring: ScoringConfig, worker: int) -> MaskedModels:
    """Load masked language models: Hugging Face folders or fairseq checkpoints, but not both."""
    folders = [Path(path).is_dir() for path in scoring.models]
    if any(folders) and not all(folders):
        raise UsageError(
            "Some masked models are Hugging Face folders and some are fairseq checkpoints. "
            "The models of an ensemble must have the same vocabulary. Score with each kind "
            "separately."
        )
    return FolderModels(scoring, worker) if any(folders) else FairseqModels(scoring, worker)


class MaskedStates:
    """Sentence encoder that averages the hidden states of a masked language model."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.scoring = scoring
        self.masked = masked_models(scoring, worker)

    def means(self, sentences: Sequence[list[str]]) -> Any:
        """Return the mean last-layer hidden state of each sentence [sentences, dim].

        Start and end tokens are excluded. Long sentences are truncated to the model's maximum
        length. The mean of an empty sentence is 0. The result is None if there are no sentences.
        """
        max_length = self.masked.longest() - 2
        rows = [row[:max_length] for row in self.masked.rows(sentences)]
        sizes = [len(row) + 2 for row in rows]
        means: Any = None
        for batch in padded_batches(sizes, self.scoring.max_tokens):
            batch_means = self._batch([rows[index] for index in batch])
            if means is None:
                means = np.zeros((len(rows), batch_means.shape[1]))
            means[batch] = batch_means
        return means

    def _batch(self, rows: list[list[int]]) -> Any:
        import torch

        special, device = self.masked.special, self.masked.loaded.device
        sentences = [[special.start, *row, special.end] for row in rows]
        block = pad_rows(sentences, special.pad).to(device)
        lengths = torch.tensor(list(map(len, rows)), device=device)[:, None]
        positions = torch.arange(block.shape[1], device=device)
        words = (positions > 0) & (positions <= lengths)
        with torch.inference_mode():
            states = self.masked.states(block).double()
        sums = (states * words[..., None]).sum(1)
        return (sums / lengths.clamp(min=1)).cpu().numpy()


class LanguageModelScorer:
    """Scorer for translations, based on left-to-right language models trained with fairseq."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.scoring = scoring
        self.loaded = load_scoring_models(scoring, worker)
        self.dictionary = self.loaded.task.target_dictionary
        self.begin = start_id(self.loaded.task)
        counts = symbol_counts(self.dictionary, scoring.unigrams)
        self.unigrams = unigram_log_probabilities(counts)

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return log P / length and SLOR of each translation, and the token counts.

        The end symbol is included in log P / length and excluded from SLOR.
        """
        ids = [token_ids(self.dictionary, target) for _, target in pairs]
        rows, unknown, cut = _truncate(ids, self.dictionary.unk(), self.loaded.longest() - 1)
        lengths = np.array([len(row) for row in rows], np.float64)
        words, end = np.zeros(len(rows)), np.zeros(len(rows))
        sizes = [len(row) + 1 for row in rows]
        for batch in padded_batches(sizes, self.scoring.max_tokens):
            words[batch], end[batch] = self._batch([rows[index] for index in batch])
        unigrams = np.array([self.unigrams[np.array(row, np.intp)].sum() for row in rows])
        values = by_length(words + end, lengths + 1), slor(words, unigrams, lengths)
        return _scored(values, lengths, unknown, cut)

    def _batch(self, rows: list[list[int]]) -> tuple[Any, Any]:
        """Return log P of each sentence's words and log P of its end symbol, both [sentences]."""
        import torch

        eos, pad = self.dictionary.eos(), self.dictionary.pad()
        target = pad_rows([[*row, eos] for row in rows], pad).to(self.loaded.device)
        previous = target.roll(1, 1)
        previous[:, 0] = self.begin
        lengths = torch.tensor([len(row) + 1 for row in rows], device=self.loaded.device)
        is_padding = torch.arange(target.size(1), device=lengths.device) >= lengths[:, None]
        by_model = []
        with torch.inference_mode():
            for model in self.loaded.models:
                output = model(previous, src_lengths=lengths)
                scores = model.get_normalized_probs(output, True, {"target": target})
                by_model.append(scores.gather(-1, target[..., None])[..., 0].float())
            tokens = self.loaded.average(by_model).masked_fill(is_padding, 0.0).double()
            end = tokens.gather(1, lengths[:, None] - 1)[:, 0]
            return (tokens.sum(1) - end).cpu().numpy(), end.cpu().numpy()


class MaskedModelScorer:
    """Scorer for translations, based on pseudo-log-likelihoods of masked language models."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.scoring = scoring
        self.masked = masked_models(scoring, worker)

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return log P / length and PenLP of each translation, and the token counts.

        log P is the sum of the log-probabilities of the tokens, each masked in turn. Start and end
        symbols are excluded.
        """
        ids = self.masked.rows([target for _, target in pairs])
        rows, unknown, cut = _truncate(ids, self.masked.special.unknown, self.masked.longest() - 2)
        lengths = np.array([len(row) for row in rows], np.float64)
        sums = np.zeros(len(rows))
        for sentences, values in self._token_scores(rows):
            np.add.at(sums, sentences, values)
        values = by_length(sums, lengths), penalized(sums, lengths)
        return _scored(values, lengths, unknown, cut)

    def _token_scores(self, rows: list[list[int]]) -> Iterator[tuple[Any, Any]]:
        """Yield the sentence index and the log-probability of each token, one batch at a time."""
        order = sorted(
            (index for index, row in enumerate(rows) if row), key=lambda index: -len(rows[index])
        )
        lengths = np.array([len(rows[index]) for index in order], np.intp)
        sentences = np.repeat(np.arange(len(order)), lengths)
        positions = np.arange(len(sentences)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        begin = 0
        while begin < len(sentences):
            size = lengths[sentences[begin]] + 2
            end = begin + max(1, self.scoring.max_tokens // int(size))
            batch = sentences[begin:end]
            block = [rows[order[number]] for number in range(batch[0], batch[-1] + 1)]
            values = self._batch(block, batch - batch[0], positions[begin:end])
            yield np.array(order)[batch], values
            begin = end

    def _batch(self, rows: list[list[int]], which: Any, where: Any) -> Any:
        """Return the log-probability of each token [tokens], masked in a copy of its sentence.

        Args:
            rows: ids of the sentences.
            which: [tokens], index of each token's sentence in `rows`.
            where: [tokens], position of each token in its sentence.
        """
        import torch

        special, device = self.masked.special, self.masked.loaded.device
        sentences = [[special.start, *row, special.end] for row in rows]
        padded = pad_rows(sentences, special.pad).to(device)
        block = padded[torch.from_numpy(which).to(device)]
        masked = torch.zeros_like(block, dtype=torch.bool)
        masked.scatter_(1, torch.from_numpy(where).to(device)[:, None] + 1, True)
        tokens = block[masked]
        block = block.masked_fill(masked, special.mask)
        by_model = []
        with torch.inference_mode():
            for model in self.masked.loaded.models:
                scores = self.masked.scores(model, block, masked).float()
                logits = scores.gather(1, tokens[:, None])[:, 0]
                by_model.append(logits - scores.logsumexp(1))
            return self.masked.loaded.average(by_model).double().cpu().numpy()


def symbol_counts(dictionary: Any, path: str | Path | None) -> Any:
    """Return the count of each symbol [symbols], from a file or from the dictionary.

    Raise DataError if the counts in the dictionary are all equal, or if the file contains counts
    for none of the dictionary's symbols.
    """
    counts = np.zeros(len(dictionary))
    if path is None:
        counts[:] = dictionary.count
        counts[: dictionary.nspecial] = 0
        if len(set(counts[dictionary.nspecial :].tolist())) < 2:
            raise DataError(
                "SLOR needs token counts, but all counts in the language model's dictionary are "
                "equal. Set `unigrams` to a file of tokens and counts, such as the dict.txt that "
                "fairseq-preprocess writes."
            )
        return counts
    for token, count in read_entries(path):
        if token in dictionary:
            counts[dictionary.index(token)] = count
    if not counts.any():
        raise DataError(
            f"{path} contains no count above 0 for a token of the language model's dictionary. "
            "Expected counts of its tokens."
        )
    return counts


def _scored(
    values: Sequence[LogProbabilities], lengths: LogProbabilities, unknown: int, cut: int
) -> Scored:
    rows = list(zip(*(value.tolist() for value in values), strict=True))
    return Scored(rows, int(lengths.sum()), unknown, cut)


def _truncate(
    rows: list[list[int]], unknown: int, max_length: int
) -> tuple[list[list[int]], int, int]:
    """Truncate rows. Also return the counts of unknown ids and of rows that were too long."""
    truncated = [row[:max_length] for row in rows]
    count = sum(row.count(unknown) for row in truncated)
    return truncated, count, sum(len(row) > max_length for row in rows)
