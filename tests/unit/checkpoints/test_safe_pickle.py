"""Restricted unpickling of numpy scalars, numpy arrays and Namespaces."""

from __future__ import annotations

import argparse
import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import DTypeLike

from fairseq_ssl.checkpoints.files import load_checkpoint
from fairseq_ssl.checkpoints.safe_values import plain_globals
from fairseq_ssl.errors import DataError
from tests.conftest import ROOT, environment

NUMBERS: list[DTypeLike] = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64]
NUMBERS += [np.float16, np.float32, np.float64, ">f8", ">i4"]


class Pickled:
    """Object that is pickled as a function call, with an optional state."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], state: Any = None) -> None:
        self.parts = (function, arguments, state)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.parts if self.parts[2] is not None else self.parts[:2]


def save(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save({"model": {}, "extra_state": {"value": value}}, file)
    file.seek(0)
    return file


def read(value: Any) -> Any:
    return load_checkpoint(save(value), "the file")["extra_state"]["value"]


@pytest.mark.parametrize("kind", NUMBERS)
def test_numpy_scalars_become_python_numbers(kind: DTypeLike) -> None:
    for value in np.array([0, 1, 100], kind):
        number = read(value)
        assert type(number) in (bool, int, float)
        assert number == value.item()


@pytest.mark.parametrize("kind", NUMBERS)
def test_vectors_of_numbers_are_read(kind: DTypeLike) -> None:
    for values in (np.array([0, 1, 100], kind), np.ones(1, kind)):
        found = read(values)
        assert np.array_equal(found, values)
        assert found.dtype == np.dtype(kind).newbyteorder("=")
        assert np.array_equal(read(found + found), values + values), "as fairseq's meters"
        assert type(pickle.loads(pickle.dumps(found, 2))) is np.ndarray


SCALAR = np.float64(0).__reduce__()[0]
RECONSTRUCT = np.zeros(1).__reduce__()[0]


def vector(shape: Any, dtype: Any, data: Any, is_fortran: bool = False) -> Pickled:
    """Return an array that is pickled with this state."""
    return Pickled(RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, shape, dtype, is_fortran, data))


STATE = (3, "<", None, None, None, -1, -1, 0)
DTYPE = np.dtype, ("f8", False, True)
HOSTILE = {
    "a dtype of objects": Pickled(SCALAR, (np.dtype("O"), b"\0" * 8)),
    "a dtype with fields": Pickled(SCALAR, (np.dtype("O,O"),)),
    "a date": np.datetime64("2020-01-01"),
    "a complex number": np.complex128(1j),
    "no data": Pickled(SCALAR, (np.dtype("f8"),)),
    "too few bytes": Pickled(SCALAR, (np.dtype("f8"), b"\0")),
    "a text for bytes": Pickled(SCALAR, (np.dtype("f8"), "\0" * 8)),
    "a number for a dtype": Pickled(SCALAR, (8, b"\0" * 8)),
    "a list for a dtype": Pickled(np.dtype, ([("a", "O")],)),
    "an aligned dtype": Pickled(np.dtype, ("f8", True, True)),
    "a state with fields": Pickled(
        *DTYPE, (3, "<", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0)
    ),
    "a state with a shape": Pickled(
        *DTYPE, (3, "<", (np.dtype("f8"), (9,)), None, None, -1, -1, 0)
    ),
    "a state with a size": Pickled(*DTYPE, (*STATE[:5], 2**31 - 1, 1, 0)),
    "a state with flags": Pickled(*DTYPE, (*STATE[:7], 63)),
    "a state that is a number": Pickled(*DTYPE, 3),
    "a Namespace from arguments": Pickled(argparse.Namespace, (1,)),
    "a Namespace with a double underscore": Pickled(argparse.Namespace, (), {"__class__": 1}),
    "a Namespace with a number as a name": Pickled(argparse.Namespace, (), {1: 1}),
    "a Namespace with a function": Pickled(argparse.Namespace, (), {"x": SCALAR}),
    "a Namespace with slots": Pickled(argparse.Namespace, (), ({}, {"x": 1})),
    "an array of objects": np.array([1, {}], object),
    "an array of two dimensions": np.zeros((3, 2)),
    "an array without data": Pickled(np.ndarray, (2**40,)),
    "an array without a state": Pickled(RECONSTRUCT, (np.ndarray, (2**40,), b"b")),
    "an array of another class": Pickled(RECONSTRUCT, (dict, (0,), b"b")),
    "an array of the wrong length": vector((2**40,), np.dtype("f8"), b"\0" * 8),
    "an array of a negative length": vector((-1,), np.dtype("f8"), b"\0" * 8),
    "an array in another order": vector((1,), np.dtype("f8"), b"\0" * 8, True),
    "an array of a list of objects": vector((1,), np.dtype("O"), [{}]),
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_other_objects_are_rejected(value: Any) -> None:
    with pytest.raises(DataError, match="the file"):
        read(value)


def test_namespace_is_pickled_as_argparse_namespace() -> None:
    options = read(argparse.Namespace(arch="transformer", lr=[0.1], nested=argparse.Namespace(x=1)))
    assert isinstance(options, argparse.Namespace)
    assert (options.arch, options.lr, options.nested.x) == ("transformer", [0.1], 1)
    for again in (pickle.loads(pickle.dumps(options)), copy.deepcopy(options)):
        assert type(again) is argparse.Namespace
        assert vars(again) == vars(options)


def test_types_that_users_register_with_torch_stay_registered() -> None:
    others: list[Any] = [SCALAR, RECONSTRUCT, np.dtype, type(np.dtype("f8")), np.ndarray]
    with torch.serialization.safe_globals(others):
        assert type(read(np.float64(1.5))) is float, "read by this package's restricted types"
        found = torch.load(save(np.eye(2)), weights_only=True)["extra_state"]["value"]
        assert type(found) is np.ndarray
        with pytest.raises(DataError):
            read(np.eye(2))
        assert set(torch.serialization.get_safe_globals()) >= set(others)
        with plain_globals():
            torch.serialization.add_safe_globals([Path])  # as another thread
        assert set(torch.serialization.get_safe_globals()) >= {*others, Path}
    assert not set(torch.serialization.get_safe_globals()) & set(others)


def test_random_pickles_are_read_or_rejected() -> None:
    """Run the fuzzer with 500 pickles instead of 10,000."""
    words = [sys.executable, str(Path("scripts/fuzz/pickles.py")), "--count", "500"]
    done = subprocess.run(
        words, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "500 pickles" in done.stdout
    assert "0 findings" in done.stdout
