"""Add noise to lists of lines, or to files of any size."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError, UsageError, check_integer
from fairseq_ssl.io.blocks import memory_blocks
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import ProgressFactory, check_distinct, check_read_twice, silent_progress
from fairseq_ssl.io.outputs import build_once, is_device, is_done, write_signature
from fairseq_ssl.io.remote import RemotePath
from fairseq_ssl.io.text_files import SURROGATE, join_lines, optional_path
from fairseq_ssl.io.text_jobs import Output, Outputs, TextJob
from fairseq_ssl.noise.batch import Random
from fairseq_ssl.noise.block_noise import (
    MAX_TOKENS,
    CorpusNoise,
    NoiseSpec,
    build_noise,
    count_words,
    line_problem,
    parse_noise,
)
from fairseq_ssl.noise.byte_words import WordTable, split_words
from fairseq_ssl.noise.confusion_sets import read_confusion_sets
from fairseq_ssl.noise.learner_errors import LearnerErrors
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.options import option, options_of
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import count_line_words, count_lines, read_counts, write_counts

TOTALS = ("lines", "tokens", "changed")
COUNTED = 2**24
"""Size of the text parts whose words are counted in parallel, in bytes."""


@dataclass(frozen=True)
class NoiseSummary:
    """Signature, outputs and counts of a text with added noise."""

    signature: Signature
    outputs: tuple[Path, ...]
    """Path of the output, or an empty tuple if the output is a stream."""
    lines: int
    tokens: int
    """Number of clean tokens."""
    changed: int
    """Number of clean tokens that are deleted, replaced or moved."""


@dataclass(frozen=True)
class NoiseResources:
    """Word counts and other data that noises need in addition to their options."""

    counts: Mapping[str, int] | str | Path | None = option(
        None,
        "word counts in fairseq's dict.txt format, used to sample random words",
        usual="count the words of INPUT and store the counts in OUTPUT.counts",
    )
    confusion_sets: Mapping[str, Sequence[str]] | str | Path | None = option(
        None, "output file of fairseq-ssl confusion-sets, required for the method confusion"
    )
    learner_errors: LearnerErrors | str | Path | None = option(
        None,
        "output file of fairseq-ssl learner-errors, for the method learner",
        usual="built-in counts",
    )
    mask_token: str = "<mask>"

    def __post_init__(self) -> None:
        if self.mask_token.split() != [self.mask_token]:
            raise UsageError(
                f"`mask_token` is {self.mask_token!r}. Expected a single token without spaces."
            )

    def given_counts(self) -> Mapping[str, int] | None:
        """Return the word counts, read from a file if `counts` is a path, or None if unset."""
        return read_counts(self.counts) if isinstance(self.counts, str | Path) else self.counts

    def load(self, method: Sequence[NoiseSpec], counts: Mapping[str, int]) -> dict[str, Any]:
        """Return the resources that `method` needs, keyed by the noise classes' field names.

        `counts` contains the word counts from `self.counts` or from the text.
        """
        loaded: dict[str, Any] = {"spared": frozenset({self.mask_token})}
        drawn: list[str] = []
        if _needs(method, "unigrams"):
            # A dictionary can contain a count for the mask, which does not occur in text.
            words = {word: count for word, count in counts.items() if word != self.mask_token}
            for word in words if self.counts is not None else ():
                if not word or " " in word or "\n" in word or "\0" in word:
                    raise DataError(
                        f"The word counts contain {word!r}. Expected nonempty words without "
                        "spaces, newlines or NUL characters."
                    )
            drawn, loaded["unigrams"] = Unigrams.of(words)
        if _needs(method, "confusions"):
            if self.confusion_sets is None:
                raise UsageError(
                    "The noise 'confusion' needs `confusion_sets`. Create the file with: "
                    "fairseq-ssl confusion-sets"
                )
            sets = self.confusion_sets
            loaded["confusions"] = (
                read_confusion_sets(sets) if isinstance(sets, str | Path) else dict(sets)
            )
        if (errors := self.learner_errors) is not None:
            loaded["learner_errors"] = (
                LearnerErrors.read(errors) if isinstance(errors, str | Path) else errors
            )
        loaded["table"] = WordTable([*drawn, self.mask_token])
        loaded["mask_token"] = len(drawn)
        return loaded

    def fingerprints(self) -> dict[str, str | None]:
        """Return the digest of each resource by field name, or None for an unset resource."""
        return {name: _digest(getattr(self, name)) for name in options_of(NoiseResources)}


def _needs(method: Sequence[NoiseSpec], resource: str) -> bool:
    return any(resource in spec.needs for spec in method)


def add_noise(
    lines: Iterable[str], method: str, *, seed: int = 1, resources: NoiseResources | None = None
) -> list[str]:
    """Add noise to a list of lines. The noisy lines are the same as with `noise_file`.

    Args:
        lines: clean lines, with tokens separated by spaces
        method: one or more noises with options, such as ``direct,characters:rate=0.01``
        seed: random seed, 0 or more
        resources: word counts, confusion sets, learner errors, mask token

    >>> add_noise(["the cat sat on the mat", "a dog barked"], "direct", seed=1)
    ['cat dog sat on on <mask>', 'a barked']
    """
    check_integer("seed", seed, 0)
    clean = _clean_lines(lines)
    if not clean:
        return []
    resources = resources or NoiseResources()
    if resources.counts is None:
        resources = replace(resources, counts=count_line_words(clean))
    noise = LineNoise(method, seed=seed, resources=resources).noise
    blocks = memory_blocks("\n".join([*clean, ""]).encode("utf-8"))
    return b"".join(noise(block).outputs[0] for block in blocks).decode("utf-8").split("\n")[:-1]


def _clean_lines(lines: Iterable[str]) -> list[str]:
    clean = join_lines(lines, "the clean text").split("\n")[:-1]
    for number, line in enumerate(clean, 1):
        if problem := "contains a surrogate" if SURROGATE.search(line) else line_problem(line):
            raise DataError(f"Line {number} {problem}. Fix or remove the line.")
    return clean


class LineNoise:
    """Picklable function that adds noise to batches of lines, for engines such as Ray Data.

    A line gets the same noise as in the output of `noise_file`, whatever the batch. Its random
    numbers are derived from its position in the text, which `io.line_rows` yields with each line.

    >>> noise = LineNoise("direct", resources=NoiseResources(counts={"the": 2, "cat": 1}))
    >>> noise(["the cat sat on the mat", "a dog barked"], blocks=[0, 0], lines=[0, 1])
    ['cat the sat the on <mask>', 'a barked']
    >>> noise(["a dog barked"], blocks=[0], lines=[1])
    ['a barked']
    """

    def __init__(
        self, method: str, *, seed: int = 1, resources: NoiseResources | None = None
    ) -> None:
        """Load the resources that the noises need.

        Args:
            method: one or more noises with options, such as ``direct,characters:rate=0.01``
            seed: random seed, 0 or more
            resources: word counts, confusion sets, learner errors, mask token. Noises that sample
                words need the word counts of the text.
        """
        check_integer("seed", seed, 0)
        resources, specs = resources or NoiseResources(), parse_noise(method)
        counts = resources.given_counts()
        if counts is None and _needs(specs, "unigrams"):
            raise UsageError(
                "This noise samples words by their frequency, but the words of the text cannot be "
                "counted in batches of lines. Set `counts` to a file in fairseq's dict.txt format, "
                "such as OUTPUT.counts, which fairseq-ssl noise writes."
            )
        loaded = resources.load(specs, counts or {})
        self.noise = CorpusNoise(build_noise(specs, loaded), loaded["table"], seed)

    def __call__(
        self, text: Iterable[str], blocks: Sequence[int], lines: Sequence[int]
    ) -> list[str]:
        """Return the noisy lines of a batch.

        Args:
            text: clean lines, with tokens separated by spaces
            blocks: block index of each line
            lines: index of each line in its block
        """
        clean = _clean_lines(text)
        numbers, at = np.asarray(blocks, np.int64), np.asarray(lines, np.int64)
        if not len(clean) == len(numbers) == len(at):
            raise DataError(
                f"`text`, `blocks` and `lines` have the lengths {len(clean)}, {len(numbers)} and "
                f"{len(at)}. Expected equal lengths."
            )
        if not clean:
            return []
        keys = np.empty(len(clean), np.uint64)
        for number in np.unique(numbers).tolist():
            in_block = numbers == number
            keys[in_block] = Random.of((self.noise.seed, number), at[in_block]).keys
        split = split_words("\n".join(clean).encode("utf-8"), MAX_TOKENS)
        assert split is not None  # the lines were checked above
        noisy = self.noise.noise(self.noise.table.start(*split), Random(keys)).block
        return self.noise.table.words.to_bytes(noisy).decode("utf-8").split("\n")[:-1]


def noise_file(
    source: str | Path | None,
    output: Output,
    method: str,
    *,
    seed: int = 1,
    resources: NoiseResources | None = None,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> NoiseSummary | None:
    """Add noise to a text. Return None if the output was complete or other shards must finish.

    The noisy lines do not depend on the executor, parts or shards. Interrupted runs resume.

    Args:
        source: file with clean tokenized text; None for stdin
        output: file, folder of parts, or binary stream for the noisy text
        method: one or more noises with options, such as ``direct,characters:rate=0.01``
        seed: random seed, 0 or more
        resources: word counts, confusion sets, learner errors, mask token
        executor: executor that processes the blocks or parts (default: the current process does)
        overwrite: whether to replace an existing output
        progress: creates the progress report, which receives the number of processed lines
    """
    check_integer("seed", seed, 0)
    resources, specs = resources or NoiseResources(), parse_noise(method)
    corpus, outputs = Corpus((optional_path(source),)), Outputs.of(output)
    job = _NoiseJob(corpus, outputs, executor, progress, specs, seed, resources)
    if not job.run(overwrite):
        return None
    counts = (job.totals[name] for name in TOTALS)
    return NoiseSummary(job.signature(), outputs.paths, *counts)


@dataclass
class _NoiseJob(TextJob):
    """Resumable job that `noise_file` runs."""

    method: Sequence[NoiseSpec]
    seed: int
    resources: NoiseResources
    name = "noise"

    def __post_init__(self, workers: Executor | None) -> None:
        super().__post_init__(workers)
        self.kept_counts: Path | None = None
        noisy = self.outputs.paths[0] if self.outputs.paths else None
        is_counted = self.resources.counts is None and _needs(self.method, "unigrams")
        if is_counted and noisy is not None and not isinstance(noisy, RemotePath):
            self.kept_counts = noisy.with_name(f"{noisy.name}.counts")
            check_distinct([*self.corpus.paths, *self.reads()], [noisy, self.kept_counts])

    def reads(self) -> list[Path]:
        values = (getattr(self.resources, name) for name in options_of(NoiseResources))
        return [Path(value) for value in values if isinstance(value, str | Path)]

    def parameters(self) -> dict[str, Any]:
        return {
            "noise": ",".join(map(str, self.method)),
            "seed": self.seed,
            "input": str(self.corpus),
            "input_is": self.corpus.fingerprint,
            "output": str(self.outputs.paths[0] if self.outputs.paths else None),
            "mask_token": self.resources.mask_token,
            **self.resources.fingerprints(),
        }

    def signature(self) -> Signature:
        names = ("noise", "seed", "mask_token", *options_of(NoiseResources))
        parameters = {name: self.params[name] for name in names}
        counts = {name: self.totals[name] for name in TOTALS}
        return Signature("noise", parameters, self.params | counts)

    def prepare(self) -> CorpusNoise:
        """Load the resources. Return the function that adds noise to a block."""
        counts = self._counts() if _needs(self.method, "unigrams") else {}
        loaded = self.resources.load(self.method, counts)
        return CorpusNoise(build_noise(self.method, loaded), loaded["table"], self.seed)

    def _counts(self) -> Mapping[str, int]:
        """Return the word counts from the resources, or count the words of the text.

        Counts of the text are saved next to a local output, so that other shards do not count the
        words again.
        """
        given, path, kept = self.resources.given_counts(), self.corpus.texts[0], self.kept_counts
        if given is not None:
            return given
        if path is None or is_device(path):
            raise UsageError(
                "This noise samples words by their frequency, but words cannot be counted in stdin "
                "or another pipe, which can be read only once. Set `counts` to a file in "
                "fairseq's dict.txt format, or read the text from a file."
            )
        if kept is None:
            return self._count_words()
        made_of = {"input_is": self.corpus.fingerprint}

        def count() -> None:
            words = self._count_words()
            is_ours = is_done([kept], {"method": "word-counts"})
            if kept.exists() and not is_ours:  # the job was killed before it wrote the signature
                is_ours = kept.read_bytes() == "".join(count_lines(words)).encode()
            if kept.exists() and not is_ours:
                raise UsageError(
                    f"{kept} exists but was not written by this job, which would replace it with "
                    "word counts. Rename it, or choose a different output."
                )
            write_counts(words, kept)
            write_signature(Signature("word-counts", {}, {"input": str(path), **made_of}), kept)

        build_once(kept, lambda: is_done([kept], made_of), count)
        return read_counts(kept)

    def _count_words(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        spans = self.corpus.parts(COUNTED, self.executor)
        report = self.progress("count words", "parts", len(spans))
        for found in self.executor.imap(count_words, spans):
            counts.update(found)
            report(1)
        if not counts:
            raise DataError(
                f"{self.corpus} contains no words. Expected clean text with tokens separated by "
                "spaces."
            )
        return counts


def _digest(source: object) -> str | None:
    """Return a short digest of a file or of an object's `repr`, or None if `source` is None."""
    if not isinstance(source, str | Path):
        return None if source is None else hashlib.sha256(repr(source).encode()).hexdigest()[:16]
    check_read_twice(source)
    return content_digest(source)
