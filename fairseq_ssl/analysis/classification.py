"""Text classification with a trained model, and the windows that a label depends on."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl.checkpoints.files import read_checkpoint, task_options
from fairseq_ssl.data.two_view_dataset import (
    PIECES,
    VIEWS_FILE,
    WORDS,
    TwoViewDataset,
    load_segmenter,
)
from fairseq_ssl.errors import DataError, FairseqSslError, UsageError
from fairseq_ssl.inference.loading import load_models
from fairseq_ssl.io.jobs import Chunks, JobState, ProgressFactory, run_job, silent_progress
from fairseq_ssl.io.outputs import file_fingerprint
from fairseq_ssl.io.text_files import parse_json
from fairseq_ssl.modules.window_classifiers import Imitators
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.labeled_text import word_view
from fairseq_ssl.text.subwords.sentencepiece_model import SentencepieceModel

BATCH = 64
"""Texts of a batch."""
BLOCK = 4096
"""Lines that are read, sorted by length and written at a time."""
SETTINGS = {"tokenizer": str, "lower": bool, "drop_unknown": bool}
"""The tokenization of the texts, as written by `prepare_folder`."""


@dataclass(frozen=True)
class Window:
    """Consecutive subwords, and their weight for the label."""

    text: str
    weight: float
    """Decrease of the label's margin over the second best label, in z', without the window."""


@dataclass(frozen=True)
class Prediction:
    """The label of a text."""

    label: str
    probabilities: dict[str, float]
    windows: tuple[Window, ...] = ()
    """The windows with the largest weights, for models with imitators."""


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

    def check_windows(self, windows: int) -> None:
        """Reject a number of windows if there are no imitators."""
        if windows and not self.has_imitators:
            raise UsageError("`windows` needs a model with imitators.")

    def split(self, name: str) -> TwoViewDataset:
        """Return the texts of a split of the data folder, in its order."""
        try:
            dataset: TwoViewDataset = self.task.unlabeled(name, self._views())
        except FairseqSslError:
            raise
        except FileNotFoundError as error:
            raise DataError(str(error)) from None
        except Exception as error:  # fairseq raises many types for a damaged index
            raise self._unread(f"{error!r}.") from error
        return dataset

    def _unread(self, error: Exception | str) -> DataError:
        return DataError(
            f"{self.folder} has texts in files that cannot be read: {error} Run `fairseq-ssl "
            "classify prepare` again."
        )

    def texts(self, lines: Sequence[str]) -> TwoViewDataset:
        """Tokenize texts as those of the data folder."""
        settings = self._settings()
        if settings["lower"]:
            lines = [line.lower() for line in lines]
        known = set(self.task.source_dictionary.symbols) if settings["drop_unknown"] else None
        words = word_view(lines, load_segmenter(settings["tokenizer"]), known)
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
        """Return the label of each text, and the windows with the largest weights."""
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
                f"{path} cannot be read. Expected a folder written by `fairseq-ssl classify "
                "prepare`, which stores the tokenization of the texts in it."
            ) from None
        return found

    def _batches(
        self, dataset: TwoViewDataset, first: int, count: int, batch_size: int
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, Tensor]]]:
        """Yield batches of texts of similar lengths: their ids and inputs."""
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
                raise self._unread("an id that is not in dict.txt.")

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


@dataclass(frozen=True)
class LabelSummary:
    """The file of a teacher's labels."""

    signature: Signature
    path: Path
    lines: int


def label_split(
    classifier: TextClassifierPipeline,
    model: Path,
    output: Path,
    split: str = "unlabeled",
    *,
    shard: tuple[int, int] = (1, 1),
    batch_size: int = BATCH,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> LabelSummary | None:
    """Write the class probabilities of a split. Return None if an earlier run has written them.

    An interrupted run resumes.

    Args:
        classifier: the loaded model
        model: its checkpoint
        output: folder for ``SPLIT.npy``, probabilities in half precision [lines, classes]
        split: split of the data folder
        shard: (i, n) for the i-th of n parts of the lines, written to ``SPLIT.I-of-N.npy``
        batch_size: texts of a batch
        overwrite: replace the output
        progress: called with the number of lines done
    """
    part, parts = shard
    dataset = classifier.split(split)
    first, last = (len(dataset) * i // parts for i in (part - 1, part))
    if first == last:
        raise UsageError(f"`shard` {part}/{parts} has no lines: {split} has {len(dataset)}.")
    name = split if parts == 1 else f"{split}.{part}-of-{parts}"
    path = output / f"{name}.npy"
    params = {
        "split": split,
        "model": [str(model), *file_fingerprint(model)],
        "lines": [first, last],
    }
    signature = Signature("classify-label", {**params, "classes": classifier.task.classes})

    def chunks(state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        done = int(state.get("done", 0))
        report = progress("classify label", "lines", last - first)
        while done < last - first:
            count = min(BLOCK, last - first - done)
            rows = classifier.probabilities(dataset, first + done, count, batch_size)
            header = b"" if done else _npy_header(last - first, rows.shape[1])
            done += count
            report(count)
            yield [header + rows.astype(np.float16).tobytes()], {"done": done}

    written = run_job([path], params, chunks, lambda: signature, overwrite=overwrite)
    return LabelSummary(signature, path, last - first) if written else None


def _npy_header(lines: int, classes: int) -> bytes:
    """Return the header of a ``.npy`` file."""
    file = io.BytesIO()
    form = {"descr": "<f2", "fortran_order": False, "shape": (lines, classes)}
    np.lib.format.write_array_header_1_0(file, form)
    return file.getvalue()


def predict_lines(
    classifier: TextClassifierPipeline,
    lines: Iterable[str],
    *,
    labeled: bool = False,
    windows: int = 0,
    batch_size: int = BATCH,
    name: str = "stdin",
) -> Iterator[str]:
    """Yield for each text its label, the class probabilities and the top windows, tab-separated.

    Args:
        classifier: the loaded model
        lines: texts
        labeled: each line is a label, a tab and a text
        windows: number of windows that the label depends on most, for models with imitators
        batch_size: texts of a batch
        name: name of the file in errors
    """
    classifier.check_windows(windows)
    count, lines = 0, iter(lines)
    while block := list(islice(lines, BLOCK)):
        if labeled:
            for number, line in enumerate(block, count + 1):
                if "\t" not in line:
                    raise DataError(f"{name}:{number} has no tab after a label.")
        count += len(block)
        texts = [line.partition("\t")[2] if labeled else line for line in block]
        for one in classifier.classify(texts, windows, batch_size):
            probabilities = (f"{label}={value:.4f}" for label, value in one.probabilities.items())
            columns = [one.label, " ".join(probabilities)]
            if windows:
                shown = (f"{window.text} ({window.weight:.3f})" for window in one.windows)
                columns.append(" | ".join(shown))
            yield "\t".join(columns)
