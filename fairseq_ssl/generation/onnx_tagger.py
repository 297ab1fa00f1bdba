"""Edit taggers in ONNX format, run by onnxruntime on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairseq_ssl.checkpoints.onnx_folder import (
    DICTIONARY,
    EDITS,
    OUTPUTS,
    TOKENIZER,
    WORD,
    OnnxConfig,
    format_error,
    read_onnx_folder,
)
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.data.word_subwords import SubwordBatch, WordSubwords, WordTokenizer
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError, DataError, import_optional, library_errors
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.modules.edit_layers import EditLogits

UNLIMITED = 10**9
MIN_SHARE = 0.75
"""Length of the shortest sentence of a group, relative to the longest."""
MIN_SUBWORDS = 128
"""Number of subwords for which a call of the model is efficient."""
SLOW_FUSIONS = ["SkipLayerNormFusion"]
"""Fused operators of onnxruntime that are several times slower on a CPU than their parts."""
SILENT = 4
"""Log level of onnxruntime for fatal errors only, because its errors are also exceptions."""


class OnnxTagger(nn.Module):
    """An edit tagger in ONNX format with the interface of `EditTagger` in decoding."""

    def __init__(
        self,
        folder: Path,
        config: OnnxConfig,
        session: Any,
        dictionary: OovDictionary,
        labels: int,
    ) -> None:
        """Build the model. `load_onnx_tagger` calls this.

        Args:
            folder: folder of the model, for error messages.
            config: the configuration.
            session: session of onnxruntime.
            dictionary: the token dictionary.
            labels: number of labels of the edit dictionary.
        """
        super().__init__()
        self.folder, self.config, self.session = folder, config, session
        self.labels = labels
        self.has_errors = len(session.get_outputs()) == len(OUTPUTS)
        self.pad, self.eos, self.unknown = dictionary.pad(), dictionary.eos(), dictionary.unk()
        self.subwords = None if config.edit_unit != WORD else _subwords(folder, config, dictionary)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        subwords: SubwordBatch | None = None,
    ) -> EditLogits:
        """Return the logits of all edits at each <s> and token, as `EditTagger.forward` does.

        Args:
            src_tokens: [batch, time], ids from <s> to </s>, padded on the right. Ids beyond the
                dictionary are unknown words.
            src_lengths: not used.
            subwords: the subwords of `src_tokens`, for a model that reads subwords. None: the model
                looks them up.
        """
        if self.subwords is None:
            ids = src_tokens.masked_fill(src_tokens >= self.config.vocabulary, self.unknown)
            is_position = (ids.ne(self.pad) & ids.ne(self.eos)).cpu().numpy()
            arrays = {"ids": ids.cpu().numpy()}
        else:
            batch = SubwordBatch(*(subwords or self.subwords.look_up(src_tokens)))
            arrays = {name: part.cpu().numpy() for name, part in batch._asdict().items()}
            is_position = arrays["counts"] > 0
        edits, errors = self._run_by_length(arrays, is_position)
        device = src_tokens.device
        return EditLogits(edits.to(device), None if errors is None else errors.to(device))

    def _run_by_length(
        self, arrays: Mapping[str, Ids], is_position: NDArray[np.bool_]
    ) -> EditLogits:
        """Run the model on sentences of similar lengths at a time, to compute little padding."""
        counts, ids = is_position.sum(1), arrays["ids"]
        ends = np.arange(1, ids.shape[1] + 1) * (ids != self.config.padding)
        order, groups = group_by_length(ends.max(1))  # a text can contain the padding symbol
        outputs = []
        for rows, length in groups:
            words = int(np.flatnonzero(is_position[rows].any(axis=0)).max()) + 1
            widths = {"ids": length, "first": words, "counts": words}
            inputs = {name: array[rows, : widths[name]] for name, array in arrays.items()}
            outputs.append(self.run(int(counts[rows].sum()), **inputs))
        if len(outputs) == 1:
            return outputs[0]
        sentences = Spans(np.arange(counts.sum()), counts[order])
        index = torch.from_numpy(sentences.select(np.argsort(order)).ids)
        edits = torch.cat([output.edits for output in outputs])
        errors = [output.errors for output in outputs if output.errors is not None]
        return EditLogits(edits[index], torch.cat(errors)[index] if errors else None)

    def run(self, positions: int, **inputs: NDArray[np.int64]) -> EditLogits:
        """Run the model on arrays. Raise DataError if it fails or has outputs of a wrong shape.

        Args:
            positions: expected number of positions in the outputs.
            inputs: the inputs of the graph by name.
        """
        with library_errors(f"The model in {self.folder} failed"):
            outputs = self.session.run(None, inputs)
        shapes = [(positions, self.labels), (positions,)]
        if [output.shape for output in outputs] != shapes[: len(outputs)]:
            raise format_error(self.folder, "the outputs of the model have wrong shapes")
        edits, *errors = map(torch.from_numpy, outputs)
        return EditLogits(edits, errors[0] if errors else None)

    @property
    def max_subwords(self) -> int:
        """Maximum sentence length in subwords or tokens, without start and end symbols."""
        ends = 2 if self.subwords is None else self.subwords.ends
        return self.config.max_source_positions - ends

    def max_positions(self) -> int:
        """Return the maximum sentence length in tokens, which is unlimited."""
        return UNLIMITED

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Do nothing: the model is always prepared for decoding."""


def group_by_length(lengths: Ids) -> tuple[Ids, list[tuple[Ids, int]]]:
    """Group sentences of similar lengths, so that padding to the longest costs little.

    Return the indices of all sentences by group, and for each group its indices and its longest
    length. With one group, the sentences keep their order.
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


def load_onnx_tagger(
    folder: Path, threads: int | None = None, dictionary: OovDictionary | None = None
) -> tuple[OnnxTagger, EditDictionary, OovDictionary]:
    """Load an edit tagger in ONNX format, its edit dictionary and its token dictionary.

    Args:
        folder: folder that `export_tagger` wrote.
        threads: number of threads. None: as many as torch uses.
        dictionary: token dictionary of the other models of an ensemble. None: a new one.
    """
    runtime = import_optional("onnxruntime", "Running an ONNX model", "onnx")
    config, content = read_onnx_folder(folder)
    edits = EditDictionary.read(folder / EDITS)
    dictionary = _dictionary(folder, config, dictionary)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads or torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = SILENT
    try:
        session = runtime.InferenceSession(
            content,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=SLOW_FUSIONS,
        )
    except Exception as error:  # onnxruntime has many exception types
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise format_error(folder, f"onnxruntime cannot load the model ({line})") from None
    tagger = OnnxTagger(folder, config, session, dictionary, len(edits.labels)).eval()
    _check_run(tagger)
    return tagger, edits, dictionary


def _check_run(tagger: OnnxTagger) -> None:
    """Run the model on the last id of its vocabulary, to check the sizes of its weights."""
    ids = np.array([[0, tagger.config.vocabulary - 1]])
    if tagger.subwords is None:
        logits = tagger.run(2, ids=ids)
    else:
        logits = tagger.run(2, ids=ids, first=np.array([[0, 1]]), counts=np.array([[1, 1]]))
    if not torch.isfinite(logits.edits).all():
        raise format_error(tagger.folder, "the logits are infinite")


def _dictionary(folder: Path, config: OnnxConfig, given: OovDictionary | None) -> OovDictionary:
    """Return the token dictionary. All words of a tagger of words are out of vocabulary."""
    if config.edit_unit == WORD:
        return given or OovDictionary()
    try:
        loaded: OovDictionary = OovDictionary.load(str(folder / DICTIONARY))
    except Exception:  # fairseq raises many types for damaged files
        raise format_error(folder, f"{DICTIONARY} is damaged") from None
    if len(loaded) != config.vocabulary:
        raise format_error(
            folder, f"{DICTIONARY} has {len(loaded)} symbols but the model {config.vocabulary}"
        )
    if given is not None and given.symbols != loaded.symbols:
        raise ConfigurationError(
            f"The token dictionary in {folder} differs from that of the other models of the "
            "ensemble. Expected models with the same dictionary."
        )
    return given or loaded


def _subwords(folder: Path, config: OnnxConfig, dictionary: OovDictionary) -> WordSubwords:
    try:
        return WordSubwords(
            WordTokenizer("\n".join(read_lines(folder / TOKENIZER))),
            dictionary,
            config.padding,
            config.vocabulary,
            config.max_source_positions,
        )
    except DataError as error:
        raise format_error(folder, f"{TOKENIZER}: {error}") from None
