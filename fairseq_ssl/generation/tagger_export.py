"""Export of edit taggers to ONNX."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.checkpoints import onnx_folder
from fairseq_ssl.checkpoints.model_folder import check_replaceable, write_checksums
from fairseq_ssl.checkpoints.onnx_folder import OnnxConfig
from fairseq_ssl.data.edit_dataset import look_up_subwords
from fairseq_ssl.edits.decoding import DEFAULT, CorrectionSearch
from fairseq_ssl.edits.dictionary import KEEP_ID
from fairseq_ssl.edits.engine import TOP
from fairseq_ssl.errors import DataError, import_optional, system_error
from fairseq_ssl.io.outputs import atomic_folder
from fairseq_ssl.modules.edit_layers import WordSpans

OPSET = 20
"""ONNX operator set version, the first version with Gelu."""
MAX_BYTES = 2**31 - 2**20
"""Maximum size of the weights in an ONNX file, in bytes."""
QUANTIZATIONS = ("float32", "int8")


def write_onnx(
    model: Any,
    task: Any,
    output: Path,
    quantization: str = "float32",
    search: CorrectionSearch = DEFAULT,
) -> None:
    """Write an edit tagger in ONNX format to a folder.

    Args:
        model: an edit tagger in float32, prepared with `prepare_for_inference_`.
        task: the model's task, which contains the dictionaries.
        output: folder to create.
        quantization: data type of matrix multiplications, float32 or int8.
        search: search options to store as defaults of the exported model.
    """
    import_optional("onnxscript", "Export to ONNX", "onnx")
    runtime = import_optional("onnxruntime.quantization", "Export to ONNX", "onnx")
    check_replaceable(output, onnx_folder.MODEL, "an edit tagger in ONNX format")
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    if weights > MAX_BYTES:
        raise DataError(
            f"The model's weights take {weights / 1e9:.1f} GB, but an ONNX file can store at most "
            "2 GB. Export a smaller model."
        )
    reads_words = model.subwords is not None
    with atomic_folder(output) as folder:
        path = folder / onnx_folder.MODEL
        try:
            with quiet(logging.ERROR):
                program = _export_graph(model)
                if quantization == "int8":
                    whole = program.model_proto
                    whole.graph.ClearField("value_info")  # onnxruntime 1.23 rejects the shapes
                    types = {"op_types_to_quantize": ["MatMul", "Gemm"], "per_channel": True}
                    # Sums of products with 8-bit weights overflow on processors without VNNI.
                    runtime.quantize_dynamic(whole, path, reduce_range=True, **types)
                else:
                    program.save(str(path))
        except Exception as error:  # the exporter raises many exception types
            if system_error(error) is not None:
                raise
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"The model cannot be converted to ONNX: {line}") from error
        OnnxConfig(
            str(task.cfg.edit_unit) if not reads_words else onnx_folder.WORD,
            int(model.cfg.max_source_positions),
            int(model.encoder.tokens.num_embeddings),
            int(model.encoder.padding),
            quantization,
            search.or_else(DEFAULT),
        ).write(folder)
        task.edits.write(folder / onnx_folder.EDITS)
        if reads_words:
            text = model.subwords.tokenizer.text
            (folder / onnx_folder.TOKENIZER).write_text(f"{text}\n", encoding="utf-8")
        else:
            task.source_dictionary.save(str(folder / onnx_folder.DICTIONARY))
        write_checksums(folder)


def _export_graph(model: Any) -> torch.onnx.ONNXProgram:
    """Convert an edit tagger to an ONNX program."""
    inputs = _example(model)
    limit = 2**30
    batch, time, words = (torch.export.Dim(name, max=limit) for name in ("batch", "time", "words"))
    axes = ({0: batch, 1: time}, {0: batch, 1: words}, {0: batch, 1: words})
    names = onnx_folder.WORD_INPUTS if model.subwords else onnx_folder.TOKEN_INPUTS
    program = torch.onnx.export(
        TaggerGraph(model).eval(),
        tuple(inputs),
        input_names=list(names),
        output_names=[*onnx_folder.TOP_OUTPUTS, onnx_folder.ALL_OUTPUTS[0]],
        opset_version=OPSET,
        dynamo=True,
        dynamic_shapes=axes[: len(names)],
        external_data=False,
        verbose=False,
    )
    assert program is not None
    return program


def _example(model: Any) -> tuple[Tensor, ...]:
    """Return example inputs for the graph. The batch, word and time axes have different sizes."""
    pad, eos, unknown = (model.special[name] for name in ("pad", "eos", "unk"))
    rows = [[0, *[unknown] * count, eos, *[pad] * (6 - count)] for count in (6, 2, 1)]
    tokens = torch.tensor(rows)
    return (tokens,) if model.subwords is None else look_up_subwords(model.subwords, tokens)


@contextmanager
def quiet(level: int) -> Iterator[None]:
    """Context manager that suppresses Python warnings, and log records up to `level`."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class TaggerGraph(nn.Module):
    """An edit tagger for export, with tensors as inputs and outputs and static control flow."""

    def __init__(self, model: Any) -> None:
        """Wrap an edit tagger, which must be prepared with `prepare_for_inference_`."""
        super().__init__()
        self.model = model

    def forward(
        self, ids: Tensor, first: Tensor | None = None, counts: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the fields of `TopEdits`, and the probabilities of all edits [positions, labels].

        Args:
            ids: encoder input [batch, time], padded on the right.
            first: index of each word's first subword [batch, words], or None to read tokens.
            counts: number of subwords in each word [batch, words], or None to read tokens.
        """
        model, scores = self.model, self.model.scores
        embeddings = model.encoder.tokens.weight
        own = functional.embedding(ids, embeddings) if scores.factorized else None
        if first is None or counts is None:
            states = model.encoder(ids, None)
            hidden = states.tokens
            is_position = ids.ne(model.special["pad"]) & ids.ne(model.special["eos"])
        else:
            states = model.encoder(ids, WordSpans(first, first + counts.clamp(min=1) - 1))
            is_subword = _is_subword(ids, first, counts)
            own = None if own is None else is_subword @ own
            index = first.unsqueeze(-1).expand(-1, -1, states.tokens.size(-1))
            hidden = states.tokens.gather(1, index)
            is_position = counts > 0
        rows = torch.nonzero(is_position.flatten()).squeeze(1)
        parts = (own, hidden, *states[1:])
        own, hidden, *units = (None if part is None else part.flatten(0, 1)[rows] for part in parts)
        edits = scores(embeddings, own, hidden, *units).softmax(-1)
        kept = edits[:, KEEP_ID]
        errors = 1 - kept if model.errors is None else model.errors(hidden).squeeze(-1).sigmoid()
        top = edits[:, KEEP_ID + 1 :].topk(min(TOP, edits.size(1) - 1))
        return kept, errors, top.indices + KEEP_ID + 1, top.values, edits


def _is_subword(ids: Tensor, first: Tensor, counts: Tensor) -> Tensor:
    """Return a mask [batch, words, time], 1 where a subword belongs to a word and 0 elsewhere."""
    columns = torch.arange(ids.size(1), device=ids.device)
    begins, ends = first.unsqueeze(-1), (first + counts).unsqueeze(-1)
    return ((columns >= begins) & (columns < ends)).float()
