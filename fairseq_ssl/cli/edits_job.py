"""What ``fairseq-ssl edits`` does once it is clear what is wanted."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fairseq_ssl.cli.console import progress
from fairseq_ssl.edits.corpus import Applying, Drop, GramCount, Labeling, Measuring, Rewritten
from fairseq_ssl.edits.coverage import Coverage
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.labels import Gram
from fairseq_ssl.edits.transforms import Transforms, english_suffixes, read_suffixes
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.atomic import atomic_lines
from fairseq_ssl.io.blocks import PairBlock, pair_blocks
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.signature import Signature


class Done(Protocol):
    """What is known of a block that is worked on."""

    @property
    def pairs(self) -> int:
        """Its pairs of lines."""

    @property
    def share(self) -> float:
        """How much of the file is read with it."""


Result = TypeVar("Result", bound=Done)


@dataclass
class EditsJob:
    """One run of the command: two files, who works, and the options of its kind."""

    source: Path
    target: Path
    engine: Executor
    settings: dict[str, Any]

    def dictionary(self) -> None:
        """Count q-grams, and write those that come most often."""
        longest = self.settings["longest"]
        transforms = self._transforms()
        grams: Counter[Gram] = Counter()
        totals: Counter[str] = Counter()
        for done in self._results("edits dictionary", GramCount(longest)):
            grams.update(done.grams)
            totals.update(pairs=done.pairs, too_long=done.long, incomparable=done.incomparable)
            totals.update(changed=done.changed)
        if not totals["changed"] + totals["incomparable"]:
            raise DataError(
                f"{self.source} and {self.target} are the same in all of {totals['pairs']} pairs, "
                "so there is no edit to count. Expected a text, and its lines as they should be."
            )
        made = EditDictionary.of_counts(grams, self.settings["size"], longest, transforms)
        if self.settings["label_dict"]:
            made.write_for_fairseq(self.settings["label_dict"])
        made.write(self.settings["output"])
        kept, seen = sum(made.counts), grams.total() + totals["too_long"]
        names = ("pairs", "too_long", "incomparable")
        numbers = {"insertions": seen, **{name: totals[name] for name in names}}
        of_them = (
            f", {len(made.grams)} q-grams for {_percent(kept, seen)} of them, "
            f"{_percent(totals['too_long'], seen)} longer than {longest}"
        )
        self._tell(
            f"{totals['pairs']} pairs, {seen} insertions{of_them if seen else ''}; "
            f"{len(made.transforms.table)} transforms, {len(made.labels)} labels"
            f"{_incomparable(totals['incomparable'])}"
        )
        self._publish("dictionary", {"labels": len(made.labels), **numbers}, made)

    def label(self) -> None:
        """Write a line of labels for each pair."""
        dictionary = EditDictionary.read(self.settings["dictionary"])
        drop: Drop = "long" if self.settings["strict"] else "never"
        drop = "lost" if self.settings["exact"] else drop
        coverage = Coverage()
        totals = self._rewrite("label", Labeling(dictionary, drop), coverage)
        share = _percent(coverage.kept.total(), coverage.edits)
        with_label = f", {share} with a label" if coverage.edits else ""
        self._tell(
            f"{totals['lines']} pairs, {totals['without_labels']} dropped; {coverage.edits} edits"
            f"{with_label}"
            f"{_incomparable(coverage.incomparable)}"
        )
        self._publish("label", {"drop": drop, **totals, "coverage": coverage.report()}, dictionary)

    def apply(self) -> None:
        """Write each source line as its labels change it."""
        path = self.settings["dictionary"]
        dictionary = None if path is None else EditDictionary.read(path)
        totals = self._rewrite("apply", Applying(dictionary), Coverage())
        self._tell(
            f"{totals['lines']} lines, {totals['without_labels']} without labels left as they are"
        )
        self._publish("apply", totals, dictionary)

    def stats(self) -> None:
        """Print what the dictionary has labels for."""
        dictionary = EditDictionary.read(self.settings["dictionary"])
        coverage = Coverage()
        for done in self._results("edits stats", Measuring(dictionary)):
            coverage.update(done.coverage)
        given = {"source": str(self.source), "target": str(self.target)}
        signature = Signature("edits-stats", {"fingerprint": dictionary.fingerprint, **given})
        if self.settings["format"] == "json":
            report = {**coverage.report(), "signature": str(signature), **given}
            print(json.dumps(report, indent=2, ensure_ascii=False))
        else:
            print("\n".join(coverage.lines()))
            print(signature, file=sys.stderr)

    def _rewrite(
        self, kind: str, work: Callable[[PairBlock], Rewritten], coverage: Coverage
    ) -> dict[str, int]:
        """Write the lines made of all blocks, and add to the coverage; return their counts."""
        totals = {"lines": 0, "without_labels": 0}
        with atomic_lines(self.settings["output"]) as file:
            for done in self._results(f"edits {kind}", work):
                file.write(done.lines)
                totals["lines"] += done.pairs
                totals["without_labels"] += done.without_labels
                coverage.update(done.coverage)
        return totals

    def _results(self, what: str, work: Callable[[PairBlock], Result]) -> Iterator[Result]:
        """Work on all blocks of the two files."""
        tell = progress(what, "pairs")
        pairs = 0
        for done in self.engine.ordered(work, pair_blocks(self.source, self.target)):
            pairs += done.pairs
            tell(done.pairs, done.share)
            yield done
        if not pairs:
            raise DataError(f"{self.source} is empty. Expected a sentence or more.")

    def _transforms(self) -> Transforms:
        name, cases = self.settings["transforms"], self.settings["case"]
        if name == "none":
            return Transforms.of([], cases)
        pairs = english_suffixes() if name == "english" else read_suffixes(Path(name))
        return Transforms.of(pairs, cases)

    def _publish(
        self, kind: str, numbers: dict[str, Any], dictionary: EditDictionary | None
    ) -> None:
        """Write the signature beside the output, and say where that is."""
        output: Path = self.settings["output"]
        options = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in self.settings.items()
            if name not in ("output", "label_dict")
        }
        known = {"fingerprint": dictionary.fingerprint} if dictionary else {}
        given = {"source": str(self.source), "target": str(self.target)}
        signature = Signature(f"edits-{kind}", {**options, **known, **numbers, **given})
        signature.write_beside(output)
        print(f"{signature}\nwrote {output}", file=sys.stderr)

    def _tell(self, line: str) -> None:
        print(line, file=sys.stderr)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole if whole else 1:.1%}"


def _incomparable(pairs: int) -> str:
    return f"; {pairs} pairs passed over, too long and too different" if pairs else ""
