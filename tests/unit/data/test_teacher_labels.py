"""Damaged and malicious files of teacher labels."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ssl.data.teacher_labels import open_teacher_labels
from fairseq_ssl.errors import DataError
from tests.conftest import Attack

PLAIN = np.full((3, 2), 0.5, np.float32)


def array(content: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, content, allow_pickle=True)
    return file.getvalue()


def archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=PLAIN)
    return file.getvalue()


def npy_header(shape: str, kind: str = "'<f4'") -> bytes:
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)


ATTACKS: dict[str, Callable[[Path], bytes]] = {
    "pickle": lambda canary: pickle.dumps(Attack(canary)),
    "objects": lambda canary: array(np.array([Attack(canary)], object)),
    "code": lambda canary: npy_header(f"__import__('os').system('touch {canary}')"),
    "archive": lambda _: archive(),
    "empty": lambda _: b"",
    "text": lambda _: b"0.5 0.5\n",
    "truncated header": lambda _: array(PLAIN)[:30],
    "truncated data": lambda _: array(PLAIN)[:-3],
    "huge": lambda _: npy_header("(1000000000000, 2)"),
    "larger than int64": lambda _: npy_header("(99999999999999999999999, 2)"),
    "overflow": lambda _: npy_header("(9223372036854775807, 2)"),
    "negative": lambda _: npy_header("(-3, 2)"),
    "no columns": lambda _: npy_header("(9999999999, 0)"),
    "nested": lambda _: npy_header("(" * 2000 + ")" * 2000),
    "records": lambda _: npy_header("(3, 2)", "[('a', '<f4')]"),
    "integers": lambda _: array(np.ones((3, 2), int)),
    "NaN": lambda _: array(np.full((3, 2), np.nan)),
    "one dimension": lambda _: array(np.full(2, 0.5)),
    "no dimension": lambda _: array(np.array(0.5)),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_damaged_array_is_rejected_with_a_one_line_error(attack: str, tmp_path: Path) -> None:
    (tmp_path / "train.npy").write_bytes(ATTACKS[attack](tmp_path / "canary"))
    with pytest.raises(DataError, match=r"train\.npy") as raised:
        open_teacher_labels(tmp_path, "train", 2)
    assert "\n" not in str(raised.value)
    assert "pickle" not in str(raised.value)
    assert not (tmp_path / "canary").exists()


def test_array_of_probabilities_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.npy").write_bytes(array(PLAIN))
    labels = open_teacher_labels(tmp_path, "train", 2)
    assert labels is not None
    assert len(labels) == len(PLAIN)
