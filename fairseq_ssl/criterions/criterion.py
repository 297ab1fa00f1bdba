"""Base class of losses, and helpers for logging."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II


@dataclass
class CriterionConfig(FairseqDataclass):
    """Base class of loss options. fairseq-hydra-train passes `sentence_avg` to all losses."""

    sentence_avg: bool = II("optimization.sentence_avg")


class Criterion(FairseqCriterion):
    """Base class of losses. Logging outputs are sums, which fairseq adds up over processes."""

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True: fairseq may sum logging outputs over processes before `reduce_metrics`."""
        return True


def totals(logging_outputs: Sequence[dict[str, Any]]) -> Callable[[str], Any]:
    """Return a function that sums a key over the logging outputs. Missing keys count as 0."""

    def total(key: str) -> Any:
        return sum(utils.item(log.get(key, 0)) for log in logging_outputs)

    return total


def percent(meters: Any, part: str, total: str, default: float) -> float:
    """Return 100 * part / total of the sums of two meters, or `default` if the total is 0."""
    count = float(meters[total].sum)
    return round(100 * float(meters[part].sum) / count, 2) if count else default
