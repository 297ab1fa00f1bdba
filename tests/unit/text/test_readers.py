"""All text files are read by `io.text_files`, so that BOMs and line ends are handled equally."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import PACKAGE

READS = {
    *("open", "fdopen", "open_bytes", "read_text", "read_bytes", "open_text", "stdin"),
    *("fromfile", "loadtxt", "genfromtxt", "memmap", "safe_load", "decoded_lines", "byte_blocks"),
}
COMMON = {"open_text"}
REVIEWED = {
    # implementation of the common functions
    "io/text_files.py": {"open", "open_bytes", "decoded_lines", "stdin"},
    "io/blocks.py": {"open", "byte_blocks"},
    # blocks of files opened by open_text
    "io/jobs.py": {"byte_blocks"},
    "inference/back_translation.py": {"byte_blocks"},
    "noise/noise_job.py": {"byte_blocks", "open_bytes"},  # also a digest of a file
    "signature.py": {"open_bytes"},  # digests of dictionaries
    # JSON and YAML
    "analysis/classification.py": {"read_bytes"},
    "learned_filter/pair_filter.py": {"read_bytes"},
    "learned_filter/learned_filter_job.py": {"read_bytes"},
    "report/score_files.py": {"read_bytes"},
    "filters/chain.py": {"open_bytes", "safe_load", "read_bytes"},  # also a digest of a file
    "noise/learner_errors.py": {"open_bytes"},
    "text/subwords/model.py": {"read_bytes"},
    # files that this process or an interrupted run has written
    "filters/filter_job.py": {"open_bytes"},
    "text/position_data.py": {"read_text"},
    "io/outputs.py": {"open", "read_text"},
    # not text of users: devices, pictures, the page's parts, fairseq's source, ids, models
    "cli/console.py": {"open"},  # of os
    "text/subwords/sentencepiece_model.py": {"open_bytes"},
    "plugin/installation.py": {"read_text"},
    "data/binarized.py": {"read_bytes"},
    "checkpoints/model_folder.py": {"open", "read_bytes"},  # a digest, and JSON
    "checkpoints/onnx_folder.py": {"read_bytes"},
    "inference/server.py": {"read_text"},
    "inference/loading.py": {"open"},  # the first bytes of a checkpoint
    "checkpoints/hugging_face.py": {"read_bytes"},
    "report/page.py": {"read_text", "read_bytes"},
    "rerank/word_vectors.py": {"open", "open_bytes"},
}
"""Reviewed calls that read files without `open_text`, by module."""


def reads(path: Path) -> Iterator[str]:
    """Yield the calls of a module that read files, and its uses of stdin."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr == "stdin":
            yield "stdin"
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        modes = [each.value for each in node.args if isinstance(each, ast.Constant)]
        if name in READS and not any(isinstance(mode, str) and "w" in mode for mode in modes):
            yield name


def test_text_is_read_by_the_common_functions() -> None:
    """A new reader has to call `read_lines`, `open_text` or `stdin_text`, or be added above."""
    other_calls = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if calls := set(reads(path)) - COMMON:
            other_calls[str(path.relative_to(PACKAGE))] = calls
    assert other_calls == REVIEWED
