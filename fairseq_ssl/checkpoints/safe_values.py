"""Values of checkpoints without code: literals instead of `eval`, plain types when unpickling."""

from __future__ import annotations

import argparse
import ast
import math
import operator
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from fairseq_ssl.errors import ConfigurationError, MissingPackageError

MAX_LENGTH = 10_000
"""Characters of an expression."""
MAX_DEPTH = 50
"""Levels of nested brackets and operators."""
MAX_SIZE = 10_000
"""Items of a result, the items of its items included."""
MAX_INTEGER = 10**30

EXPECTED = (
    "Expected numbers, strings, True, False, None, lists, tuples and dictionaries of these, "
    "and sums and products of numbers or lists, within moderate sizes."
)

Sized = tuple[Any, int]
"""A value and its number of items, the items of its items included."""

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
}


def evaluate(source: str, *_namespaces: Any) -> Any:
    """Return the value of an expression of literals, `+` and `*`; reject everything else.

    It takes the arguments of the builtin `eval`, whose place it takes in fairseq's modules.

    Args:
        source: the expression
        _namespaces: not used, since no name is ever looked up

    Raises:
        TypeError: `source` is not a string; fairseq's `eval_bool` relies on that
        ConfigurationError: `source` is anything but a plain value
    """
    if not isinstance(source, str):
        raise TypeError(f"Expected a string to evaluate, not a {type(source).__name__}.")
    try:
        if len(source) > MAX_LENGTH:
            raise ValueError
        return _value(ast.parse(source.strip(), mode="eval").body, 0)[0]
    except (ArithmeticError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        raise ConfigurationError(
            f"The option value {shortened(source)} was rejected and not evaluated. {EXPECTED}"
        ) from None


def shortened(value: Any) -> str:
    """Return the representation of a value, at most 80 characters of it."""
    shown = repr(value[:100] if isinstance(value, str) else value)
    return shown if len(shown) <= 80 else f"{shown[:80]}..."


def _value(node: ast.expr, depth: int) -> Sized:
    """Return the value of a node and its size; raise ValueError or TypeError to reject it."""
    if depth > MAX_DEPTH:
        raise ValueError
    if isinstance(node, ast.Constant):
        return _constant(node.value), 1
    if isinstance(node, ast.List | ast.Tuple):
        items, size = _items(node.elts, depth)
        return (items if isinstance(node, ast.List) else tuple(items)), size
    if isinstance(node, ast.Dict):
        keys, key_size = _items((_key(key) for key in node.keys), depth)
        values, size = _items(node.values, depth)
        return dict(zip(keys, values, strict=True)), key_size + size
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _number(_value(node.operand, depth + 1)[0])
        return (-value if isinstance(node.op, ast.USub) else value), 1
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, depth + 1), _value(node.right, depth + 1)
        return _combined(type(node.op), left, right)
    raise ValueError


def _items(nodes: Iterable[ast.expr], depth: int) -> tuple[list[Any], int]:
    found = [_value(node, depth + 1) for node in nodes]
    return [value for value, _ in found], _bounded(1 + sum(size for _, size in found))


def _key(node: ast.expr | None) -> ast.expr:
    """Reject the missing key of `{**other}`."""
    if node is None:
        raise ValueError
    return node


def _constant(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    return _number(value)


def _number(value: Any) -> int | float:
    """Return a number that is finite, not huge and not a bool."""
    if type(value) is int and abs(value) <= MAX_INTEGER:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise ValueError


def _combined(kind: type[ast.AST], left: Sized, right: Sized) -> Sized:
    """Return a sum or product of two values, whose size is checked before it is built."""
    (first, first_size), (second, second_size) = left, right
    if isinstance(first, int | float) and isinstance(second, int | float):
        return _number(_OPERATORS[kind](_number(first), _number(second))), 1
    if kind is ast.Add and type(first) is type(second) and isinstance(first, list | tuple):
        return first + second, _bounded(first_size + second_size)
    if kind is ast.Mult and isinstance(second, list | tuple):
        first, second, first_size = second, first, second_size
    if kind is ast.Mult and isinstance(first, list | tuple) and type(second) is int:
        size = _bounded(1 + first_size * max(0, second))
        return first * second, size
    raise ValueError


def _bounded(size: int) -> int:
    if size > MAX_SIZE:
        raise ValueError
    return size


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
