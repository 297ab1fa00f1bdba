"""Safe replacements for `eval` and for types in pickles. They cannot run code."""

from __future__ import annotations

import argparse
import ast
import math
import operator
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from fairseq_ssl.errors import ConfigurationError

MAX_LENGTH = 10_000
"""Maximum number of characters in an expression."""
MAX_DEPTH = 50
"""Maximum nesting depth of brackets and operators."""
MAX_SIZE = 10_000
"""Maximum number of items in a value, including nested items."""
MAX_INTEGER = 10**30

EXPECTED = (
    "Expected numbers, strings, True, False, None, or lists, tuples and dictionaries of these, up "
    f"to {MAX_SIZE:,} items and {MAX_DEPTH} nested levels. Only + and * are allowed as operators."
)

Sized = tuple[Any, int]
"""A value and its number of items, including nested items."""

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
}


def evaluate(source: str, *_namespaces: Any) -> Any:
    """Return the value of an expression of literals, `+` and `*`.

    This function replaces the builtin `eval` in fairseq's modules, so it has the same arguments.

    Args:
        source: the expression.
        _namespaces: ignored, since names are never looked up.

    Raises:
        TypeError: if `source` is not a string. fairseq's `eval_bool` handles this exception.
        ConfigurationError: if `source` is not a valid expression or is too large.
    """
    if not isinstance(source, str):
        raise TypeError(f"{shortened(source)} cannot be evaluated. Expected a string.")
    try:
        if len(source) > MAX_LENGTH:
            raise ValueError
        return _value(ast.parse(source.strip(), mode="eval").body, 0)[0]
    except (ArithmeticError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        raise ConfigurationError(
            f"The option value {shortened(source)} was rejected and not evaluated. {EXPECTED}"
        ) from None


def shortened(value: Any) -> str:
    """Return the `repr` of a value, or its first 80 characters and ``...`` if it is longer."""
    text = repr(value[:100] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _value(node: ast.expr | None, depth: int) -> Sized:
    """Return the value and the size of a node. Raise ValueError or TypeError if it is not allowed.

    A node of None, which ast uses for the missing key in `{**other}`, is not allowed.
    """
    if depth > MAX_DEPTH:
        raise ValueError
    if isinstance(node, ast.Constant):
        return _constant(node.value), 1
    if isinstance(node, ast.List | ast.Tuple):
        items, size = _items(node.elts, depth)
        return (items if isinstance(node, ast.List) else tuple(items)), size
    if isinstance(node, ast.Dict):
        keys, key_size = _items(node.keys, depth)
        values, size = _items(node.values, depth)
        return dict(zip(keys, values, strict=True)), key_size + size
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _number(_value(node.operand, depth + 1)[0])
        return (-value if isinstance(node.op, ast.USub) else value), 1
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, depth + 1), _value(node.right, depth + 1)
        return _combine(type(node.op), left, right)
    raise ValueError


def _items(nodes: Iterable[ast.expr | None], depth: int) -> tuple[list[Any], int]:
    items = [_value(node, depth + 1) for node in nodes]
    return [value for value, _ in items], _check_size(1 + sum(size for _, size in items))


def _constant(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    return _number(value)


def _number(value: Any) -> int | float:
    """Return `value`. Raise ValueError unless it is a finite float or an int up to MAX_INTEGER."""
    if type(value) is int and abs(value) <= MAX_INTEGER:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise ValueError


def _combine(kind: type[ast.AST], left: Sized, right: Sized) -> Sized:
    """Return a sum or product and its size. Raise ValueError if it is unsupported or too large."""
    (first, first_size), (second, second_size) = left, right
    if isinstance(first, int | float) and isinstance(second, int | float):
        return _number(_OPERATORS[kind](_number(first), _number(second))), 1
    if kind is ast.Add and type(first) is type(second) and isinstance(first, list | tuple):
        return first + second, _check_size(first_size + second_size)
    if kind is ast.Mult and isinstance(second, list | tuple):
        first, second, first_size = second, first, second_size
    if kind is ast.Mult and isinstance(first, list | tuple) and type(second) is int:
        size = _check_size(1 + first_size * max(0, second))
        return first * second, size
    raise ValueError


def _check_size(size: int) -> int:
    if size > MAX_SIZE:
        raise ValueError
    return size


DTYPES = ("b1", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8")
"""Allowed dtypes of scalars and arrays, as numpy codes: a letter and the size in bytes."""

ORDERS = ("<", ">", "|", "=")


class PlainDtype:
    """Replacement for numpy.dtype in unpickling, limited to bool, int and float dtypes."""

    def __new__(cls, code: Any, align: Any = False, copy: Any = True) -> PlainDtype:
        """Create a bool, int or float dtype. Raise UnpicklingError for other arguments."""
        if type(code) is not str or code not in DTYPES or (align, copy) != (False, True):
            raise pickle.UnpicklingError("A numpy dtype in the checkpoint is not a number type.")
        self = super().__new__(cls)
        self.code = code
        self.order = "="
        return self

    code: str
    order: str

    def __setstate__(self, state: Any) -> None:
        """Restore the byte order. Raise UnpicklingError for a structured dtype."""
        if type(state) is not tuple or len(state) != 8 or state[1] not in ORDERS:
            raise pickle.UnpicklingError("A numpy dtype in the checkpoint has an invalid state.")
        if (state[0], *state[2:]) != (3, None, None, None, -1, -1, 0):
            raise pickle.UnpicklingError("A numpy dtype in the checkpoint has fields.")
        self.order = state[1]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a numpy.dtype with native byte order."""
        return np.dtype, (self.code,)

    @property
    def size(self) -> int:
        """Number of bytes per value."""
        return int(self.code[1:])

    def number(self, data: bytes) -> float | int | bool:
        """Return the number in `data`, which must have the size of this dtype."""
        value: float | int | bool = np.frombuffer(data, self.order + self.code)[0].item()
        return value


def plain_scalar(dtype: Any, data: Any = None) -> float | int | bool:
    """Return a Python number for a pickled numpy scalar. Raise UnpicklingError for other data."""
    if type(dtype) is not PlainDtype or type(data) is not bytes:
        raise pickle.UnpicklingError("A numpy scalar in the checkpoint is not a number.")
    if len(data) != dtype.size:
        raise pickle.UnpicklingError("A numpy scalar in the checkpoint has the wrong size.")
    return dtype.number(data)


class PlainArray(np.ndarray[Any, Any]):
    """Replacement for numpy.ndarray in unpickling, limited to one dimension and number types.

    `plain_array` creates an empty array, and `__setstate__` sets its values.
    """

    def __new__(cls, *_: Any, **__: Any) -> PlainArray:
        """Raise UnpicklingError: a pickle could allocate an array of any size without data."""
        raise pickle.UnpicklingError("The checkpoint creates a numpy array without data.")

    def __setstate__(self, state: Any) -> None:
        """Restore the array. Raise UnpicklingError unless the state describes a valid vector."""
        kinds = (int, tuple, PlainDtype, bool, bytes)
        if type(state) is not tuple or tuple(map(type, state)) != kinds:
            raise pickle.UnpicklingError("A numpy array in the checkpoint has an invalid state.")
        version, shape, dtype, is_fortran, data = state
        if (version, is_fortran) != (1, False) or shape != (len(data) // dtype.size,):
            raise pickle.UnpicklingError("A numpy array in the checkpoint is not a vector.")
        if len(data) % dtype.size:
            raise pickle.UnpicklingError("A numpy array in the checkpoint has incomplete values.")
        kind = np.dtype(dtype.order + dtype.code)
        checked: Any = (version, (len(data) // dtype.size,), kind, False, data)
        super().__setstate__(checked)

    def __reduce__(self) -> Any:
        """Pickle as a numpy.ndarray."""
        return self.view(np.ndarray).__reduce__()


def plain_array(kind: Any, shape: Any = None, code: Any = None) -> PlainArray:
    """Return the empty array that unpickling fills, as numpy's `_reconstruct` does.

    Raise UnpicklingError for arguments that numpy does not write.
    """
    if kind is not PlainArray or shape != (0,) or code != b"b":
        raise pickle.UnpicklingError("The checkpoint creates a numpy array with invalid arguments.")
    return np.ndarray.__new__(PlainArray, (0,), np.int8)


PLAIN = (type(None), bool, int, float, str, list, tuple, dict, argparse.Namespace)
"""Allowed types of options in a checkpoint."""


class PlainNamespace(argparse.Namespace):
    """Replacement for argparse.Namespace in unpickling, limited to values of plain types."""

    def __init__(self) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        """Restore the options. Raise UnpicklingError for an invalid name or type."""
        is_plain = type(state) is dict and all(map(is_option_name, state))
        if not is_plain or not all(isinstance(value, PLAIN) for value in state.values()):
            raise pickle.UnpicklingError("A Namespace in the checkpoint has invalid options.")
        vars(self).update(state)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as argparse.Namespace."""
        return argparse.Namespace, (), vars(self)


def is_option_name(name: Any) -> bool:
    """Return True for a string that is an identifier and does not start with two underscores."""
    return type(name) is str and name.isidentifier() and not name.startswith("__")


PLAIN_GLOBALS: list[Any] = [
    (PlainNamespace, "argparse.Namespace"),
    (PlainDtype, "numpy.dtype"),
    (plain_scalar, "numpy._core.multiarray.scalar"),
    (plain_scalar, "numpy.core.multiarray.scalar"),
    (PlainArray, "numpy.ndarray"),
    (plain_array, "numpy._core.multiarray._reconstruct"),
    (plain_array, "numpy.core.multiarray._reconstruct"),
]
"""Replacements for functions and classes that checkpoints import, with the imported names."""
_globals_lock = threading.RLock()


@contextmanager
def plain_globals() -> Iterator[None]:
    """Let torch's restricted unpickler read the options and scores in fairseq checkpoints.

    fairseq stores options as a Namespace, and validation scores can be numpy scalars. --eval-bleu
    stores n-gram counts as arrays. torch 2.6 and later reject these types unless they are
    registered as safe. The registry is global. Types that other code has registered are removed
    inside the block, and registered again at its end.
    """
    registry = torch.serialization
    with _globals_lock:
        others = registry.get_safe_globals()
        registry.clear_safe_globals()
        registry.add_safe_globals(PLAIN_GLOBALS)
        try:
            yield
        finally:
            added = [safe for safe in registry.get_safe_globals() if safe not in PLAIN_GLOBALS]
            registry.clear_safe_globals()
            registry.add_safe_globals([*others, *added])  # other threads can add types meanwhile
