"""Statistics of M2 files: sentences, tokens, and edits by annotator, type and operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fairseq_ssl.errors import DataError, one_line
from fairseq_ssl.text.m2 import M2Sentence, main_type, operation


@dataclass
class AnnotatorStatistics:
    """Numbers of sentences and edits for an annotator."""

    sentences: int = 0
    unchanged: int = 0
    """Number of sentences without edits."""
    types: Counter[str] = field(default_factory=Counter)
    """Number of edits by full type, such as R:NOUN:NUM, including edits without a correction."""

    @property
    def edits(self) -> int:
        """Number of edits of all types."""
        return self.types.total()

    def by(self, category: Callable[[str], str]) -> Counter[str]:
        """Return the number of edits per category. `category` maps an edit type to its category."""
        counts: Counter[str] = Counter()
        for kind, count in self.types.items():
            counts[category(kind)] += count
        return counts


@dataclass
class M2Statistics:
    """Numbers of sentences, tokens and edits in an M2 file.

    Example:
        >>> from fairseq_ssl.text.m2 import parse_m2
        >>> block = ["S a cat sit .", "A 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0"]
        >>> M2Statistics.of(parse_m2(block, "gold.m2")).content()["tokens"]
        4
    """

    sentences: int = 0
    tokens: int = 0
    annotators: dict[int, AnnotatorStatistics] = field(default_factory=dict)

    @classmethod
    def of(cls, sentences: Iterable[M2Sentence], name: str = "The text") -> M2Statistics:
        """Count sentences, tokens and edits. `name` is the file name in messages."""
        statistics = cls()
        for sentence in sentences:
            statistics.sentences += 1
            statistics.tokens += len(sentence.words)
            for annotator, edits in sentence.annotators.items():
                counts = statistics.annotators.setdefault(annotator, AnnotatorStatistics())
                counts.sentences += 1
                counts.unchanged += not edits
                counts.types.update(edit.type for edit in edits)
        if not statistics.sentences:
            raise DataError(f"{name} contains no line that begins with 'S '. Expected an M2 file.")
        statistics.annotators = dict(sorted(statistics.annotators.items()))
        return statistics

    def content(self) -> dict[str, Any]:
        """Return all numbers as a JSON-serializable dictionary."""
        return {
            "sentences": self.sentences,
            "tokens": self.tokens,
            "annotators": {
                str(annotator): {
                    "sentences": counts.sentences,
                    "unchanged": counts.unchanged,
                    "edits": counts.edits,
                    "operations": dict(counts.by(operation).most_common()),
                    "types": dict(counts.types.most_common()),
                }
                for annotator, counts in self.annotators.items()
            },
        }

    def tables(self) -> Iterator[list[list[str]]]:
        """Yield three tables as rows of cells: totals, annotators, and types by operation."""
        total = AnnotatorStatistics()
        for counts in self.annotators.values():
            total.types.update(counts.types)
        operations = sorted({operation(kind) for kind in total.types if kind[1:2] == ":"})
        yield [["sentences", "tokens"], [str(self.sentences), str(self.tokens)]]
        rows = [["annotator", "sentences", "unchanged", "edits", *operations]]
        for annotator, counts in self.annotators.items():
            done = counts.by(operation)
            numbers = counts.sentences, counts.unchanged, counts.edits, *map(done.get, operations)
            rows.append([str(annotator), *(str(number or 0) for number in numbers)])
        yield rows
        several = self.annotators if len(self.annotators) > 1 else {}
        rows = [["type", "edits", "%", *operations, *(f"annotator {number}" for number in several)]]
        of_each = [counts.by(main_type) for counts in several.values()]
        for kind, count in total.by(main_type).most_common():
            parts = [total.types[f"{name}:{kind}"] for name in operations]
            percentage = f"{100 * count / total.edits:.1f}"
            numbers = *parts, *(counts[kind] for counts in of_each)
            rows.append([one_line(kind), str(count), percentage, *map(str, numbers)])
        yield rows
