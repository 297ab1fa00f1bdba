"""A weight that may change while a model is trained."""

from __future__ import annotations

from fairseq_ssl.errors import ConfigurationError


class WeightSchedule:
    """A number, or numbers at some updates and straight lines between them."""

    def __init__(self, given: str, flag: str, start: int = 0) -> None:
        """Read the schedule.

        Args:
            given: 0.2, or 0:0,1000:0,2000:0.2, updates with their weights
            flag: where it was given
            start: the weight is 0 before this update
        """
        self.start = start
        self.points = _points(str(given), flag)
        if start < 0:
            raise ConfigurationError(f"The first update is {start}; expected 0 or more.")

    def at(self, update: int) -> float:
        """Return the weight at an update."""
        if update < self.start:
            return 0.0
        first, last = self.points[0], self.points[-1]
        if update <= first[0]:
            return first[1]
        for (begin, low), (end, high) in zip(self.points, self.points[1:], strict=False):
            if update < end:
                return low + (high - low) * (update - begin) / (end - begin)
        return last[1]


def _points(given: str, flag: str) -> list[tuple[int, float]]:
    parts = given.split(",")
    words = [part.split(":") for part in parts] if ":" in given else [["0", given]]
    try:
        points = [(int(update), float(weight)) for update, weight in words]
    except ValueError:
        points = []
    updates = [update for update, _ in points]
    is_good = all(0 <= weight < float("inf") for _, weight in points)
    if not points or updates != sorted(set(updates)) or not is_good:
        raise ConfigurationError(
            f"{flag} is {given!r}; expected a number of 0 or more, as 0.2, or such numbers at "
            "updates that grow, as 0:0,1000:0,2000:0.2."
        )
    return points
