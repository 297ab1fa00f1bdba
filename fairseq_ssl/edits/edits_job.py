"""Edit dictionaries and edit labels for files of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from fairseq_ssl.edits.alignment import align_tokens
from fairseq_ssl.edits.coverage import Coverage
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import LabelExtractor, join_changes, transform_index
from fairseq_ssl.edits.labels import Gram
from fairseq_ssl.edits.transforms import GROUPS, Transforms, english_suffixes, read_suffixes
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.blocks import Block
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import ProgressFactory, check_distinct, silent_progress
from fairseq_ssl.io.outputs import exclusive, write_signature
from fairseq_ssl.io.parts import BlockFunction, BlockResult
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import checked_pairs, convert_fields, optional_path
from fairseq_ssl.io.text_jobs import Output, Outputs, TextJob
from fairseq_ssl.options import check, option
from fairseq_ssl.signature import Signature, changed_options

ENGLISH = "english"
"""Name of PIE's suffix transforms in `EditDictionaryConfig.transforms`."""


def _groups_option(default: tuple[str, ...], usual: str) -> Any:
    return option(
        default,
        "comma-separated groups of additional transforms for English: case, merge (two words), "
        "split (at hyphens), verb (forms) and number (of nouns), or all or none of them",
        usual=usual,
        parse=_parse_groups,
        metavar="GROUP,...|all|none",
    )


def _parse_groups(text: str) -> tuple[str, ...]:
    return {"all": GROUPS, "none": ()}.get(text, tuple(dict.fromkeys(text.split(","))))


@dataclass(frozen=True)
class EditDictionaryConfig:
    """Size and transforms of an edit dictionary. The defaults are from PIE."""

    size: int = option(
        1000,
        "number of q-grams that can be appended to a token or replace a token; the most frequent "
        "q-grams are selected",
        low=0,
    )
    """Number of q-grams that can be appended to a token or replace it, M in PIE."""
    max_ngram: int = option(2, "max number of tokens in a q-gram", low=1)
    """Maximum number of tokens in a q-gram, q in PIE."""
    transforms: str | Path = option(
        ENGLISH,
        "suffix transforms: english (as in PIE), none, or a file; each line of the file contains "
        "two interchangeable suffixes (- if empty) and optional words that keep the first suffix, "
        "for example: - s a I",
        parse=str,
        metavar="FILE|english|none",
    )
    groups: tuple[str, ...] = _groups_option((), "none")
    """Names in `GROUPS`. If there are any, the q-gram counts exclude edits that a transform can
    make. Otherwise, they include all insertions, as in PIE."""

    def __post_init__(self) -> None:
        check(self)

    def load_transforms(self) -> Transforms:
        """Return the suffix transforms and the transforms of the groups."""
        if self.transforms == "none":
            return Transforms.of([], self.groups)
        is_file = self.transforms != ENGLISH
        pairs = read_suffixes(Path(self.transforms)) if is_file else english_suffixes()
        return Transforms.of(pairs, self.groups)


@dataclass(frozen=True)
class EditDataConfig(EditDictionaryConfig):
    """Edit dictionary of a data folder: an existing one, or options for building one.

    All groups of transforms are used by default.
    """

    groups: tuple[str, ...] = _groups_option(GROUPS, "all")
    dictionary: Path | None = option(
        None,
        "existing labels to use: output file of `fairseq-ssl edits dictionary`, or a GECToR model",
        usual="new labels, built with the options above",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        convert_fields(self, ["dictionary"])
        others = changed_options(self, "dictionary")
        if self.dictionary is not None and others:
            raise UsageError(
                f"`{min(others)}` cannot be used with `dictionary`, which already defines all "
                "labels. Remove one of the two."
            )


@dataclass
class GramCounts:
    """Counts of inserted q-grams, insertions and sentence pairs in a corpus."""

    grams: Counter[Gram] = field(default_factory=Counter)
    pairs: int = 0
    too_long: int = 0
    """Number of insertions with more than `max_ngram` tokens. They are not in `grams`."""
    incomparable: int = 0
    """Number of pairs that are too long and too different to align."""
    changed: int = 0
    """Number of aligned pairs whose sides differ."""

    def add(
        self, source: str, target: str, max_ngram: int, transforms: Transforms | None = None
    ) -> None:
        """Count the q-grams that the target inserts after a source token or in its place.

        Edits that `transforms` cover are not counted.
        """
        self.pairs += 1
        tokens = source.split()
        changes = align_tokens(tokens, target.split())
        if changes is None:
            self.incomparable += 1
            return
        self.changed += bool(changes)
        if transforms is not None:
            joined = join_changes(transforms, tokens, changes)
            changes = [edit for edit in joined if transform_index(transforms, tokens, edit) is None]
        for change in changes:
            if len(change.inserted) > max_ngram:
                self.too_long += 1
            elif change.inserted:
                self.grams[change.inserted] += 1

    def update(self, other: GramCounts) -> None:
        """Add the counts of another part of the corpus."""
        self.grams.update(other.grams)
        self.pairs += other.pairs
        self.too_long += other.too_long
        self.incomparable += other.incomparable
        self.changed += other.changed


def _count_block_grams(
    max_ngram: int, transforms: Transforms | None, block: Block
) -> tuple[GramCounts, float]:
    """Count the q-grams inserted in a block of pairs, except edits that `transforms` cover.

    Also return the fraction of the input that has been read.
    """
    counts = GramCounts()
    for source, target in block.pairs():
        counts.add(source, target, max_ngram, transforms)
    return counts, block.fraction


def _label_block(dictionary: EditDictionary, block: Block) -> BlockResult:
    """Return a line of labels for each pair, and the coverage of the block.

    The line is empty for a pair that is too long and too different to align.
    """
    extractor, coverage, lines = LabelExtractor(dictionary), Coverage(), []
    for source, target in block.pairs():
        labels = extractor(source.split(), target.split())
        coverage.add(dictionary, labels)
        ids = [] if labels is None else labels.ids
        lines.append(" ".join(map(dictionary.names.__getitem__, ids)) + "\n")
    counts = coverage.counts()
    counts["lines"] = coverage.pairs
    return BlockResult(("".join(lines).encode(),), counts)


@dataclass(frozen=True)
class DictionarySummary:
    """Dictionary from `build_dictionary_file`, with its signature and counts."""

    signature: Signature
    dictionary: EditDictionary
    counts: GramCounts

    @property
    def insertions(self) -> int:
        """Number of insertions, including insertions of more than `max_ngram` tokens."""
        return self.counts.grams.total() + self.counts.too_long


@dataclass(frozen=True)
class EditLabelSummary:
    """Result of `label_file`: signature, outputs and label coverage."""

    signature: Signature
    outputs: tuple[Path, ...]
    """Path of the label file or folder. Empty if the output is a stream."""
    coverage: Coverage
    """Coverage of the pairs by the dictionary, with the maximum scores that its labels allow."""


def build_dictionary(
    pairs: Iterable[tuple[str, str]],
    config: EditDictionaryConfig | None = None,
) -> EditDictionary:
    """Build a dictionary of the most frequent edits.

    Args:
        pairs: pairs of a source and a corrected sentence, with tokens separated by spaces
        config: size and transforms of the dictionary (default: as in PIE)

    >>> config = EditDictionaryConfig(transforms="none")
    >>> build_dictionary([("he go home", "he goes to home")], config).names
    ('KEEP', 'DELETE', 'APPEND_goes', 'APPEND_to', 'REPLACE_goes', 'REPLACE_to')
    """
    config = config or EditDictionaryConfig()
    transforms = config.load_transforms()
    counts = GramCounts()
    for source, target in checked_pairs(pairs):
        counts.add(source, target, config.max_ngram, transforms if config.groups else None)
    return EditDictionary.of_counts(counts.grams, config.size, config.max_ngram, transforms)


def build_dictionary_file(
    source: str | Path,
    target: str | Path,
    output: str | Path,
    config: EditDictionaryConfig | None = None,
    *,
    label_dict: str | Path | None = None,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> DictionarySummary:
    """Build a dictionary of the most frequent edits in a corpus, and write it to a file.

    Args:
        source: uncorrected text file, which can be compressed
        target: corrected text file, parallel to the source
        output: path of the new dictionary file
        config: size and transforms of the dictionary (default: as in PIE)
        label_dict: path for the labels in fairseq's dictionary format (default: not written)
        executor: executor that processes the blocks (default: the current process does)
        progress: creates the progress report, which receives the number of processed pairs
    """
    config = config or EditDictionaryConfig()
    source, target, output = as_path(source), as_path(target), as_path(output)
    label_dict = optional_path(label_dict)
    suffixes = None if config.transforms in (ENGLISH, "none") else Path(config.transforms)
    check_distinct([source, target, suffixes], [output, *([label_dict] if label_dict else [])])
    transforms = config.load_transforms()
    counts = GramCounts()
    with exclusive(output):
        used = transforms if config.groups else None
        counter = partial(_count_block_grams, config.max_ngram, used)
        report = progress("edits", "pairs")
        blocks = Corpus((source, target)).blocks()
        for found, fraction in (executor or LocalExecutor(1)).imap(counter, blocks):
            counts.update(found)
            report(found.pairs, fraction)
        if not counts.pairs:
            raise DataError(f"{source} is empty. Expected at least one sentence.")
        if not counts.changed + counts.incomparable:
            raise DataError(
                f"{source} and {target} are equal in all {counts.pairs} pairs. Expected a text and "
                "its corrected version."
            )
        dictionary = EditDictionary.of_counts(
            counts.grams, config.size, config.max_ngram, transforms
        )
        if label_dict:
            dictionary.write_for_fairseq(label_dict)
        dictionary.write(output)
        params = {
            **{"size": config.size, "max_ngram": config.max_ngram},
            "transforms": str(config.transforms),
            "groups": ",".join(config.groups) or "none",
            **{"fingerprint": dictionary.fingerprint, "labels": len(dictionary.labels)},
            "insertions": counts.grams.total() + counts.too_long,
            **{"pairs": counts.pairs, "too_long": counts.too_long},
            "incomparable": counts.incomparable,
        }
        files = {"source": str(source), "target": str(target)}
        if suffixes:
            params["transforms"], files["transforms"] = content_digest(suffixes), str(suffixes)
        signature = Signature("edits-dictionary", params, files)
        write_signature(signature, output)
    return DictionarySummary(signature, dictionary, counts)


def label_file(
    source: str | Path,
    target: str | Path,
    output: Output,
    dictionary: str | Path,
    *,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> EditLabelSummary | None:
    """Write the edit labels of a parallel corpus, one line per pair.

    Edits without a label in the dictionary are ignored, as in PIE. Pairs that are too long and too
    different to align get an empty line. The output does not depend on executor, parts or shards.
    Interrupted runs resume. Return None if the output was complete or other shards must finish.

    Args:
        source: uncorrected text
        target: corrected text
        output: file, folder of parts, or binary stream for the labels
        dictionary: dictionary file, written by `build_dictionary_file`
        executor: executor that processes the blocks or parts (default: the current process does)
        overwrite: whether to replace an existing output
        progress: creates the progress report, which receives the number of processed pairs
    """
    corpus = Corpus((optional_path(source), optional_path(target)))
    outputs = Outputs.of(output)
    job = _LabelJob(corpus, outputs, executor, progress, as_path(dictionary))
    if not job.run(overwrite):
        return None
    return EditLabelSummary(job.signature(), outputs.paths, Coverage.of(job.totals))


@dataclass
class _LabelJob(TextJob):
    """Resumable job that `label_file` runs."""

    path: Path
    """Path of the dictionary file."""
    name, unit = "edits", "pairs"

    def reads(self) -> list[Path]:
        return [self.path]

    @cached_property
    def dictionary(self) -> EditDictionary:
        """Edit dictionary, read from `path`."""
        return EditDictionary.read(self.path)

    def parameters(self) -> dict[str, Any]:
        source, target = self.corpus.names
        return {
            "source": source,
            "target": target,
            "input_is": self.corpus.fingerprint,
            "output": str(self.outputs.paths[0] if self.outputs.paths else None),
            "dictionary": str(self.path),
            "fingerprint": self.dictionary.fingerprint,
        }

    def signature(self) -> Signature:
        coverage = Coverage.of(self.totals)
        parameters = {
            "fingerprint": self.dictionary.fingerprint,
            "lines": coverage.pairs,
            "without_labels": coverage.incomparable,
        }
        details = {**self.params, "coverage": coverage.report()}
        return Signature("edits-label", parameters, details)

    def prepare(self) -> BlockFunction:
        return partial(_label_block, self.dictionary)
