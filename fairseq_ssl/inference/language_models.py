"""Language models that score sentences: left-to-right and masked, of fairseq or transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.loading import (
    LoadedModels,
    load_scoring_models,
    pad_rows,
    padded_batches,
    token_ids,
    torch_device,
)
from fairseq_ssl.inference.scoring import (
    LANGUAGE_MODEL,
    Scored,
    Scorer,
    ScoringConfig,
    TokenLists,
    TokenPair,
    by_length,
    penalised,
    slor,
    unigram_log_probabilities,
)
from fairseq_ssl.text.vocabulary import read_entries


class Special(NamedTuple):
    """The ids of what is no word."""

    start: int
    end: int
    pad: int
    unknown: int
    mask: int


class MaskedModels(Protocol):
    """One model, or several that have their symbols in common."""

    special: Special
    loaded: LoadedModels

    def rows(self, sentences: Sequence[TokenLists]) -> list[list[int]]:
        """Return sentences as ids, without those of start and end."""

    def longest(self) -> int:
        """Return how many tokens a sentence may have, start and end counted."""

    def states(self, block: Any) -> Any:
        """Return the first model's last states [rows, time, dim] of ids [rows, time]."""

    def scores(self, model: Any, block: Any, masked: Any) -> Any:
        """Return a model's scores [tokens, symbols] where `masked` [rows, time] is true."""


def masked_models(scoring: ScoringConfig, worker: int) -> MaskedModels:
    """Load the models: folders are transformers', and files fairseq's."""
    folders = [path.is_dir() for path in scoring.models]
    if any(folders) and not all(folders):
        raise UsageError(
            "Some masked models are folders and some checkpoints of fairseq's; they have no "
            "symbols in common. Score with each kind by itself."
        )
    return FolderModels(scoring, worker) if any(folders) else FairseqModels(scoring, worker)


class FairseqModels:
    """Models of fairseq's task masked_lm."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.loaded = load_scoring_models(scoring, worker)
        self.dictionary = self.loaded.task.source_dictionary
        own = self.dictionary
        self.special = Special(
            own.bos(), own.eos(), own.pad(), own.unk(), int(self.loaded.task.mask_idx)
        )

    def rows(self, sentences: Sequence[TokenLists]) -> list[list[int]]:
        """Look tokens up in the dictionary."""
        return [token_ids(self.dictionary, sentence) for sentence in sentences]

    def longest(self) -> int:
        """Return how many tokens a sentence may have, start and end counted."""
        return self.loaded.longest()

    def states(self, block: Any) -> Any:
        """Return the first model's last states [rows, time, dim] of ids [rows, time]."""
        return self.loaded.models[0](block, features_only=True)[0]

    def scores(self, model: Any, block: Any, masked: Any) -> Any:
        """Return a model's scores [tokens, symbols] where `masked` [rows, time] is true."""
        return model(block, masked_tokens=masked)[0]


class FolderModels:
    """Models of transformers', which cut plain text by themselves."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        import torch

        torch.set_num_threads(scoring.threads)
        self.tokenizer = pretrained.load_tokenizer(scoring.models[0])
        symbols = self.tokenizer.get_vocab()
        for folder in scoring.models[1:]:
            if pretrained.load_tokenizer(folder).get_vocab() != symbols:
                raise DataError(f"{folder} has other symbols than {scoring.models[0]}.")
        device = torch_device(scoring.device, worker)
        kind = torch.float16 if scoring.fp16 else torch.float32
        models = [pretrained.load_model(folder, has_head=True) for folder in scoring.models]
        self.loaded = LoadedModels(
            [one.to(device=device, dtype=kind) for one in models], None, device
        )
        own = self.tokenizer
        if own.mask_token_id is None:
            raise DataError(f"The tokenizer in {scoring.models[0]} has no token for a mask.")
        self.special = Special(
            *pretrained.ends(own), own.pad_token_id, own.unk_token_id, own.mask_token_id
        )

    def rows(self, sentences: Sequence[TokenLists]) -> list[list[int]]:
        """Cut plain text, of which the words came apart."""
        if not sentences:
            return []
        texts = [" ".join(sentence) for sentence in sentences]
        found: list[list[int]] = self.tokenizer(
            texts, add_special_tokens=False, return_attention_mask=False, verbose=False
        )["input_ids"]
        return found

    def longest(self) -> int:
        """Return how many tokens a sentence may have, start and end counted."""
        return min(pretrained.longest(model) for model in self.loaded.models)

    def states(self, block: Any) -> Any:
        """Return the first model's last states [rows, time, dim] of ids [rows, time]."""
        model = self.loaded.models[0].base_model
        return model(block, attention_mask=self._is_word(block)).last_hidden_state

    def scores(self, model: Any, block: Any, masked: Any) -> Any:
        """Return a model's scores [tokens, symbols] where `masked` [rows, time] is true."""
        return model(block, attention_mask=self._is_word(block)).logits[masked]

    def _is_word(self, block: Any) -> Any:
        return block.ne(self.special.pad).long()


class MaskedStates:
    """A masked language model, asked for its states."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.scoring = scoring
        self.masked = masked_models(scoring, worker)

    def means(self, sentences: Sequence[list[str]]) -> Any:
        """Return the mean state of each sentence's tokens, [sentences, dim], without the ends'.

        An empty sentence has 0, and a long one counts by its beginning.
        """
        most = self.masked.longest() - 2
        rows = [row[:most] for row in self.masked.rows(sentences)]
        sizes = [len(row) + 2 for row in rows]
        found: Any = None
        for batch in padded_batches(sizes, self.scoring.max_tokens):
            means = self._batch([rows[place] for place in batch])
            if found is None:
                found = np.zeros((len(rows), means.shape[1]))
            found[batch] = means
        return found

    def _batch(self, rows: list[list[int]]) -> Any:
        import torch

        special, device = self.masked.special, self.masked.loaded.device
        whole = [[special.start, *row, special.end] for row in rows]
        block = pad_rows(whole, special.pad).to(device)
        lengths = torch.tensor(list(map(len, rows)), device=device)[:, None]
        places = torch.arange(block.shape[1], device=device)
        words = (places > 0) & (places <= lengths)
        with torch.inference_mode():
            states = self.masked.states(block).double()
        sums = (states * words[..., None]).sum(1)
        return (sums / lengths.clamp(min=1)).cpu().numpy()


class LanguageModelScorer:
    """Scores sentences by models that write from left to right, fairseq's language_modeling."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.scoring = scoring
        self.loaded = load_scoring_models(scoring, worker)
        self.dictionary = self.loaded.task.target_dictionary
        begin = getattr(self.loaded.task.args, "add_bos_token", False)
        self.begin = self.dictionary.bos() if begin else self.dictionary.eos()
        counts = symbol_counts(self.dictionary, scoring.unigrams)
        self.unigrams = unigram_log_probabilities(counts)

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return log P / length, the end a token too, and SLOR, of the words alone, of each."""
        rows, unknown, cut = _rows(pairs, self.dictionary, self.loaded.longest() - 1)
        lengths = np.array([len(row) for row in rows], np.float64)
        words, end = np.zeros(len(rows)), np.zeros(len(rows))
        sizes = [len(row) + 1 for row in rows]
        for batch in padded_batches(sizes, self.scoring.max_tokens):
            words[batch], end[batch] = self._batch([rows[place] for place in batch])
        unigrams = np.array([self.unigrams[np.array(row, np.intp)].sum() for row in rows])
        values = by_length(words + end, lengths + 1), slor(words, unigrams, lengths)
        return Scored(
            list(zip(*(value.tolist() for value in values), strict=True)),
            int(lengths.sum()),
            unknown,
            cut,
        )

    def _batch(self, rows: list[list[int]]) -> tuple[Any, Any]:
        """Return log P of the words, and of the end after them, [sentences] each."""
        import torch

        eos, pad = self.dictionary.eos(), self.dictionary.pad()
        target = pad_rows([[*row, eos] for row in rows], pad).to(self.loaded.device)
        begun = target.roll(1, 1)
        begun[:, 0] = self.begin
        lengths = torch.tensor([len(row) + 1 for row in rows], device=self.loaded.device)
        each = []
        with torch.inference_mode():
            for model in self.loaded.models:
                written = model(begun, src_lengths=lengths)
                scores = model.get_normalized_probs(written, True, {"target": target})
                each.append(scores.gather(-1, target[..., None])[..., 0].float())
            whole = self.loaded.average(each).masked_fill(target == pad, 0.0).double()
            end = whole.gather(1, lengths[:, None] - 1)[:, 0]
            return (whole.sum(1) - end).cpu().numpy(), end.cpu().numpy()


class MaskedModelScorer:
    """Scores sentences by models of masked tokens, each token masked by itself."""

    def __init__(self, scoring: ScoringConfig, worker: int) -> None:
        self.scoring = scoring
        self.masked = masked_models(scoring, worker)

    def score(self, pairs: Sequence[TokenPair]) -> Scored:
        """Return log P / length and PenLP of each sentence; its two ends are not scored."""
        found = self.masked.rows([target for _, target in pairs])
        rows, unknown, cut = _cut(found, self.masked.special.unknown, self.masked.longest() - 2)
        lengths = np.array([len(row) for row in rows], np.float64)
        sums = np.zeros(len(rows))
        for places, values in self._masked(rows):
            np.add.at(sums, places, values)
        values = by_length(sums, lengths), penalised(sums, lengths, self.scoring.alpha)
        return Scored(
            list(zip(*(value.tolist() for value in values), strict=True)),
            int(lengths.sum()),
            unknown,
            cut,
        )

    def _masked(self, rows: list[list[int]]) -> Iterator[tuple[Any, Any]]:
        """Yield the score of each token where it is masked, and whose it is, batch by batch."""
        order = sorted(
            (place for place, row in enumerate(rows) if row), key=lambda p: -len(rows[p])
        )
        lengths = np.array([len(rows[place]) for place in order], np.intp)
        sentences = np.repeat(np.arange(len(order)), lengths)
        positions = np.arange(len(sentences)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        begin = 0
        while begin < len(sentences):
            size = lengths[sentences[begin]] + 2
            end = begin + max(1, self.scoring.max_tokens // int(size))
            some = sentences[begin:end]
            block = [rows[order[number]] for number in range(some[0], some[-1] + 1)]
            values = self._batch(block, some - some[0], positions[begin:end])
            yield np.array(order)[some], values
            begin = end

    def _batch(self, rows: list[list[int]], which: Any, where: Any) -> Any:
        """Return the score of the token at `where` of the sentence `which`, [tokens]."""
        import torch

        special, device = self.masked.special, self.masked.loaded.device
        ended = [[special.start, *row, special.end] for row in rows]
        whole = pad_rows(ended, special.pad).to(device)
        block = whole[torch.from_numpy(which).to(device)]
        masked = torch.zeros_like(block, dtype=torch.bool)
        masked[torch.arange(len(block)), torch.from_numpy(where).to(device) + 1] = True
        tokens = block[masked]
        block = block.masked_fill(masked, special.mask)
        each = []
        with torch.inference_mode():
            for model in self.masked.loaded.models:
                scores = self.masked.scores(model, block, masked).float()
                found = scores.gather(1, tokens[:, None])[:, 0]
                each.append(found if self.scoring.logits else found - scores.logsumexp(1))
            if self.scoring.logits:
                return torch.stack(each).mean(0).double().cpu().numpy()
            return self.masked.loaded.average(each).double().cpu().numpy()


def load_language_model_scorer(scoring: ScoringConfig, worker: int) -> Scorer:
    """Return a scorer of sentences."""
    if scoring.kind == LANGUAGE_MODEL:
        return LanguageModelScorer(scoring, worker)
    return MaskedModelScorer(scoring, worker)


def symbol_counts(dictionary: Any, path: Path | None) -> Any:
    """Return how often each symbol was seen, [symbols]: by a file, or else by the dictionary."""
    counts = np.zeros(len(dictionary))
    if path is None:
        counts[:] = dictionary.count
        counts[: dictionary.nspecial] = 0
        if len(set(counts[dictionary.nspecial :].tolist())) < 2:
            raise DataError(
                "All counts in the dictionary of the language model are equal, so SLOR has no "
                "frequencies. Set `unigrams` to a file of tokens and counts, such as a dict.txt "
                "that fairseq-preprocess counted in the text."
            )
        return counts
    for token, count in read_entries(path):
        if token in dictionary:
            counts[dictionary.index(token)] = count
    if not counts.any():
        raise DataError(
            f"{path} has no token that the language model knows. Is it of its subwords?"
        )
    return counts


def _rows(
    pairs: Sequence[TokenPair], dictionary: Any, most: int
) -> tuple[list[list[int]], int, int]:
    """Return the translations as numbers, how many are unknown, and how many are cut."""
    rows = [token_ids(dictionary, target) for _, target in pairs]
    return _cut(rows, dictionary.unk(), most)


def _cut(rows: list[list[int]], unknown: int, most: int) -> tuple[list[list[int]], int, int]:
    """Return the beginnings of the rows, how many ids are unknown, and how many rows are cut."""
    count = sum(row.count(unknown) for row in rows)
    return [row[:most] for row in rows], count, sum(len(row) > most for row in rows)
