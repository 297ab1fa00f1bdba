"""Arrays of a teacher's labels that are damaged, or hold code."""

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


def claiming(shape: str, kind: str = "'<f4'") -> bytes:
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)


ATTACKS: dict[str, Callable[[Path], bytes]] = {
    "pickle": lambda canary: pickle.dumps(Attack(canary)),
    "objects": lambda canary: array(np.array([Attack(canary)], object)),
    "code": lambda canary: claiming(f"__import__('os').system('touch {canary}')"),
    "archive": lambda _: archive(),
    "empty": lambda _: b"",
    "text": lambda _: b"0.5 0.5\n",
    "cut in the header": lambda _: array(PLAIN)[:30],
    "cut in the numbers": lambda _: array(PLAIN)[:-3],
    "huge": lambda _: claiming("(1000000000000, 2)"),
    "larger than any number": lambda _: claiming("(99999999999999999999999, 2)"),
    "overflow": lambda _: claiming("(9223372036854775807, 2)"),
    "negative": lambda _: claiming("(-3, 2)"),
    "no columns": lambda _: claiming("(9999999999, 0)"),
    "nested": lambda _: claiming("(" * 2000 + ")" * 2000),
    "records": lambda _: claiming("(3, 2)", "[('a', '<f4')]"),
    "whole numbers": lambda _: array(np.ones((3, 2), int)),
    "not numbers": lambda _: array(np.full((3, 2), np.nan)),
    "one dimension": lambda _: array(np.full(2, 0.5)),
    "no dimension": lambda _: array(np.array(0.5)),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_damaged_array_is_rejected_in_a_line(attack: str, tmp_path: Path) -> None:
    (tmp_path / "train.npy").write_bytes(ATTACKS[attack](tmp_path / "canary"))
    with pytest.raises(DataError, match=r"train\.npy") as raised:
        open_teacher_labels(tmp_path, "train", 2)
    assert "\n" not in str(raised.value)
    assert "pickle" not in str(raised.value)
    assert not (tmp_path / "canary").exists()


def test_an_array_of_probabilities_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.npy").write_bytes(array(PLAIN))
    found = open_teacher_labels(tmp_path, "train", 2)
    assert found is not None
    assert len(found) == len(PLAIN)
