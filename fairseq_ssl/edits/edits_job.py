"""Edit dictionaries and labels of corpora: pairs in memory, and files of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fairseq_ssl.edits.block_labeling import (
    BlockLabeler,
    GramCounter,
    GramCounts,
    LabelApplier,
    LabeledBlock,
)
from fairseq_ssl.edits.coverage import Coverage
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.labels import Transforms, english_suffixes, read_suffixes
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.atomic import atomic_lines, exclusive
from fairseq_ssl.io.blocks import PairBlock, pair_blocks
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.signature import Signature

SIZE, MAX_NGRAM, ENGLISH = 1000, 2, "english"
"""Defaults, as in the paper."""


@dataclass(frozen=True)
class DictionarySummary:
    """An edit dictionary, and the counts that it was built from."""

    signature: Signature
    dictionary: EditDictionary
    counts: GramCounts

    @property
    def insertions(self) -> int:
        """All insertions."""
        return self.counts.grams.total() + self.counts.too_long


@dataclass(frozen=True)
class EditLabelSummary:
    """Counts of a labeled or edited corpus."""

    signature: Signature
    lines: int
    without_labels: int
    """Dropped pairs, or lines left unchanged."""
    coverage: Coverage
    """Coverage by the dictionary, where pairs are labeled."""


def build_dictionary(
    pairs: Iterable[tuple[str, str]],
    size: int = SIZE,
    max_ngram: int = MAX_NGRAM,
    transforms: str | Path = ENGLISH,
    case: bool = False,
) -> EditDictionary:
    """Build the dictionary of the most frequent edits.

    Args:
        pairs: source and corrected sentences, tokens separated by spaces
        size: q-grams to append or to replace by, 0 or more; the paper's M
        max_ngram: max tokens of a q-gram, 1 or more; the paper's q
        transforms: changes of suffixes: ``english``, ``none``, or a file of suffixes
        case: also have labels that change the case

    >>> build_dictionary([("he go home", "he goes to home")], transforms="none").names
    ('KEEP', 'DELETE', 'APPEND_goes', 'APPEND_to', 'REPLACE_goes', 'REPLACE_to')
    """
    _check_sizes(size, max_ngram)
    counts = GramCounts()
    for source, target in pairs:
        counts.add(source, target, max_ngram)
    return EditDictionary.of_counts(counts.grams, size, max_ngram, _transforms(transforms, case))


def build_dictionary_file(
    source: Path,
    target: Path,
    output: Path,
    *,
    size: int = SIZE,
    max_ngram: int = MAX_NGRAM,
    transforms: str | Path = ENGLISH,
    case: bool = False,
    label_dict: Path | None = None,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> DictionarySummary:
    """Write the dictionary of the most frequent edits of a corpus.

    Args:
        source: text to correct, ``.gz`` by suffix
        target: the corrected lines
        output: the dictionary
        size: as for `build_dictionary`
        max_ngram: as for `build_dictionary`
        transforms: as for `build_dictionary`
        case: as for `build_dictionary`
        label_dict: also write the labels as a dictionary for fairseq-preprocess
        executor: where to work (default: this process)
        progress: called with the number of pairs done
    """
    _check_sizes(size, max_ngram)
    suffixes = None if transforms in (ENGLISH, "none") else Path(transforms)
    _check_outputs({"output": output, "label_dict": label_dict}, source, target, suffixes)
    loaded = _transforms(transforms, case)
    counts = GramCounts()
    with exclusive(output):
        for done in _map_blocks(source, target, GramCounter(max_ngram), executor, progress):
            counts.update(done)
        if not counts.changed + counts.incomparable:
            raise DataError(
                f"{source} and {target} are the same in all of {counts.pairs} pairs, so there is "
                "no edit to count. Expected a text, and its corrected lines."
            )
        dictionary = EditDictionary.of_counts(counts.grams, size, max_ngram, loaded)
        if label_dict:
            dictionary.write_for_fairseq(label_dict)
        dictionary.write(output)
        params = {
            **{"size": size, "max_ngram": max_ngram, "transforms": str(transforms), "case": case},
            **{"fingerprint": dictionary.fingerprint, "labels": len(dictionary.labels)},
            "insertions": counts.grams.total() + counts.too_long,
            **{"pairs": counts.pairs, "too_long": counts.too_long},
            **{"incomparable": counts.incomparable, "source": str(source), "target": str(target)},
        }
        signature = Signature("edits-dictionary", params)
        signature.write_beside(output)
    return DictionarySummary(signature, dictionary, counts)


def label_file(
    source: Path,
    target: Path,
    output: Path,
    dictionary: Path,
    *,
    strict: bool = False,
    exact: bool = False,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> EditLabelSummary:
    """Write the labels of each pair as a line, which is empty for a dropped pair.

    Edits without a label are dropped, as in the paper.

    Args:
        source: text to correct, ``.gz`` by suffix
        target: the corrected lines
        output: the labels
        dictionary: a file of `build_dictionary_file`
        strict: drop pairs with an insertion longer than the dictionary's `max_ngram`, as the
            authors' code does
        exact: drop pairs whose labels do not restore the target
        executor: where to work (default: this process)
        progress: called with the number of pairs done
    """
    _check_outputs({"output": output}, source, target, dictionary)
    loaded = EditDictionary.read(dictionary)
    work = BlockLabeler(loaded, strict, exact)
    drop = "lost" if exact else "long" if strict else "never"
    options = {"dictionary": str(dictionary), "strict": strict, "exact": exact}
    options |= {"fingerprint": loaded.fingerprint, "drop": drop}
    return _write_lines("label", source, target, output, work, options, executor, progress)


def apply_file(
    source: Path,
    labels: Path,
    output: Path,
    dictionary: Path | None = None,
    *,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> EditLabelSummary:
    """Write each source line after the edits of its labels.

    Args:
        source: text to edit, ``.gz`` by suffix
        labels: a line of labels for each source line; an empty line leaves it unchanged
        output: the edited text
        dictionary: reject labels that are not in this file
        executor: where to work (default: this process)
        progress: called with the number of lines done
    """
    _check_outputs({"output": output}, source, labels, dictionary)
    loaded = EditDictionary.read(dictionary) if dictionary else None
    options: dict[str, Any] = {"dictionary": str(dictionary) if dictionary else None}
    options |= {"fingerprint": loaded.fingerprint} if loaded else {}
    work = LabelApplier(loaded)
    return _write_lines("apply", source, labels, output, work, options, executor, progress)


def measure_coverage(
    source: Path,
    target: Path,
    dictionary: Path,
    *,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> EditLabelSummary:
    """Return which edits of a corpus have a label, and the scores that are possible with them."""
    loaded = EditDictionary.read(dictionary)
    work = BlockLabeler(loaded, strict=False, exact=False)
    coverage = Coverage()
    for done in _map_blocks(source, target, work, executor, progress):
        coverage.update(done.coverage)
    params = {"fingerprint": loaded.fingerprint, "source": str(source), "target": str(target)}
    return EditLabelSummary(Signature("edits-stats", params), coverage.pairs, 0, coverage)


def _write_lines(
    name: str,
    source: Path,
    target: Path,
    output: Path,
    work: Callable[[PairBlock], LabeledBlock],
    options: dict[str, Any],
    executor: Executor | None,
    progress: ProgressFactory,
) -> EditLabelSummary:
    """Write the lines of all blocks and a signature."""
    counts = {"lines": 0, "without_labels": 0}
    coverage = Coverage()
    with exclusive(output):
        with atomic_lines(output) as file:
            for done in _map_blocks(source, target, work, executor, progress):
                file.write(done.lines)
                counts["lines"] += done.pairs
                counts["without_labels"] += done.without_labels
                coverage.update(done.coverage)
        measured = {"coverage": coverage.report()} if name == "label" else {}
        files = {"source": str(source), "target": str(target)}
        signature = Signature(f"edits-{name}", {**options, **counts, **measured, **files})
        signature.write_beside(output)
    return EditLabelSummary(signature, counts["lines"], counts["without_labels"], coverage)


class _PairResult(Protocol):
    @property
    def pairs(self) -> int:
        """Pairs of the block."""

    @property
    def share(self) -> float:
        """Share of the file that is read with the block."""


_Result = TypeVar("_Result", bound=_PairResult)


def _map_blocks(
    source: Path,
    target: Path,
    work: Callable[[PairBlock], _Result],
    executor: Executor | None,
    progress: ProgressFactory,
) -> Iterator[_Result]:
    """Yield the results of the blocks of two files."""
    report = progress("edits", "pairs")
    pairs = 0
    for done in (executor or LocalExecutor(1)).imap(work, pair_blocks(source, target)):
        pairs += done.pairs
        report(done.pairs, done.share)
        yield done
    if not pairs:
        raise DataError(f"{source} is empty. Expected a sentence or more.")


def _transforms(transforms: str | Path, case: bool) -> Transforms:
    if transforms == "none":
        return Transforms.of([], case)
    pairs = english_suffixes() if transforms == ENGLISH else read_suffixes(Path(transforms))
    return Transforms.of(pairs, case)


def _check_sizes(size: int, max_ngram: int) -> None:
    if size < 0:
        raise UsageError(f"`size` is {size}. Expected 0 or more.")
    if max_ngram < 1:
        raise UsageError(f"`max_ngram` is {max_ngram}. Expected 1 or more.")


def _check_outputs(outputs: dict[str, Path | None], *inputs: Path | None) -> None:
    """Reject outputs that are an input, or one file."""
    read = {path.resolve() for path in inputs if path}
    for name, path in outputs.items():
        if path and path.resolve() in read:
            raise UsageError(f"{path} is an input. Choose another file for `{name}`.")
    written = [path.resolve() for path in outputs.values() if path]
    if len(set(written)) < len(written):
        raise UsageError(f"`output` and `label_dict` are both {outputs['output']}. Use two files.")
