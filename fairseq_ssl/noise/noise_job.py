"""Noise for lists of lines and for files of any size."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError, check_integer
from fairseq_ssl.io.blocks import byte_blocks
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import (
    ProgressFactory,
    TextInput,
    TextJob,
    check_distinct,
    check_read_twice,
    file_or_stream,
    silent_progress,
)
from fairseq_ssl.io.outputs import build_once, is_device, is_done, write_signature
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import SURROGATE, join_lines, open_text, optional_path
from fairseq_ssl.noise.block_noise import (
    CorpusNoise,
    NoiseSpec,
    build_noise,
    count_words,
    line_problem,
    parse_noise,
)
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.confusion_sets import read_confusion_sets
from fairseq_ssl.noise.learner_errors import LearnerErrors
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.options import option, options_of
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import count_line_words, count_lines, read_counts, write_counts

TOTALS = ("lines", "tokens", "changed")


@dataclass(frozen=True)
class NoiseSummary:
    """Result of `noise_file`."""

    signature: Signature
    outputs: tuple[Path, ...]
    """The output, or empty for a stream."""
    lines: int
    tokens: int
    """Number of tokens of the clean lines."""
    changed: int
    """Number of clean tokens that are deleted, replaced or moved."""


@dataclass(frozen=True)
class NoiseResources:
    """Word counts and other data that noises need besides their options."""

    counts: Mapping[str, int] | str | Path | None = option(
        None,
        "word counts in the format of fairseq's dict.txt, for drawing random words",
        usual="count words in INPUT and store them in OUTPUT.counts",
    )
    confusion_sets: Mapping[str, Sequence[str]] | str | Path | None = option(
        None, "for confusion: output of fairseq-ssl confusion-sets"
    )
    learner_errors: LearnerErrors | str | Path | None = option(
        None, "for learner: output of fairseq-ssl learner-errors", usual="a built-in list"
    )
    mask_token: str = "<mask>"

    def __post_init__(self) -> None:
        if self.mask_token.split() != [self.mask_token]:
            raise UsageError(
                f"`mask_token` is {self.mask_token!r}. Expected one token without spaces."
            )

    def given_counts(self) -> Mapping[str, int] | None:
        """Return the word counts, read from their file if they are in one; None for a default."""
        return read_counts(self.counts) if isinstance(self.counts, str | Path) else self.counts

    def load(self, method: Sequence[NoiseSpec], counts: Mapping[str, int]) -> dict[str, Any]:
        """Load the resources for the noises of `method`. Return them by field name of the noises.

        `counts` are the word counts, from `self.counts` or from the text.
        """
        loaded: dict[str, Any] = {"spared": frozenset({self.mask_token})}
        drawn: list[str] = []
        if _needs(method, "unigrams"):
            # A dictionary has a count for the mask, which is in no text.
            words = {word: count for word, count in counts.items() if word != self.mask_token}
            for word in words if self.counts is not None else ():
                if not word or " " in word or "\n" in word or "\0" in word:
                    raise DataError(
                        f"The word counts have {word!r}. Expected words without spaces or NUL."
                    )
            drawn, loaded["unigrams"] = Unigrams.of(words)
        if _needs(method, "confusions"):
            if self.confusion_sets is None:
                raise UsageError(
                    "The noise 'confusion' needs `confusion_sets`. Create them with: fairseq-ssl "
                    "confusion-sets"
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
        """Return a digest of each resource by field name, None for a default."""
        return {name: _digest(getattr(self, name)) for name in options_of(NoiseResources)}


def _needs(method: Sequence[NoiseSpec], resource: str) -> bool:
    return any(resource in spec.needs for spec in method)


def add_noise(
    lines: Iterable[str], method: str, *, seed: int = 1, resources: NoiseResources | None = None
) -> list[str]:
    """Return noisy lines, the same as `noise_file` writes for a file of these lines.

    Args:
        lines: clean lines, tokens separated by spaces
        method: one or more noises with options: ``direct``, ``shuffle:mean=0.3,characters``
        seed: random seed, 0 or more
        resources: word counts, confusion sets, learner errors, mask token

    >>> add_noise(["the cat sat on the mat", "a dog barked"], "direct", seed=1)
    ['cat dog sat on on <mask>', 'a barked']
    """
    check_integer("seed", seed, 0)
    text = join_lines(lines, "the clean text")
    clean = text.split("\n")[:-1]
    for number, line in enumerate(clean, 1):
        if problem := "contains a surrogate" if SURROGATE.search(line) else line_problem(line):
            raise DataError(f"Line {number} {problem}.")
    if not clean:
        return []
    resources = resources or NoiseResources()
    counts = resources.given_counts()
    loaded = resources.load(
        specs := parse_noise(method), count_line_words(clean) if counts is None else counts
    )
    noise = CorpusNoise(build_noise(specs, loaded), loaded["table"], seed)
    noisy = b"".join(noise(block).outputs[0] for block in byte_blocks(io.BytesIO(text.encode())))
    return noisy.decode("utf-8").split("\n")[:-1]


def noise_file(
    source: str | Path | None,
    output: str | Path | IO[bytes],
    method: str,
    *,
    seed: int = 1,
    resources: NoiseResources | None = None,
    shard: tuple[int, int] = (1, 1),
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> NoiseSummary | None:
    """Add noise to a text file. Return None if the outputs are already complete.

    The output does not depend on the number of processes and shards. Interrupted runs resume.

    Args:
        source: clean tokenized text, gzip if the name ends with ``.gz``; None for stdin
        output: noisy text, a file (gzip if the name ends with ``.gz``) or a binary stream
        method: one or more noises with options: ``direct``, ``shuffle:mean=0.3,characters``
        seed: random seed, 0 or more
        resources: word counts, confusion sets, learner errors, mask token
        shard: (i, n) for the i-th of n shards of the source; the output gets a shard suffix
        executor: `Executor` for the blocks (default: this process)
        overwrite: replace an existing output
        progress: called with the number of lines done
    """
    check_integer("seed", seed, 0)
    resources, specs = resources or NoiseResources(), parse_noise(method)
    text = TextInput(optional_path(source), shard)
    noisy, stream = file_or_stream(output)
    if noisy is None and shard != (1, 1):
        raise UsageError("`shard` needs an `output` file.")
    outputs, kept = [text.shard_path(noisy)] if noisy else [], None
    if noisy and resources.counts is None and _needs(specs, "unigrams"):
        kept = noisy.with_name(f"{noisy.name}.counts")
    read = (text.path, resources.counts, resources.confusion_sets, resources.learner_errors)
    check_distinct(
        [as_path(path) for path in read if isinstance(path, str | Path)],
        [*outputs, *([kept] if kept else [])],
    )
    job = _NoiseJob(text, outputs, executor, progress, specs, seed, resources, kept)
    if not job.run(stream, overwrite):
        return None
    counts = (job.totals[name] for name in TOTALS)
    return NoiseSummary(job.signature(), tuple(outputs), *counts)


class _NoiseJob(TextJob):
    """The job of `noise_file`."""

    name = "noise"

    def __init__(
        self,
        text: TextInput,
        outputs: Sequence[Path],
        executor: Executor | None,
        progress: ProgressFactory,
        method: list[NoiseSpec],
        seed: int,
        resources: NoiseResources,
        kept_counts: Path | None,
    ) -> None:
        super().__init__(text, outputs, executor, progress)
        self.method, self.seed = method, seed
        self.resources, self.kept_counts = resources, kept_counts
        self.params = {
            "noise": ",".join(map(str, method)),
            "seed": seed,
            "input": str(text),
            "input_is": text.fingerprint,
            "output": str(outputs[0] if outputs else None),
            "shard": "{}/{}".format(*text.shard),
            "mask_token": resources.mask_token,
            **resources.fingerprints(),
            "version": __version__,
        }

    def signature(self) -> Signature:
        """Return the signature of the outputs, with all parameters and counts."""
        names = ("noise", "seed", "mask_token", *options_of(NoiseResources))
        parameters = {name: self.params[name] for name in names}
        if self.text.shard != (1, 1):
            parameters["shard"] = self.params["shard"]
        counts = {name: self.totals[name] for name in TOTALS}
        return Signature("noise", parameters, self.params | counts)

    def prepare(self) -> CorpusNoise:
        """Load the resources. Return the noise function of a block."""
        counts = self._counts() if _needs(self.method, "unigrams") else {}
        loaded = self.resources.load(self.method, counts)
        noise = build_noise(self.method, loaded)
        suffix = self.outputs[0].suffix if self.outputs else ""
        return CorpusNoise(noise, loaded["table"], self.seed, self.text.path, suffix)

    def _counts(self) -> Mapping[str, int]:
        """Return the word counts of the resources, or of the text.

        Counts of the text are saved, so that other shards and seeds do not count it again.
        """
        given, path, kept = self.resources.given_counts(), self.text.path, self.kept_counts
        if given is not None:
            return given
        if path is None or is_device(path):
            raise UsageError(
                "This noise samples words by their counts, which cannot be counted on stdin or in "
                "another pipe, since it is read once. Set "
                "`counts` to a file such as fairseq's dict.txt, or read the text from a file."
            )
        if kept is None:
            return self._count_words(path)
        made_of = {"input_is": self.text.fingerprint}

        def count() -> None:
            words = self._count_words(path)
            is_ours = is_done([kept], {"method": "word-counts"})
            if kept.exists() and not is_ours:  # a job killed before it wrote the signature
                is_ours = kept.read_bytes() == "".join(count_lines(words)).encode()
            if kept.exists() and not is_ours:
                raise UsageError(
                    f"{kept} would be replaced by word counts, and was not written by this job. "
                    "Rename it, or choose another output."
                )
            write_counts(words, kept)
            write_signature(Signature("word-counts", {}, {"input": str(path), **made_of}), kept)

        build_once(kept, lambda: is_done([kept], made_of), count)
        return read_counts(kept)

    def _count_words(self, path: Path) -> Counter[str]:
        counts: Counter[str] = Counter()
        report = self.progress("count words", "blocks")
        with open_text(path) as file:
            for block in self.executor.imap(count_words, byte_blocks(file, name=str(path))):
                counts.update(block)
                report(1)
        if not counts:
            raise DataError(
                f"{path} has no words. Expected clean text with tokens separated by spaces."
            )
        return counts


def _digest(source: object) -> str | None:
    """Return a short SHA-256 digest of the content of a file, or of the representation of data."""
    if not isinstance(source, str | Path):
        return None if source is None else hashlib.sha256(repr(source).encode()).hexdigest()[:16]
    check_read_twice(source)
    return content_digest(source)
