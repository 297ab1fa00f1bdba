"""Masked language models of fairseq or transformers: word probabilities, sentence vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fairseq_ssl.checkpoints import pretrained
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.loading import (
    LoadedModels,
    load_scoring_models,
    pad_rows,
    token_ids,
    torch_device,
)
from fairseq_ssl.inference.scoring import ScoringConfig, TokenLists
from fairseq_ssl.text.batches import padded_batches


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
