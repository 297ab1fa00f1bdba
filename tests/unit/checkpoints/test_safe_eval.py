"""Restricted evaluation of option strings, compared with Python's `eval`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, strategies

from fairseq_ssl.checkpoints.safe_values import MAX_SIZE, evaluate
from fairseq_ssl.errors import ConfigurationError
from tests.conftest import ROOT, environment

PLAIN = [
    "[(512,10,5)] + [(512,3,2)] * 4 + [(512,2,2)] * 2",
    "(0.9, 0.999)",
    "(1e-30, 1e-3)",
    "1000,2000",
    "[True] + [False]*5",
    "3 * (1, -2)",
    "{'mined': (None, 'src'), 'main': [1, 2.5]}",
    "{}",
    "  -1e-3",
    "2 * 3 + 1",
    "[0] * 0",
    "'it''s'",
]

REJECTED = [
    *("__import__('os').system('true')", "encoder_layers", "().__class__", "lambda: 0"),
    *("[x for x in (1,)]", "f'{1}'", "(x := 1)", "[1][0]", "1 if 1 else 2", "1 < 2", "7 // 2"),
    *("[*(1, 2)]", "{**{}}", "{[1]: 2}", "b'x'", "1j", "...", "'a' * 3", "[1] * True"),
    *("[1] + (2,)", "-[1]", "1\n2", "", "\0", "\ud800", "1e999"),
]

HUGE = {
    "a long list": "[1] * 10**9",
    "a product of sizes": "[1] * 1000000000",
    "a power": "9**9**9",
    "lists in lists": "[[[[1] * 99] * 99] * 99] * 99",
    "a long number": "9" * 5000,
    "a large product": " * ".join(["9" * 25] * 2),
    "parentheses": "(" * 9000,
    "brackets": "[" * 90 + "]" * 90,
    "signs": "-" * 9990 + "1",
    "a long sum": "+".join("1" * 5000),
    "attributes": "a" + ".b" * 4900,
    "a long text": "'" + "a" * 20_000 + "'",
    "many items": ",".join("1" * (MAX_SIZE + 1)),
}


@pytest.mark.parametrize("source", PLAIN)
def test_plain_values_are_equal_to_eval(source: str) -> None:
    assert evaluate(source) == eval(source.strip())


@given(
    strategies.recursive(
        strategies.none()
        | strategies.booleans()
        | strategies.floats(allow_nan=False, allow_infinity=False)
        | strategies.integers(-(10**30), 10**30)
        | strategies.text(),
        lambda inner: (
            strategies.lists(inner)
            | strategies.tuples(inner, inner)
            | strategies.dictionaries(strategies.text(), inner)
        ),
    )
)
def test_round_trip_through_repr(value: object) -> None:
    assert evaluate(repr(value)) == value


@pytest.mark.parametrize("source", REJECTED)
def test_other_expressions_are_rejected(source: str) -> None:
    with pytest.raises(ConfigurationError, match="rejected and not evaluated"):
        evaluate(source)
    with pytest.raises(ConfigurationError):
        evaluate(source, {"encoder_layers": 1}, {"encoder_layers": 1})


@pytest.mark.parametrize("source", HUGE.values(), ids=HUGE)
def test_huge_values_are_rejected_before_they_are_computed(source: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        evaluate(source)
    assert len(str(caught.value)) < 400


def test_nested_expressions_do_not_crash_the_process() -> None:
    """The parser could overflow the C stack, so the test runs in a separate process."""
    program = (
        "from fairseq_ssl.checkpoints.safe_values import evaluate\n"
        "parts = ('(', '[', '-', '+', 'not ', '1+', '1*', 'a.', 'a[', '{1:', 'lambda:', '1 if ')\n"
        "for part in parts:\n"
        "    try:\n"
        "        evaluate(part * (10_000 // len(part)))\n"
        "    except ValueError:\n"
        "        print(part)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 12


@pytest.mark.parametrize("value", [None, 3, [1], b"1"])
def test_other_types_raise_type_error_as_in_eval(value: object) -> None:
    with pytest.raises(TypeError):
        evaluate(value)  # type: ignore[arg-type]
