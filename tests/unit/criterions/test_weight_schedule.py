"""Schedules of the reconstruction weight."""

from __future__ import annotations

import pytest

from fairseq_ssl.criterions.reconstruction_loss import WeightSchedule
from fairseq_ssl.errors import ConfigurationError


def test_constant_weight() -> None:
    schedule = WeightSchedule("0.2", start=10)
    assert [schedule.at(update) for update in (0, 9, 10, 9999)] == [0, 0, 0.2, 0.2]


def test_schedule_is_piecewise_linear() -> None:
    schedule = WeightSchedule("10:0.5,20:0,40:1")
    updates = (0, 10, 15, 20, 25, 40, 50)
    assert [schedule.at(update) for update in updates] == [0.5, 0.5, 0.25, 0, 0.25, 1, 1]


@pytest.mark.parametrize("given", ["x", "nan", "-1", "5:1,3:2", "1:0,2"])
def test_invalid_schedules_are_rejected(given: str) -> None:
    with pytest.raises(ConfigurationError, match="--reconstruction-weight"):
        WeightSchedule(given)
