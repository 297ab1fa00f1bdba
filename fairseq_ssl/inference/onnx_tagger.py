"""Edit taggers in ONNX format, run with onnxruntime on the CPU, without torch and fairseq."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.checkpoints.onnx_folder import (
    ALL_OUTPUTS,
    DICTIONARY,
    EDITS,
    MODEL,
    TOKENIZER,
    TOP_OUTPUTS,
    WORD,
    OnnxConfig,
    format_error,
    read_onnx_folder,
)
from fairseq_ssl.edits.application import TopEdits
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import KEEP_ID, EditDictionary
from fairseq_ssl.edits.engine import TOP, TaggerEngine, pad_sentences
from fairseq_ssl.edits.rounds import EditRounds
from fairseq_ssl.edits.subwords import WordSubwords, WordTokenizer
from fairseq_ssl.edits.windows import WindowBatch
from fairseq_ssl.errors import ConfigurationError, DataError, import_optional, library_errors
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.text.spans import Ids, Spans
from fairseq_ssl.text.word_ids import WordIds

MIN_SHARE = 0.75
"""Min sentence length in a group, as a fraction of the max length in the group."""
MIN_SUBWORDS = 128
"""Min number of subwords in a group, with padding. Smaller groups take shorter sentences."""
SLOW_FUSIONS = ["SkipLayerNormFusion"]
"""Disabled onnxruntime fusions. On a CPU, the unfused operators are several times faster."""
SILENT = 4
"""onnxruntime log level for fatal errors only. Other errors are raised as exceptions."""

Arrays = list[NDArray[Any]]


class OnnxTagger:
    """Edit tagger in ONNX format that runs with onnxruntime."""

    def __init__(self, folder: Path, words: WordIds, threads: int) -> None:
        """Load a folder that `write_onnx` wrote.

        Args:
            folder: folder with the ONNX model, its configuration and its vocabulary.
            words: word ids, shared by the models of an ensemble.
            threads: number of threads, or 0 for one per core.
        """
        runtime = import_optional("onnxruntime", "Running an ONNX model", "correct")
        self.folder = folder
        self.config = read_onnx_folder(folder)
        self.edits = EditDictionary.read(folder / EDITS)
        self.words = words if self.config.edit_unit == WORD else _vocabulary(folder, self.config)
        self.subwords = _subwords(folder, self.config, words)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = SILENT
        try:
            self.session = runtime.InferenceSession(
                folder / MODEL,
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=SLOW_FUSIONS,
            )
        except Exception as error:  # onnxruntime has many exception types
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise format_error(folder, f"onnxruntime cannot load the model ({line})") from None
        self._check_interface()

    @property
    def max_subwords(self) -> int:
        """Maximum sentence length in subwords or tokens, without start and end symbols."""
        ends = 2 if self.subwords is None else self.subwords.ends
        return self.config.max_source_positions - ends

    def __call__(self, batch: WindowBatch, outputs: Sequence[str]) -> Arrays:
        """Return the model outputs named `outputs` at the positions whose edits are used.

        Sentences of similar lengths are processed together, to reduce padding.
        """
        text = batch.text
        if self.subwords is None:
            ids = pad_sentences(text, self.words)
            ids[ids >= self.config.vocabulary] = self.words.unk()
            arrays, lengths = {"ids": ids}, text.lengths + 1
        else:
            arrays = self.subwords.batch(text)._asdict()
            lengths = np.add.reduceat(self.subwords.lengths(text.ids), text.starts)
            lengths = lengths + len(self.subwords.tokenizer.end)
        order, groups = group_by_length(lengths)
        results = []
        for rows, length in groups:
            words = int(text.lengths[rows].max())
            inputs = {
                name: array[rows, : length if name == "ids" else words]
                for name, array in arrays.items()
            }
            results.append(self._run(int(text.lengths[rows].sum()), outputs, inputs))
        positions = Spans(np.arange(len(text.ids)), text.lengths).select(order).ids
        place = np.argsort(positions, kind="stable")
        place = place if batch.used_positions is None else place[batch.used_positions]
        return [np.concatenate(parts)[place] for parts in zip(*results, strict=True)]

    def _run(
        self, positions: int, outputs: Sequence[str], inputs: Mapping[str, NDArray[np.int64]]
    ) -> Arrays:
        """Run the model. Raise DataError if it fails or its outputs have the wrong size.

        Args:
            positions: expected number of positions in the outputs.
            outputs: names of the outputs.
            inputs: model inputs by name.
        """
        with library_errors(f"The model in {self.folder} failed"):
            arrays: Arrays = self.session.run(outputs, dict(inputs))
        if any(len(array) != positions for array in arrays):
            raise format_error(self.folder, "the outputs of the model have wrong shapes")
        return arrays

    def _check_interface(self) -> None:
        """Check the model's inputs and outputs, with an example that contains the largest id."""
        inputs = tuple((part.name, part.type) for part in self.session.get_inputs())
        names = {part.name for part in self.session.get_outputs()}
        expected = tuple((name, "tensor(int64)") for name in self.config.inputs)
        if inputs != expected or not names >= {*TOP_OUTPUTS, *ALL_OUTPUTS}:
            raise format_error(
                self.folder, "the model does not have the inputs and outputs of a tagger"
            )
        arrays = {"ids": [[0, self.config.vocabulary - 1]], "first": [[0, 1]], "counts": [[1, 1]]}
        example = {name: np.array(arrays[name]) for name in self.config.inputs}
        edits, _, labels = self._run(2, (*ALL_OUTPUTS, TOP_OUTPUTS[2]), example)
        sizes = edits.shape[1], labels.shape[1]
        if sizes != (len(self.edits.labels), min(TOP, len(self.edits.labels) - 1)):
            raise format_error(self.folder, "the outputs of the model have wrong shapes")
        if not np.isfinite(edits).all():
            raise format_error(self.folder, "the probabilities are not finite")


class OnnxEngine(TaggerEngine):
    """Engine that scores edits with taggers in ONNX format."""

    def score(self, batch: WindowBatch) -> TopEdits:
        """Return the best edits and their scores at the positions whose edits are used."""
        if len(self.models) == 1:
            return TopEdits(*self.models[0](batch, TOP_OUTPUTS))
        edits, errors = self.mean(model(batch, ALL_OUTPUTS) for model in self.models)
        kept = edits[:, KEEP_ID].copy()
        edits[:, KEEP_ID] = -np.inf
        size = min(TOP, edits.shape[1] - 1)
        best = np.argpartition(-edits, size - 1)[:, :size]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(edits, best, 1)), 1)
        return TopEdits(kept, errors, best, np.take_along_axis(edits, best, 1))


def group_by_length(lengths: Ids) -> tuple[Ids, list[tuple[Ids, int]]]:
    """Group sentences of similar lengths, to reduce padding.

    Return the sentence indices ordered by group, and the indices and maximum length of each group.
    With one group, the sentences keep their order.
    """
    order: Ids = np.argsort(-lengths, kind="stable")
    groups, begin = [], 0
    for end in range(1, len(order) + 1):
        longest = int(lengths[order[begin]])
        if end < len(order):
            is_similar = lengths[order[end]] >= MIN_SHARE * longest
            if is_similar or (end - begin) * longest < MIN_SUBWORDS:
                continue
        groups.append((order[begin:end], longest))
        begin = end
    if len(groups) == 1:
        order = np.arange(len(order))
        groups = [(order, groups[0][1])]
    return order, groups


def load_onnx_rounds(
    folders: Sequence[Path], weights: Sequence[float], search: CorrectionSearch, threads: int
) -> EditRounds:
    """Load an edit tagger in ONNX format, or an ensemble, into `EditRounds`.

    Args:
        folders: folders that `write_onnx` wrote.
        weights: ensemble weights, one for each model, or empty for equal weights.
        search: search options. None is replaced with the value stored in the first model.
        threads: number of threads, or 0 for one per core.
    """
    words = WordIds()
    models = [OnnxTagger(folder, words, threads) for folder in folders]
    first = models[0]
    for model in models[1:]:
        if model.edits != first.edits or model.words.symbols != first.words.symbols:
            raise ConfigurationError(
                f"The edits or the dictionaries of {first.folder} and {model.folder} differ. "
                "Expected models that were trained with the same edit and token dictionaries."
            )
    search = search.or_else(first.config.search)
    return EditRounds(OnnxEngine(models, weights or None), first.edits, first.words, search)


def _vocabulary(folder: Path, config: OnnxConfig) -> WordIds:
    """Return the token dictionary of a tagger that is not word-level."""
    try:
        words = WordIds.read(folder / DICTIONARY)
    except DataError as error:
        raise format_error(folder, f"{DICTIONARY} is damaged ({error})") from None
    if len(words.symbols) != config.vocabulary:
        raise format_error(
            folder,
            f"{DICTIONARY} contains {len(words.symbols)} symbols, but the vocabulary size of the "
            f"model is {config.vocabulary}",
        )
    return words


def _subwords(folder: Path, config: OnnxConfig, words: WordIds) -> WordSubwords | None:
    if config.edit_unit != WORD:
        return None
    try:
        return WordSubwords(
            WordTokenizer("\n".join(read_lines(folder / TOKENIZER))),
            words,
            config.padding,
            config.vocabulary,
            config.max_source_positions,
        )
    except DataError as error:
        raise format_error(folder, f"{TOKENIZER}: {error}") from None
