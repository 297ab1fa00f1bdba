"""Constructors that take the place of numpy's and argparse's while a checkpoint is unpickled.

torch's restricted unpickler calls what a pickle names, if the name is allowed. numpy's own
constructors trust their arguments: a wrong state of a dtype crashes the process. These check
theirs first.
"""

from __future__ import annotations

import argparse
import pickle
from typing import Any

import numpy as np
import torch

from fairseq_ssl.errors import MissingPackageError

DTYPES = ("b1", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8")
"""The dtypes of scalars in checkpoints, in numpy's own notation: a letter and a size in bytes."""

ORDERS = ("<", ">", "|", "=")


class PlainDtype:
    """The stand-in for numpy.dtype in a pickle: the checked name of a number type."""

    def __new__(cls, code: Any, align: Any = False, copy: Any = True) -> PlainDtype:
        """Accept the arguments of a plain bool, int or float dtype."""
        if type(code) is not str or code not in DTYPES or (align, copy) != (False, True):
            raise pickle.UnpicklingError("A checkpoint holds no such numpy dtype.")
        self = super().__new__(cls)
        self.code = code
        self.order = "="
        return self

    code: str
    order: str

    def __setstate__(self, state: Any) -> None:
        """Accept the state of a dtype without fields: its byte order."""
        if type(state) is not tuple or len(state) != 8 or state[1] not in ORDERS:
            raise pickle.UnpicklingError("A checkpoint holds no such state of a numpy dtype.")
        if (state[0], *state[2:]) != (3, None, None, None, -1, -1, 0):
            raise pickle.UnpicklingError("A checkpoint holds no numpy dtype with fields.")
        self.order = state[1]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the dtype itself."""
        return np.dtype, (self.code,)

    def number(self, data: bytes) -> float | int | bool:
        """Return the number in `data`, which has the size of one."""
        found: float | int | bool = np.frombuffer(data, self.order + self.code)[0].item()
        return found


def plain_scalar(dtype: Any, data: Any = None) -> float | int | bool:
    """Return a plain number for a pickled numpy scalar."""
    if type(dtype) is not PlainDtype or type(data) is not bytes:
        raise pickle.UnpicklingError("A checkpoint holds no such numpy scalar.")
    if len(data) != int(dtype.code[1:]):
        raise pickle.UnpicklingError("A numpy scalar in the checkpoint has a wrong size.")
    return dtype.number(data)


PLAIN = (type(None), bool, int, float, str, list, tuple, dict, argparse.Namespace)
"""The types of options in a checkpoint."""


class PlainNamespace(argparse.Namespace):
    """The stand-in for argparse.Namespace in a pickle: options by name, nothing else."""

    def __init__(self) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        """Accept options by their names."""
        is_plain = type(state) is dict and all(map(is_option_name, state))
        if not is_plain or not all(isinstance(value, PLAIN) for value in state.values()):
            raise pickle.UnpicklingError("A Namespace in the checkpoint holds more than options.")
        vars(self).update(state)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the class it stands for."""
        return argparse.Namespace, (), vars(self)


def is_option_name(name: Any) -> bool:
    """Return True if `name` can be the name of a command-line option."""
    return type(name) is str and name.isidentifier() and not name.startswith("__")


def allow_plain_globals() -> None:
    """Let torch's restricted unpickler build what else a fairseq checkpoint holds.

    A plain run stores its options as a Namespace, and a validation score can be a numpy scalar.
    torch 2.6 and later reject both until they are named.
    """
    if not hasattr(torch.serialization, "add_safe_globals"):
        raise MissingPackageError(
            "torch>=2.6", "Reading checkpoints safely", "pip install -U torch"
        )
    torch.serialization.add_safe_globals(
        [
            (PlainNamespace, "argparse.Namespace"),
            (PlainDtype, "numpy.dtype"),
            (plain_scalar, "numpy._core.multiarray.scalar"),
            (plain_scalar, "numpy.core.multiarray.scalar"),
        ]
    )
