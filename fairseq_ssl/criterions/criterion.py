"""What all losses share: one of fairseq's options, and logs of numbers that add up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II


@dataclass
class CriterionConfig(FairseqDataclass):
    """Options under fairseq-hydra-train hold those of its default loss, which has this one."""

    sentence_avg: bool = II("optimization.sentence_avg")


class Criterion(FairseqCriterion):
    """A loss; what it logs of a batch are numbers that are added up over batches and processes."""

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Let fairseq sum what processes log."""
        return True


def totals(logging_outputs: Sequence[dict[str, Any]]) -> Callable[[str], Any]:
    """Return what adds up one of the numbers that batches have logged."""

    def total(key: str) -> Any:
        return sum(utils.item(log.get(key, 0)) for log in logging_outputs)

    return total


def percent(meters: Any, part: str, whole: str, of_nothing: float) -> float:
    """Return 100 part / whole of what was logged so far."""
    count = float(meters[whole].sum)
    return round(100 * float(meters[part].sum) / count, 2) if count else of_nothing
