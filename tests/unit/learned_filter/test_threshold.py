"""The k-th largest number compared with sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.learned_filter.classifier import kth_largest

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.5, -2.0])


@given(st.lists(NUMBERS, min_size=1, max_size=30), st.data())
def test_kth_largest_equals_sorting(numbers: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(numbers)))
    cut = data.draw(st.integers(0, len(numbers)))
    least, equals = kth_largest(lambda: [np.array(numbers[:cut]), np.array(numbers[cut:])], k)
    assert least == sorted(numbers, reverse=True)[k - 1]
    assert equals == k - sum(number > least for number in numbers)
