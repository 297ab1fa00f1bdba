"""Classify texts with a trained classifier, and show what weighed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.checkpoints.files import read_checkpoint, task_options
from fairseq_ssl.data.classification_folder import PIECES, VIEWS_FILE, WORDS, load_segmenter
from fairseq_ssl.data.two_view_dataset import TwoViewDataset
from fairseq_ssl.errors import DataError, FairseqSslError
from fairseq_ssl.inference.loading import load_models
from fairseq_ssl.io.text_files import parse_json
from fairseq_ssl.modules.imitators import Imitators
from fairseq_ssl.text.labeled_text import word_view
from fairseq_ssl.text.subwords.sentencepiece_model import SentencepieceModel

BATCH = 64
"""Texts at a time, by default."""
SETTINGS = {"cut": str, "lower": bool, "drop_unknown": bool}
"""What `classify prepare` notes of how it cut texts."""


@dataclass(frozen=True)
class Window:
    """Some subwords in a row, and how much they spoke for the label."""

    text: str
    weight: float
    """How much the label's lead over the next one, in z', falls without the window."""


@dataclass(frozen=True)
class Prediction:
    """What a classifier says of a text."""

    label: str
    probabilities: dict[str, float]
    windows: tuple[Window, ...] = ()
    """Those that weighed most, if there are imitators."""


class TextClassifierPipeline:
    """A trained expert, alone or with its imitators."""

    def __init__(self, model: Any, task: Any, folder: Path, device: str) -> None:
        self.model = model.to(device).eval()
        self.task = task
        self.folder = folder
        self.device = device
        self.has_imitators = hasattr(model, "alphas")

    @classmethod
    def load(cls, path: Path, data: Path, device: str = "cpu") -> TextClassifierPipeline:
        """Read a checkpoint; `data` is a data folder with the dictionaries of its training."""
        state = read_checkpoint(path)
        options = task_options(state)
        if options.get("classification_stage") in (None, "imitate"):
            raise DataError(
                f"{path} is not a text classifier. Expected a checkpoint of an expert, alone or "
                "with imitators (stage supervised or mixture)."
            )
        models, _, task = load_models([path], data=str(data))
        return cls(models[0], task, data, device)

    def split(self, name: str) -> TwoViewDataset:
        """Return the texts of a split of the data folder, in its order."""
        try:
            dataset: TwoViewDataset = self.task.unlabeled(name, self._views())
        except FairseqSslError:
            raise
        except FileNotFoundError as error:
            raise DataError(str(error)) from None
        except Exception as error:  # whatever fairseq stumbles over in an index
            raise self._unread(f"{error!r}.") from error
        return dataset

    def _unread(self, error: Exception | str) -> DataError:
        return DataError(
            f"{self.folder} has texts in files that can not be read: {error} Run `fairseq-ssl "
            "classify prepare` again."
        )

    def texts(self, lines: Sequence[str]) -> TwoViewDataset:
        """Cut texts as those of the data folder were cut."""
        settings = self._settings()
        if settings["lower"]:
            lines = [line.lower() for line in lines]
        known = set(self.task.source_dictionary.symbols) if settings["drop_unknown"] else None
        words = word_view(lines, load_segmenter(settings["cut"]), known)
        found = _Ids(self.task.source_dictionary, list(words))
        if not self.has_imitators:
            return self.task.inference_dataset(found, None)  # type: ignore[no-any-return]
        model = SentencepieceModel(self.folder / "pieces.model")
        cut = [" ".join(model.cut(line)) for line in lines]
        pieces = _Ids(self.task.piece_dictionary, cut)
        return self.task.inference_dataset(found, pieces)  # type: ignore[no-any-return]

    @torch.no_grad()
    def probabilities(
        self, dataset: TwoViewDataset, first: int, count: int, batch_size: int = BATCH
    ) -> NDArray[np.float32]:
        """Return p(y|X) of so many texts from the first on [texts, classes]."""
        found = np.empty((count, len(self.task.classes)), np.float32)
        for texts, inputs in self._batches(dataset, first, count, batch_size):
            logits = self.model(**inputs).float()
            found[texts - first] = logits.softmax(-1).cpu().numpy()
        return found

    @torch.no_grad()
    def classify(
        self, lines: Sequence[str], windows: int = 0, batch_size: int = BATCH
    ) -> list[Prediction]:
        """Return for each text its label, and the windows that weighed most."""
        dataset = self.texts(lines)
        found: dict[int, Prediction] = {}
        for texts, inputs in self._batches(dataset, 0, len(lines), batch_size):
            logits = self.model(**inputs).float()
            shown: list[tuple[Window, ...]] = [()] * len(texts)
            if windows and self.has_imitators:
                shown = self._windows(inputs["piece_tokens"], logits, windows)
            for text, row, some in zip(texts, logits.softmax(-1).tolist(), shown, strict=True):
                named = dict(zip(self.task.classes, row, strict=True))
                found[int(text)] = Prediction(max(named, key=named.__getitem__), named, some)
        return [found[number] for number in range(len(lines))]

    def _views(self) -> list[str]:
        return [WORDS, PIECES] if self.has_imitators else [WORDS]

    def _settings(self) -> dict[str, Any]:
        path = self.folder / VIEWS_FILE
        try:
            found: dict[str, Any] = parse_json(path.read_bytes())
            if not all(isinstance(found[key], kind) for key, kind in SETTINGS.items()):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{path} can not be read. Expected a folder that `fairseq-ssl classify prepare` "
                "made: texts are cut as it tells."
            ) from None
        return found

    def _batches(
        self, dataset: TwoViewDataset, first: int, count: int, batch_size: int
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, Tensor]]]:
        """Yield texts of like lengths and their inputs."""
        texts = np.arange(first, first + count)
        order = texts[np.argsort(-dataset.sizes[texts], kind="stable")]
        for start in range(0, count, batch_size):
            some = order[start : start + batch_size]
            try:
                batch = dataset.collater([dataset[int(text)] for text in some])["net_input"]
            except (IndexError, OSError, ValueError) as error:
                raise self._unread(error) from error
            self._check(batch)
            if self.device != "cpu":
                batch = utils.move_to_cuda(batch, device=torch.device(self.device))
            yield some, batch

    def _check(self, batch: dict[str, Tensor]) -> None:
        dictionaries = {"src_tokens": self.task.source_dictionary}
        if self.has_imitators:
            dictionaries["piece_tokens"] = self.task.piece_dictionary
        for name, dictionary in dictionaries.items():
            ids = batch[name]
            if int(ids.min()) < 0 or int(ids.max()) >= len(dictionary):
                raise self._unread("an id that dict.txt has not.")

    def _windows(self, pieces: Tensor, logits: Tensor, count: int) -> list[tuple[Window, ...]]:
        """Return of each text the windows that its label owes most to.

        A window's weight is what the label's lead over the second best loses if its imitator's
        mean is taken over the other windows.
        """
        best = logits.topk(2).indices
        found: list[list[Window]] = [[] for _ in pieces]
        weights = self.model.weights().tolist()
        number = 0
        for group in self.model.groups:
            if not isinstance(group, Imitators):
                return [()] * len(pieces)
            said = group(pieces)
            for window, scores in zip(group.windows, said.logits, strict=True):
                leads = leads_lost(scores.float().softmax(-1), said.texts, said.counts, best)
                self._gather(found, leads * weights[number], said.texts, pieces, window, count)
                number += 1
        order = [sorted(some, key=lambda one: -one.weight)[:count] for some in found]
        return [tuple(one for one in some if one.weight > 0) for some in order]

    def _gather(
        self,
        found: list[list[Window]],
        weights: Tensor,
        texts: Tensor,
        pieces: Tensor,
        window: int,
        count: int,
    ) -> None:
        """Add the heaviest windows of each text to what was found."""
        dictionary = self.task.piece_dictionary
        for text, tokens in enumerate(pieces):
            own = weights[texts == text]
            top = own.topk(min(count, len(own)))
            for weight, place in zip(top.values.tolist(), top.indices.tolist(), strict=True):
                inside = tokens[max(0, place - window) : place + window + 1]
                symbols = [dictionary[int(one)] for one in inside if one != dictionary.pad()]
                shown = "".join(symbols).replace("\u2581", " ").strip()
                found[text].append(Window(shown, weight))


def leads_lost(probabilities: Tensor, texts: Tensor, counts: Tensor, best: Tensor) -> Tensor:
    """Return how much of log p(first) - log p(second) each window brings to the mean [windows].

    Args:
        probabilities: of each window [windows, classes]
        texts: which text each is of [windows]
        counts: windows of each text [batch]
        best: the first and the second class of each text [batch, 2]
    """
    total = probabilities.new_zeros(len(counts), probabilities.size(1))
    total = total.index_add(0, texts, probabilities)
    without = (total[texts] - probabilities).clamp(min=1e-12)
    alone = (counts[texts] == 1).unsqueeze(1)
    without = torch.where(alone, torch.ones_like(without), without)
    lead = (total[texts].log() - without.log()).gather(1, best[texts])
    return lead[:, 0] - lead[:, 1]


class _Ids:
    """Lines as ids, each ended by </s>."""

    def __init__(self, dictionary: Any, lines: Sequence[str]) -> None:
        self._texts = [
            dictionary.encode_line(line, add_if_not_exist=False, append_eos=True) for line in lines
        ]
        self.sizes = np.array([len(text) for text in self._texts])

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> Tensor:
        found: Tensor = self._texts[number]
        return found
