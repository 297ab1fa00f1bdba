"""What a teacher says of each line: probabilities of the classes, in files of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines

LabelProbabilities = NDArray[np.floating[Any]]
"""[lines, classes]"""

TOLERANCE = 0.01
"""How far from 1 the sum of a line may be: half precision rounds."""
CHECKED = 100_000
"""Lines that are looked at at once."""
SHARD = re.compile(r"\.(\d+)-of-(\d+)\.npy$")


class TeacherLabels:
    """The files of a split, one after the other, read from disk as they are asked for."""

    def __init__(self, parts: list[LabelProbabilities]) -> None:
        self.parts = parts
        self.starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, line: int) -> LabelProbabilities:
        part = int(np.searchsorted(self.starts, line, side="right")) - 1
        found: LabelProbabilities = self.parts[part][line - self.starts[part]]
        return found


def teacher_labels(folder: Path, split: str, classes: int) -> TeacherLabels | None:
    """Open the probabilities of a split, if the folder has them.

    They are `SPLIT.npy`, the shards `SPLIT.1-of-4.npy` to `SPLIT.4-of-4.npy`, or a text
    `SPLIT.txt` with numbers between spaces or tabs, a line for a line, in the order of the
    classes in label/dict.txt.
    """
    whole, text = folder / f"{split}.npy", folder / f"{split}.txt"
    if whole.exists():
        paths = [whole]
    elif text.exists():
        paths = [text]
    else:
        paths = _shards(folder, split)
    if not paths:
        return None
    parts = [_of_text(path) if path == text else _of_array(path) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        _check(part, path, classes)
    return TeacherLabels(parts)


def _shards(folder: Path, split: str) -> list[Path]:
    found = {}
    counts = set()
    for path in folder.glob(f"{split}.*-of-*.npy"):
        named = SHARD.search(path.name)
        if named:
            found[int(named[1])] = path
            counts.add(int(named[2]))
    if len(counts) > 1 or (counts and sorted(found) != list(range(1, max(counts) + 1))):
        raise DataError(
            f"{folder} has the shards {', '.join(sorted(path.name for path in found.values()))}. "
            "Expected all shards of one number of them; make the others, or delete those left over."
        )
    return [found[number] for number in sorted(found)]


def _of_array(path: Path) -> LabelProbabilities:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise TypeError("an archive of arrays")
    except OSError as error:
        raise DataError(f"{path} can not be read: {error.strerror or error}.") from None
    except Exception:  # each of numpy's checks has its own
        raise DataError(
            f"{path} is not an npy file of numbers, or it is cut off. Make it again."
        ) from None
    if not np.issubdtype(found.dtype, np.floating):
        raise DataError(f"{path} has numbers of type {found.dtype}; expected probabilities.")
    return found


def _of_text(path: Path) -> LabelProbabilities:
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            rows.append(np.array(line.split(), np.float32))
        except ValueError:
            raise DataError(f"{path}:{number} is {line!r}; expected probabilities.") from None
        if len(rows[-1]) != len(rows[0]):
            raise DataError(
                f"{path}:{number} has {len(rows[-1])} numbers and line 1 has {len(rows[0])}."
            )
    if not rows:
        raise DataError(f"{path} is empty. Expected a line or more.")
    return np.stack(rows)


def _check(part: LabelProbabilities, path: Path, classes: int) -> None:
    """Refuse what are no probabilities of so many classes."""
    if part.ndim != 2 or part.shape[1] != classes:
        raise DataError(
            f"{path} is of the shape {part.shape}; expected (lines, {classes}), a column for each "
            "class of label/dict.txt, in its order."
        )
    for start, block in _blocks(part):
        wrong = np.abs(block.sum(1) - 1) > TOLERANCE
        wrong |= ~np.isfinite(block).all(1) | (block < 0).any(1)
        if wrong.any():
            line = start + int(wrong.argmax())
            raise DataError(
                f"{path}: line {line + 1} is {part[line].tolist()}; expected probabilities, 0 or "
                "more, that add up to 1."
            )


def _blocks(part: LabelProbabilities) -> Iterator[tuple[int, NDArray[np.float32]]]:
    for start in range(0, len(part), CHECKED):
        yield start, np.asarray(part[start : start + CHECKED], np.float32)
