"""The base class of losses, and helpers for logging."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II


@dataclass
class CriterionConfig(FairseqDataclass):
    """Base class of options. fairseq-hydra-train passes `sentence_avg` to all losses."""

    sentence_avg: bool = II("optimization.sentence_avg")


class Criterion(FairseqCriterion):
    """A loss whose logging outputs are sums, to be added over batches and processes."""

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True: fairseq sums the logging outputs of processes."""
        return True


def totals(logging_outputs: Sequence[dict[str, Any]]) -> Callable[[str], Any]:
    """Return a function that sums one key over the logging outputs."""

    def total(key: str) -> Any:
        return sum(utils.item(log.get(key, 0)) for log in logging_outputs)

    return total


def percent(meters: Any, part: str, total: str, default: float) -> float:
    """Return 100 part / total of two meters, or `default` if the total is 0."""
    count = float(meters[total].sum)
    return round(100 * float(meters[part].sum) / count, 2) if count else default
