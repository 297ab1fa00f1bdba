"""Spans: selection, concatenation and padding."""

from __future__ import annotations

import numpy as np
from fairseq.data.data_utils import collate_tokens
from hypothesis import given
from hypothesis import strategies as st
from torch import from_numpy, tensor

from fairseq_ssl.text.spans import Spans

RUNS = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=9)


def spans(runs: list[list[int]]) -> Spans:
    return Spans.of([np.array(run, dtype=np.int64) for run in runs])


def runs_of(spans: Spans) -> list[list[int]]:
    return [
        spans.ids[start:end].tolist() for start, end in zip(spans.starts, spans.ends, strict=True)
    ]


@given(runs=RUNS, data=st.data())
def test_operations_are_equal_to_those_on_lists(runs: list[list[int]], data: st.DataObject) -> None:
    assert runs_of(spans(runs)) == runs
    which = data.draw(st.lists(st.integers(0, len(runs) - 1), max_size=12)) if runs else []
    selected = spans(runs).select(np.array(which, dtype=np.int64))
    assert runs_of(selected) == [runs[index] for index in which]
    assert runs_of(selected.concat(spans(runs))) == [*(runs[index] for index in which), *runs]
    extended = spans(runs).with_last(7)
    assert runs_of(extended) == [[*run, 7] for run in runs]
    assert runs_of(extended.without_last()) == runs


@given(
    runs=st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=9),
    left=st.booleans(),
    min_length=st.integers(0, 12),
    multiple=st.sampled_from([1, 4, 8]),
)
def test_padding_is_equal_to_fairseq(
    runs: list[list[int]], left: bool, min_length: int, multiple: int
) -> None:
    rows = spans(runs).pad(1, left, min_length, multiple)
    expected = collate_tokens(
        [tensor(run).long() for run in runs],
        1,
        left_pad=left,
        pad_to_length=min_length,
        pad_to_multiple=multiple,
    )
    assert from_numpy(rows).equal(expected)
