"""Corrections by the package gector 1.2, for `oracle.py` and `make_fixture.py`.

Import this module in an environment with gector, transformers 4.57 and torch.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class Correction(NamedTuple):
    """A corrected sentence, and how close its decisions were."""

    text: str
    margin: float
    """Smallest difference that decided, in all rounds: between the two best labels of a token, or
    between a probability and the min error probability."""
    length: int
    """Max number of subwords in a round."""
    rounds: int
    recurs: bool
    """True if a round restores an earlier version of the sentence."""


class Gector:
    """A model of GECToR, and the table of verb forms."""

    def __init__(self, folder: Path) -> None:
        """Load a checkpoint of gotutiyan/gector, or a file `.th` of grammarly/gector.

        The folder has verb-form-vocab.txt. The name of a file `.th` is NAME_FIX_VERSION.th, and the
        folder also has output_vocabulary, and the encoder in the folder encoder.
        """
        os.environ["HF_HUB_OFFLINE"] = "1"
        gector = import_module("gector")
        tokenizers = import_module("transformers").AutoTokenizer
        self._module = import_module("gector.predict")
        encoder = folder / "encoder"
        weights = next(folder.glob("*.th"), None)
        if weights is None:
            own = {"model_id": str(encoder)} if encoder.is_dir() else {}
            self.model = gector.GECToR.from_pretrained(folder, **own).eval()
            self.tokenizer = tokenizers.from_pretrained(folder)
        else:
            name, fix, *_ = weights.stem.split("_")
            self.model = gector.GECToR.from_official_pretrained(
                str(weights), int(fix), str(encoder), str(folder / "output_vocabulary")
            ).eval()
            self.tokenizer = tokenizers.from_pretrained(
                encoder, add_prefix_space=name in ("roberta", "deberta")
            )
            if int(fix):
                self.tokenizer.add_special_tokens({"additional_special_tokens": ["$START"]})
        self.encode, self.decode = gector.load_verb_dict(str(folder / "verb-form-vocab.txt"))

    def correct(
        self, sentences: list[str], keep_confidence: float, min_error_prob: float, batch: int = 32
    ) -> list[Correction]:
        """Return the corrected sentences. The order of the sentences does not change."""
        recorder = _Recorder(self.model, self._module, len(sentences))
        with contextlib.redirect_stdout(sys.stderr), recorder:
            texts = self._module.predict(
                self.model,
                self.tokenizer,
                sentences,
                self.encode,
                self.decode,
                keep_confidence=keep_confidence,
                min_error_prob=min_error_prob,
                batch_size=batch,
            )
        return [
            Correction(*row)
            for row in zip(
                texts,
                recorder.margins,
                recorder.lengths,
                map(len, recorder.versions),
                recorder.recurs,
                strict=True,
            )
        ]


class _Recorder:
    """Context in which the decisions of each sentence are recorded."""

    def __init__(self, model: Any, module: Any, sentences: int) -> None:
        self.margins = [1.0] * sentences
        self.lengths = [0] * sentences
        self.recurs = [False] * sentences
        self.versions: list[list[list[str]]] = [[] for _ in range(sentences)]
        self._model, self._module = model, module
        self._predict, self._round = model.predict, module._predict
        self._unfinished = list(range(sentences))
        self._round_margins: list[float] = []

    def __enter__(self) -> None:
        self._model.predict, self._module._predict = self._record_batch, self._record_round

    def __exit__(self, *_: object) -> None:
        del self._model.predict
        self._module._predict = self._round

    def _record_round(
        self, model: Any, tokenizer: Any, words: list[list[str]], *options: Any
    ) -> Any:
        self._round_margins.clear()
        labels, finished = self._round(model, tokenizer, words, *options)
        encoded = tokenizer(
            words, is_split_into_words=True, add_special_tokens=not model.config.is_official_model
        )
        lengths = map(len, encoded["input_ids"])
        for index, version, margin, length in zip(
            self._unfinished, words, self._round_margins, lengths, strict=True
        ):
            self.margins[index] = min(self.margins[index], margin)
            self.lengths[index] = max(self.lengths[index], length)
            self.recurs[index] |= version in self.versions[index][:-1]
            self.versions[index].append(version)
        rows = zip(self._unfinished, finished, strict=True)
        self._unfinished = [index for index, is_finished in rows if not is_finished]
        return labels, finished

    def _record_batch(
        self, ids: Any, attention: Any, words: Any, keep_confidence: float, min_error_prob: float
    ) -> Any:
        outputs = self._predict(ids, attention, words, keep_confidence, min_error_prob)
        words = words.bool()
        if self._model.config.is_official_model:  # they do not count $START as a word
            words[:, 0] |= attention[:, 0].bool()
        best = outputs.probability_labels.topk(2).values
        margins = best[..., 0] - best[..., 1]
        if min_error_prob:
            margins = margins.minimum((best[..., 0] - min_error_prob).abs())
        smallest = margins.masked_fill(~words, 1).amin(-1)
        if min_error_prob:
            smallest = smallest.minimum((outputs.max_error_probability - min_error_prob).abs())
        self._round_margins += smallest.tolist()
        return outputs
