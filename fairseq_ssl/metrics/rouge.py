"""ROUGE of summaries, by the package rouge-score."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from fairseq_ssl.errors import import_optional

VARIANTS = {"1": "rouge1", "2": "rouge2", "L": "rougeL", "Lsum": "rougeLsum"}
"""What rouge-score calls them; L takes a summary for one sentence, Lsum sentence by sentence."""


def rouge(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    stem: bool = False,
    mark: str | None = None,
) -> dict[str, float]:
    """Return the mean F1 of each variant over all summaries, in percent.

    Args:
        outputs: what is scored
        references: by annotator, what it should be; the best of several counts
        stem: whether to compare the stems of words, as Porter cuts them
        mark: token that stands between the sentences of a summary, for Lsum
    """
    rows = rouge_by_line(outputs, references, stem, mark)
    means = [100 * sum(column) / len(outputs) for column in zip(*rows, strict=True)]
    return dict(zip(VARIANTS, means, strict=True))


def rouge_by_line(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    stem: bool = False,
    mark: str | None = None,
) -> list[list[float]]:
    """Return the F1 of each summary by each variant."""
    package = import_optional("rouge_score.rouge_scorer", "Scoring summaries", "rouge")
    scorer = package.RougeScorer(list(VARIANTS.values()), use_stemmer=stem)
    rows = []
    for number, output in enumerate(outputs):
        wanted = [_sentences(lines[number], mark) for lines in references]
        found = scorer.score_multi(wanted, _sentences(output, mark))
        rows.append([found[name].fmeasure for name in VARIANTS.values()])
    return rows


def package() -> str:
    """Return name and version of what computes it, for a signature."""
    return f"rouge-score-{version('rouge-score')}"


def _sentences(line: str, mark: str | None) -> str:
    """Put each sentence on a line of its own."""
    if mark is None:
        return line
    words = " ".join("\n" if word == mark else word for word in line.split())
    return "\n".join(part.strip() for part in words.split("\n") if part.strip())
