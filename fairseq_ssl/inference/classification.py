"""Text classification with a trained model, and subword windows that explain its labels."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from numpy.typing import NDArray
from torch import Tensor

from fairseq_ssl._version import __version__
from fairseq_ssl.checkpoints.ensembles import load_models
from fairseq_ssl.checkpoints.files import read_checkpoint, task_options
from fairseq_ssl.data.classification_preparation import check_unlabeled
from fairseq_ssl.data.teacher_labels import npy_header
from fairseq_ssl.data.two_view_dataset import (
    PIECES,
    VIEWS_FILE,
    WORDS,
    TwoViewDataset,
    encode_lines,
    load_segmenter,
)
from fairseq_ssl.errors import DataError, FairseqSslError, UsageError, check_integer, check_positive
from fairseq_ssl.inference.loading import set_threads, torch_device
from fairseq_ssl.io.blocks import Span
from fairseq_ssl.io.executors import Executor, LocalExecutor, worker_number
from fairseq_ssl.io.fingerprints import content_digest, file_fingerprint
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.parts import JobFolder, PartFolder, Record, part_file
from fairseq_ssl.io.text_files import line_list, read_json
from fairseq_ssl.modules.window_classifiers import Imitators
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.labeled_text import word_view
from fairseq_ssl.text.subwords.sentencepiece_model import SentencepieceModel

logger = logging.getLogger(__name__)
BLOCK = 4096
"""Block size in lines. The texts of a block are sorted by length for batching."""
PART_SIZE = 2**15
"""Default number of lines per part. Parts are large, because training memory-maps all of them."""
SETTINGS = {"tokenizer": str, "lower": bool}
"""Types of the tokenization settings that `prepare_folder` writes."""


@dataclass(frozen=True)
class Window:
    """Consecutive subwords of a text, and their weight for the predicted label."""

    text: str
    weight: float
    """Decrease in log p(label) - log p(second-best label) if the window is removed, multiplied by
    the weight of its imitator."""


@dataclass(frozen=True)
class Prediction:
    """Predicted label and class probabilities of a text."""

    label: str
    probabilities: dict[str, float]
    """Probability of each label."""
    windows: tuple[Window, ...] = ()
    """Windows with the largest weights. Empty unless requested from a model with imitators."""


class TextClassifierPipeline:
    """Text classifier that consists of a trained expert, alone or with its imitators."""

    def __init__(
        self,
        model: Any,
        task: Any,
        path: str | Path,
        folder: str | Path,
        device: str,
        batch_size: int = 64,
    ) -> None:
        check_positive("batch_size", batch_size)
        self.batch_size = batch_size
        self.device = torch_device(device)
        self.model = model.to(self.device).eval()
        self.task = task
        self.path, self.folder = Path(path), Path(folder)
        self.has_imitators = hasattr(model, "alphas")
        limit = utils.resolve_max_positions(
            model.max_positions(), task.cfg.classification_max_length
        )
        if isinstance(limit, tuple):  # of the words and the subwords of a mixture
            limit = limit[0]
        max_length = None if limit is None else int(min(limit, sys.maxsize))
        task.cfg.classification_max_length = max_length

    @classmethod
    def load(
        cls, path: str | Path, data: str | Path, device: str = "cpu", batch_size: int = 64
    ) -> TextClassifierPipeline:
        """Load a classifier.

        Args:
            path: checkpoint of an expert, alone or with imitators.
            data: data folder with the dictionaries of the training data.
            device: ``cpu``, ``cuda``, or a GPU such as ``cuda:1``.
            batch_size: number of texts per batch.
        """
        options = task_options(read_checkpoint(path))
        if options.get("classification_stage") in (None, "imitate"):
            raise DataError(
                f"{path} is not a text classifier. Expected a checkpoint of an expert, alone or "
                "with imitators (stage supervised or mixture)."
            )
        models, _, task = load_models([path], data=str(data))
        return cls(models[0], task, path, data, device, batch_size)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the paths, the device and the batch size. Unpickling reloads the model."""
        return type(self).load, (self.path, self.folder, str(self.device), self.batch_size)

    def __repr__(self) -> str:
        return f"TextClassifierPipeline({type(self.model).__name__}, folder={str(self.folder)!r})"

    def check_windows(self, windows: int) -> None:
        """Raise UsageError if `windows` is negative, or above 0 for a model without imitators."""
        check_integer("windows", windows, 0)
        if windows and not self.has_imitators:
            raise UsageError(
                f"`windows` is {windows}, but the model has no imitators. Set it to 0, or load a "
                "model with imitators."
            )

    def split(self, name: str) -> TwoViewDataset:
        """Return the texts of a split as a dataset, in the order of the data folder."""
        try:
            dataset: TwoViewDataset = self.task.unlabeled(name, self._views())
        except FairseqSslError:
            raise
        except Exception as error:  # fairseq raises many exception types for a damaged index
            raise self._read_error(f"{type(error).__name__}: {error}.") from error
        self.warn_truncated(dataset.truncated)
        return dataset

    def warn_truncated(self, count: int) -> None:
        """Log a warning with the number of truncated texts, unless it is 0."""
        if count:
            logger.warning(
                "%s texts are longer than the model's maximum length of %s tokens. Their first "
                "tokens are dropped.",
                count,
                self.task.cfg.classification_max_length,
            )

    def _read_error(self, error: Exception | str) -> DataError:
        return DataError(
            f"{self.folder} contains damaged files: {error} Run `fairseq-ssl classify prepare` "
            "again."
        )

    def texts(self, lines: Sequence[str]) -> TwoViewDataset:
        """Tokenize texts with the settings of the data folder. Return them as a dataset."""
        settings = self._settings()
        if settings["lower"]:
            lines = [line.lower() for line in lines]
        view = word_view(lines, load_segmenter(settings["tokenizer"]))
        words = encode_lines(self.task.source_dictionary, list(view))
        if not self.has_imitators:
            return self.task.inference_dataset(words, None)  # type: ignore[no-any-return]
        cut = SentencepieceModel(self.folder / "pieces.model").cut
        subwords = encode_lines(self.task.piece_dictionary, [" ".join(cut(line)) for line in lines])
        return self.task.inference_dataset(words, subwords)  # type: ignore[no-any-return]

    @torch.no_grad()
    def probabilities(self, dataset: TwoViewDataset, first: int, count: int) -> NDArray[np.float32]:
        """Return the class probabilities p(y|X) of consecutive texts [count, classes].

        Args:
            dataset: texts, such as the result of `split`.
            first: index of the first text.
            count: number of texts.
        """
        probabilities = np.empty((count, len(self.task.classes)), np.float32)
        for texts, inputs in self._batches(dataset, first, count):
            logits = self.model(**inputs).float()
            probabilities[texts - first] = logits.softmax(-1).cpu().numpy()
        return probabilities

    def classify(self, lines: Sequence[str], windows: int = 0) -> list[Prediction]:
        """Return the predicted label and the class probabilities of each text.

        Args:
            lines: texts, which are tokenized with the settings of the data folder.
            windows: maximum number of windows per text. Models without imitators require 0.
        """
        lines = line_list(lines, "the texts")
        dataset = self.texts(lines)
        self.warn_truncated(dataset.truncated)
        return self.predictions(dataset, 0, len(lines), windows)

    @torch.no_grad()
    def predictions(
        self,
        dataset: TwoViewDataset,
        first: int,
        count: int,
        windows: int = 0,
    ) -> list[Prediction]:
        """Return the predictions for `count` texts of a dataset, starting at index `first`."""
        self.check_windows(windows)
        predictions: dict[int, Prediction] = {}
        for texts, inputs in self._batches(dataset, first, count):
            logits = self.model(**inputs).float()
            best: list[tuple[Window, ...]] = [()] * len(texts)
            if windows and self.has_imitators:
                best = self._windows(inputs["piece_tokens"], logits, windows)
            for text, row, top in zip(texts, logits.softmax(-1).tolist(), best, strict=True):
                by_label = dict(zip(self.task.classes, row, strict=True))
                label = max(by_label, key=by_label.__getitem__)
                predictions[int(text)] = Prediction(label, by_label, top)
        return [predictions[index] for index in range(first, first + count)]

    def _views(self) -> list[str]:
        return [WORDS, PIECES] if self.has_imitators else [WORDS]

    def _settings(self) -> dict[str, Any]:
        path = self.folder / VIEWS_FILE
        content = read_json(path)
        settings: dict[str, Any] = content if isinstance(content, dict) else {}
        if not all(isinstance(settings.get(key), kind) for key, kind in SETTINGS.items()):
            raise DataError(
                f"{path} contains no tokenization settings. Expected a data folder created by "
                "`fairseq-ssl classify prepare`."
            )
        if settings.get("drop_unknown"):  # written by version 0.2
            raise DataError(
                f"{path} contains the setting drop_unknown, which is no longer supported. Run "
                "`fairseq-ssl classify prepare` again, and train a new model."
            )
        return settings

    def _batches(
        self, dataset: TwoViewDataset, first: int, count: int
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, Tensor]]]:
        """Yield text indices and model inputs in batches of texts with similar lengths."""
        texts = np.arange(first, first + count)
        order = texts[np.argsort(-dataset.sizes[texts], kind="stable")]
        for start in range(0, count, self.batch_size):
            indices = order[start : start + self.batch_size]
            try:
                batch = dataset.collater([dataset[int(text)] for text in indices])["net_input"]
            except (IndexError, OSError, ValueError) as error:
                raise self._read_error(f"{error}.") from error
            self._check(batch)
            yield indices, utils.move_to_cuda(batch, device=self.device)

    def _check(self, batch: dict[str, Tensor]) -> None:
        dictionaries = {"src_tokens": self.task.source_dictionary}
        if self.has_imitators:
            dictionaries["piece_tokens"] = self.task.piece_dictionary
        for name, dictionary in dictionaries.items():
            ids = batch[name]
            if int(ids.min()) < 0 or int(ids.max()) >= len(dictionary):
                raise self._read_error("an id is not in dict.txt.")

    def _windows(self, subwords: Tensor, logits: Tensor, count: int) -> list[tuple[Window, ...]]:
        """Return up to `count` windows with the largest positive weights for each text.

        The weight of a window is the decrease in log p(label) - log p(second-best label) if the
        window is excluded from its imitator's mean, multiplied by the imitator's weight. Models
        with random imitators have no windows.
        """
        best = logits.topk(2).indices
        windows: list[list[Window]] = [[] for _ in subwords]
        weights = iter(self.model.weights().tolist())
        for group in self.model.groups:
            if not isinstance(group, Imitators):
                return [()] * len(subwords)
            output = group(subwords)
            for size, scores in zip(group.windows, output.logits, strict=True):
                leads = leads_lost(scores.double().softmax(-1), output.texts, output.counts, best)
                leads = leads * next(weights)
                for text, tokens in enumerate(subwords):
                    own = leads[output.texts == text]
                    top = own.topk(min(count, len(own)))
                    pairs = zip(top.values.tolist(), top.indices.tolist(), strict=True)
                    windows[text] += [
                        Window(
                            self._text(tokens[max(0, center - size) : center + size + 1]), weight
                        )
                        for weight, center in pairs
                        if weight > 0
                    ]
        return [
            tuple(sorted(in_text, key=lambda window: -window.weight)[:count]) for in_text in windows
        ]

    def _text(self, subwords: Tensor) -> str:
        dictionary = self.task.piece_dictionary
        symbols = [dictionary[index] for index in subwords.tolist() if index != dictionary.pad()]
        return "".join(symbols).replace("\u2581", " ").strip()


def leads_lost(probabilities: Tensor, texts: Tensor, counts: Tensor, best: Tensor) -> Tensor:
    """Return the decrease in log p(best) - log p(second) from removing each window, [windows].

    p is the mean of the class probabilities over the windows of a text. If the only window of a
    text is removed, p is uniform.

    Args:
        probabilities: [windows, classes], class probabilities of each window.
        texts: [windows], index of each window's text.
        counts: [batch], number of windows of each text.
        best: [batch, 2], the best and the second-best class of each text.
    """
    total = probabilities.new_zeros(len(counts), probabilities.size(1))
    total = total.index_add(0, texts, probabilities).clamp(min=1e-300)
    without = (total[texts] - probabilities).clamp(min=1e-300)
    alone = (counts[texts] == 1).unsqueeze(1)
    without = torch.where(alone, torch.ones_like(without), without)
    lead = (total[texts].log() - without.log()).gather(1, best[texts])
    return lead[:, 0] - lead[:, 1]


@dataclass(frozen=True)
class LabelSummary:
    """Signature, output folder and line count of teacher labels."""

    signature: Signature
    path: Path
    lines: int
    """Number of labeled lines in this shard, including those of interrupted runs."""


def label_split(
    model: str | Path,
    data: str | Path,
    output: str | Path,
    split: str = "unlabeled",
    *,
    device: str = "cpu",
    threads: int | None = None,
    batch_size: int = 64,
    part_size: int = PART_SIZE,
    shard: tuple[int, int] = (1, 1),
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> LabelSummary | None:
    """Write the class probabilities of a split, as teacher labels for imitators.

    Return None if the output was complete or other shards must finish. An interrupted run resumes.

    Args:
        model: checkpoint of an expert, alone or with imitators.
        data: data folder with the split and the dictionaries of the training data.
        output: folder in which to write the folder ``SPLIT.npy``. Its parts contain probabilities
            in half precision [lines, classes].
        split: name of a split in the data folder.
        device: ``cpu``, or ``cuda`` for one GPU per process.
        threads: number of CPU threads per process (default: 1 in worker processes, else torch's
            setting).
        batch_size: number of texts per batch.
        part_size: number of lines per part.
        shard: (i, n) to label only shard i of n, with i from 1. All shards write to one folder.
        executor: executor that labels the parts (default: the current process labels them).
            Worker processes need `fairseq_ssl.register` as initializer.
        overwrite: whether to replace an existing output.
        progress: creates the progress report, which receives the number of labeled lines.
    """
    parts = PartFolder(Path(output) / f"{split}.npy", shard, part_size)
    folder = Path(parts.path)
    write = _PartLabeler(folder, Path(model), Path(data), split, device, threads, batch_size)
    _loaded_split.cache_clear()  # an earlier call could have loaded a file that changed
    classifier, dataset = _loaded_split(write, worker_number())
    files = [classifier.folder / view / f"{split}.idx" for view in classifier._views()]
    params = {
        "split": split,
        "data": [[str(file), *file_fingerprint(file)] for file in files],
        "model": [str(classifier.path), *file_fingerprint(classifier.path)],
        "lines": len(dataset),
        "part_size": part_size,
        "version": __version__,
    }
    parameters = {"split": split, "classes": classifier.task.classes}
    parameters["model_digest"] = content_digest(classifier.path)
    signature = Signature("classify-label", parameters, params)
    job = JobFolder([folder], params, shard)
    with job.locked():
        if job.check(overwrite):
            logger.warning("%s is complete, written by an earlier run of this job", job.first)
            return None
        starts = range(0, len(dataset), part_size)
        ends = [min(start + part_size, len(dataset)) for start in starts]
        ranges = [
            Span((files[0],), 0, (start,), end, start)
            for start, end in zip(starts, ends, strict=True)
        ]
        items = job.plan(lambda: ranges)
        report, lines = progress("classify label", "lines"), 0
        executor = executor or LocalExecutor(1)
        for done, record in enumerate(job.run_stage("part", items, write, executor), 1):
            lines += record["files"][0]["lines"]
            report(record["files"][0]["lines"], done * shard[1] / len(items))
        records = job.records("part", len(items))
        if records is None:
            return None
        job.finish(signature, list(records))
    return LabelSummary(signature, job.first, lines)


@dataclass(frozen=True)
class _PartLabeler:
    """Picklable function that writes the class probabilities of a range of texts."""

    folder: Path
    model: Path
    data: Path
    split: str
    device: str
    threads: int | None
    batch_size: int

    def __call__(self, index: int, texts: Span) -> Record:
        """Write a part and return its record. The offsets in `texts` are text indices."""
        classifier, dataset = _loaded_split(self, worker_number())
        first, last = texts.starts[0], texts.end or 0
        with part_file(self.folder, f"part-{index:05d}.npy") as file:
            file.write(npy_header(last - first, len(classifier.task.classes)))
            for start in range(first, last, BLOCK):
                rows = classifier.probabilities(dataset, start, min(BLOCK, last - start))
                file.write(rows.astype(np.float16).tobytes())
            file.lines = last - first
        return {"files": [file.record()]}


@lru_cache(maxsize=1)
def _loaded_split(job: _PartLabeler, worker: int) -> tuple[TextClassifierPipeline, TwoViewDataset]:
    """Return the classifier and the dataset of the split. Each process loads them once."""
    set_threads(job.threads)
    device = str(torch_device(job.device, worker))
    classifier = TextClassifierPipeline.load(job.model, job.data, device, job.batch_size)
    return classifier, classifier.split(job.split)


def predict_lines(
    classifier: TextClassifierPipeline,
    lines: Iterable[str],
    *,
    windows: int = 0,
    name: str = "stdin",
) -> Iterator[str]:
    """Yield a tab-separated line for each text: label, class probabilities, and any windows.

    Args:
        classifier: classifier that labels the texts.
        lines: texts, as in `TextClassifierPipeline.classify`.
        windows: maximum number of windows per text. Models without imitators require 0.
        name: file name for error messages.
    """
    count, truncated, lines = 0, 0, iter(lines)
    while block := list(islice(lines, BLOCK)):
        if not count:
            check_unlabeled(name, block, set(classifier.task.classes))
        count += len(block)
        dataset = classifier.texts(block)
        truncated += dataset.truncated
        predictions = classifier.predictions(dataset, 0, len(block), windows)
        yield from _lines(predictions, windows)
    classifier.warn_truncated(truncated)


def predict_split(
    classifier: TextClassifierPipeline, split: str, *, windows: int = 0
) -> Iterator[str]:
    """Yield a line for each text of a split of the data folder, as in `predict_lines`."""
    dataset = classifier.split(split)
    for first in range(0, len(dataset), BLOCK):
        count = min(BLOCK, len(dataset) - first)
        predictions = classifier.predictions(dataset, first, count, windows)
        yield from _lines(predictions, windows)


def _lines(predictions: Iterable[Prediction], windows: int) -> Iterator[str]:
    for prediction in predictions:
        pairs = prediction.probabilities.items()
        columns = [prediction.label, " ".join(f"{label}={value:.4f}" for label, value in pairs)]
        if windows:
            texts = (f"{window.text} ({window.weight:.3f})" for window in prediction.windows)
            columns.append(" | ".join(texts))
        yield "\t".join(columns)
