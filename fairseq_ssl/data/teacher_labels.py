"""Teacher labels: files with class probabilities for each line of a split."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines, text_files

LabelProbabilities = NDArray[np.floating[Any]]
"""Class probabilities [lines, classes] in any floating-point type."""

TOLERANCE = 0.01
"""Tolerance for sums of probabilities, which may differ from 1 in half precision."""
CHECK_LINES = 100_000
"""Number of lines to check at a time."""


TeacherLabels = ConcatDataset[LabelProbabilities]
"""Class probabilities for a split, concatenated from one or more files."""


def open_teacher_labels(folder: Path, split: str, classes: int) -> TeacherLabels | None:
    """Open the class probabilities for a split. Return None if the split has no file.

    The file is `SPLIT.txt`, with numbers separated by spaces or tabs, or `SPLIT.npy`, which may
    also be a folder of `.npy` files. Columns are the classes in the order of label/dict.txt.
    """
    array, text = folder / f"{split}.npy", folder / f"{split}.txt"
    if array.exists():
        paths = list(text_files(array))
    elif text.exists():
        paths = [text]
    else:
        return None
    parts: list[Any] = [_read_text(path) if path == text else _open_array(path) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        _check(part, path, classes)
    return ConcatDataset(parts)


def npy_header(lines: int, classes: int) -> bytes:
    """Return the header of a ``.npy`` file with half-precision numbers [lines, classes]."""
    file = io.BytesIO()
    form = {"descr": "<f2", "fortran_order": False, "shape": (lines, classes)}
    np.lib.format.write_array_header_1_0(file, form)
    return file.getvalue()


def _open_array(path: Path) -> LabelProbabilities:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise TypeError("The file is an npz archive. Expected a single array.")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception:  # numpy raises many classes of exceptions
        raise DataError(
            f"{path} is truncated or not an npy file of numbers. Create it again with `fairseq-ssl "
            "classify label`."
        ) from None
    if not np.issubdtype(array.dtype, np.floating):
        raise DataError(
            f"{path} contains numbers of type {array.dtype}. Expected floating-point probabilities."
        )
    return array


def _read_text(path: Path) -> LabelProbabilities:
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            rows.append(np.array(line.split(), np.float32))
        except ValueError:
            raise DataError(
                f"{path}:{number} is {line!r}. Expected one probability per class, separated by "
                "spaces or tabs."
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise DataError(
                f"{path}:{number} has {len(rows[-1])} numbers, but line 1 has {len(rows[0])}. "
                "Each line must contain one probability for each class."
            )
    if not rows:
        raise DataError(f"{path} is empty. Expected at least one line.")
    return np.stack(rows)


def _check(part: LabelProbabilities, path: Path, classes: int) -> None:
    """Raise DataError if `part` is not an array of probabilities [lines, classes]."""
    if part.ndim != 2 or part.shape[1] != classes:
        raise DataError(
            f"{path} has the shape {part.shape}. Expected (lines, {classes}), one column per class "
            "in the order of label/dict.txt."
        )
    for start in range(0, len(part), CHECK_LINES):
        block = np.asarray(part[start : start + CHECK_LINES], np.float32)
        wrong = np.abs(block.sum(1) - 1) > TOLERANCE
        wrong |= ~np.isfinite(block).all(1) | (block < 0).any(1)
        if wrong.any():
            line = start + int(wrong.argmax())
            raise DataError(
                f"Line {line + 1} of {path} is {' '.join(map(str, part[line].tolist()))}. Expected "
                "probabilities that sum to 1."
            )
