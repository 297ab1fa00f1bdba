"""What is counted of each candidate once, so that none is scored again while weights are sought."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.metrics.bleu import Lists, SentenceSums, SumMetric


@dataclass(frozen=True)
class Statistics:
    """The counts of all candidates, and what they are counts for."""

    aim: SumMetric
    counts: SentenceSums
    """[sentences, candidates, counts]; places without a candidate repeat the first one's."""

    @classmethod
    def of(cls, aim: SumMetric, lists: Lists, references: Lists) -> Statistics:
        """Count, once for all that follows.

        Args:
            aim: what to count for
            lists: the texts of each sentence's candidates
            references: the files of references, a line a sentence each
        """
        most = max(map(len, lists))
        rows = [
            [*found, *[found[0]] * (most - len(found))] for found in aim.counts(lists, references)
        ]
        return cls(aim, np.array(rows, np.int64))

    def chosen(self, choices: NDArray[np.intp]) -> SentenceSums:
        """Return the counts of one candidate of each sentence, [sentences, counts]."""
        rows: SentenceSums = self.counts[np.arange(len(choices)), choices]
        return rows

    def score(self, choices: NDArray[np.intp]) -> float:
        """Return the corpus score, as sacreBLEU has it, of one candidate of each sentence."""
        return self.aim.exact(self.chosen(choices).sum(0))

    def subset(self, rows: NDArray[np.intp]) -> Statistics:
        """Return the statistics of some sentences."""
        return Statistics(self.aim, self.counts[rows])
