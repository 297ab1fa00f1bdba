"""ROUGE for summarization, computed with the package rouge-score."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError, import_optional
from fairseq_ssl.metrics.metric import HYPOTHESES, ReferenceMetric, SentenceStatistics, TextSource

VARIANTS = {"1": "rouge1", "2": "rouge2", "L": "rougeL", "Lsum": "rougeLsum"}
"""Names of the ROUGE variants in rouge-score, by their suffix, such as L for ROUGE-L."""
READ_BY_ROUGE = re.compile("[A-Za-z0-9]")
"""Characters that form words in rouge-score. All other characters separate words."""


class Rouge(ReferenceMetric):
    """F1 of ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum, each averaged over the summaries.

    ROUGE-L treats a summary as one sentence. ROUGE-Lsum splits summaries at `sentence_mark`. With
    several references, the highest score is used. As in the original script, words consist of
    digits and Latin letters without accents.

    Args:
        references: one text per annotator (default: passed to each call)
        stem: whether to compare Porter stems instead of words
        sentence_mark: token that separates the sentences of a summary (default: none)

    Example:
        >>> print(Rouge().corpus_score(["the cat sat"], [["the cat ran"]]))
        ROUGE-L = 66.67 (ROUGE-1 = 66.67 ROUGE-2 = 50.00 ROUGE-Lsum = 66.67)
    """

    method = "rouge"
    name = "ROUGE-L"

    def __init__(
        self,
        references: Sequence[TextSource] | None = None,
        stem: bool = False,
        sentence_mark: str | None = None,
    ) -> None:
        super().__init__(references)
        self.stem = stem
        self.sentence_mark = sentence_mark

    def check_references(self, hypotheses: Sequence[str], label: str) -> None:
        """Also raise DataError if ROUGE finds no words in most reference lines with letters."""
        super().check_references(hypotheses, label)
        for name, lines in zip(self._labels, self.references, strict=True):
            texts = [line for line in map(self._split, lines) if any(map(str.isalpha, line))]
            count = sum(READ_BY_ROUGE.search(text) is None for text in texts)
            if count > len(texts) / 2:
                raise DataError(
                    f"ROUGE found no words in {count} of {len(texts)} lines with letters in "
                    f"{name}. As in the original script, words consist of digits and Latin letters "
                    "without accents. Romanize all texts, or replace each word with a number."
                )

    def statistics(self, hypotheses: Sequence[str], label: str = HYPOTHESES) -> SentenceStatistics:
        """Return the F1 of the four variants for each summary, [summaries, 5].

        The last column is 1, so its sum is the number of summaries.
        """
        self.check_references(hypotheses, label)
        package = import_optional("rouge_score.rouge_scorer", "Scoring summaries", "rouge")
        scorer = package.RougeScorer(list(VARIANTS.values()), use_stemmer=self.stem)
        rows = []
        for number, hypothesis in enumerate(hypotheses):
            references = [self._split(lines[number]) for lines in self.references]
            scores = scorer.score_multi(references, self._split(hypothesis))
            rows.append([*(scores[name].fmeasure for name in VARIANTS.values()), 1])
        return np.array(rows, np.float64)

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        """Return the mean F1 of each variant in percent."""
        *sums, count = rows.sum(0)
        return {
            f"ROUGE-{variant}": float(100 * total / count)
            for variant, total in zip(VARIANTS, sums, strict=True)
        }

    def sentence_values(self, row: SentenceStatistics) -> dict[str, float]:
        """Return the F1 of each variant for one summary, in percent."""
        return self.values(row[None])

    def parameters(self) -> dict[str, Any]:
        """Return the signature's parameters: references, options and rouge-score version."""
        return {
            **super().parameters(),
            "stem": self.stem,
            "mark": self.sentence_mark or "none",
            "by": f"rouge-score-{version('rouge-score')}",
        }

    def _split(self, line: str) -> str:
        """Replace sentence marks with newlines, as rouge-score expects."""
        if self.sentence_mark is None:
            return line
        words = " ".join("\n" if word == self.sentence_mark else word for word in line.split())
        return "\n".join(part.strip() for part in words.split("\n") if part.strip())
