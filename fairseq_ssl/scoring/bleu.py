"""sacreBLEU of a corpus, whole and by the length of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_ssl.scoring.bleu_metric import bleu_metric
from fairseq_ssl.scoring.buckets import Bucket


@dataclass(frozen=True)
class Bleu:
    """A score in percent, and how sacreBLEU names the way it was made."""

    score: float
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str], tokenizer: str = "13a") -> Bleu:
    """Score detokenised lines against one reference each."""
    metric = bleu_metric(tokenizer)
    score = metric.corpus_score(list(translations), [list(references)]).score
    return Bleu(float(score), str(metric.get_signature()))


def bleu_by_length(
    translations: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    within: Sequence[Bucket],
    tokenizer: str = "13a",
) -> list[float | None]:
    """Score the lines of each bucket by themselves; None where there are none."""
    scores: list[float | None] = []
    for bucket in within:
        chosen = [i for i, length in enumerate(lengths) if length in bucket]
        some = [translations[i] for i in chosen], [references[i] for i in chosen]
        scores.append(bleu(*some, tokenizer).score if chosen else None)
    return scores
