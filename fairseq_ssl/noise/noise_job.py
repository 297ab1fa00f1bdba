"""Noise for lists of lines and for files of any size."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError, check_integer
from fairseq_ssl.io.blocks import BLOCK_SIZE, byte_blocks
from fairseq_ssl.io.executors import Executor, LocalExecutor, open_results
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import (
    Chunks,
    JobState,
    ProgressFactory,
    TextInput,
    check_distinct,
    check_read_twice,
    file_or_stream,
    run_job,
    silent_progress,
)
from fairseq_ssl.io.outputs import build_once, is_device, is_done, write_signature
from fairseq_ssl.io.text_files import join_lines, open_text, optional_path
from fairseq_ssl.noise.block_noise import (
    CorpusNoise,
    FileNoise,
    NoisedBlock,
    NoiseSpec,
    corpus_noise,
    count_words,
    delete_parts,
    parse_noise,
    parts_folder,
)
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.confusion_sets import read_confusion_sets
from fairseq_ssl.noise.learner_errors import LearnerErrors
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.options import option, options_of
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.vocabulary import read_counts, write_counts

TOTALS = ("lines", "tokens", "changed")
BLOCKS = 8
"""Number of blocks per task of a worker process."""


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
        None, "for spell: output of fairseq-ssl confusion-sets"
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

    def load(self, method: Sequence[NoiseSpec], counts: Mapping[str, int]) -> dict[str, Any]:
        """Load the resources for the noises of `method`. Return them by field name of the noises.

        `counts` are the word counts, from `self.counts` or from the text.
        """
        needs = set().union(*(spec.needs for spec in method))
        loaded: dict[str, Any] = {"spared": frozenset({self.mask_token})}
        drawn: list[str] = []
        if "unigrams" in needs:
            # A dictionary has a count for the mask, which is in no text.
            words = {word: count for word, count in counts.items() if word != self.mask_token}
            if self.counts is not None:
                _check_words(words)
            drawn, loaded["unigrams"] = Unigrams.of(words)
        if "confusions" in needs:
            if self.confusion_sets is None:
                raise UsageError(
                    "The noise 'spell' needs `confusion_sets`. Create them with: fairseq-ssl "
                    "confusion-sets"
                )
            loaded["confusions"] = (
                read_confusion_sets(self.confusion_sets)
                if isinstance(self.confusion_sets, str | Path)
                else {word: _words(word, some) for word, some in self.confusion_sets.items()}
            )
        if self.learner_errors is not None:
            loaded["learner_errors"] = (
                LearnerErrors.read(self.learner_errors)
                if isinstance(self.learner_errors, str | Path)
                else self.learner_errors
            )
        loaded["table"] = WordTable([*drawn, self.mask_token])
        loaded["mask_token"] = len(drawn)
        return loaded

    def fingerprints(self) -> dict[str, str | None]:
        """Return a digest of each resource by field name, None for a default."""
        return {name: _digest(getattr(self, name)) for name in options_of(NoiseResources)}


def _check_words(words: Iterable[str]) -> None:
    """Raise DataError for a word that would be several tokens or lines, or a line with a NUL."""
    for word in words:
        if not word or " " in word or "\n" in word or "\0" in word:
            raise DataError(f"The word counts have {word!r}. Expected words without spaces or NUL.")


def _words(word: str, others: Sequence[str]) -> tuple[str, ...]:
    if isinstance(others, str):
        raise TypeError(f"The confusion set of {word!r} is {others!r}. Expected a list of words.")
    return tuple(others)


def add_noise(
    lines: Iterable[str], method: str, *, seed: int = 1, resources: NoiseResources | None = None
) -> list[str]:
    """Return noisy lines, the same as `noise_file` writes for a file of these lines.

    Args:
        lines: clean lines, tokens separated by spaces
        method: one or more noises with options: ``direct``, ``denoise:mean=0.3,spelling``
        seed: random seed, 0 or more
        resources: word counts, confusion sets, learner errors, mask token

    >>> add_noise(["the cat sat on the mat", "a dog barked"], "direct", seed=1)
    ['cat dog sat on on <mask>', 'a barked']
    """
    check_integer("seed", seed, 0)
    data = join_lines(lines, "the clean text").encode("utf-8", "surrogatepass")
    if not data:
        return []
    resources = resources or NoiseResources()
    counts: Counter[str] = Counter()
    if isinstance(resources.counts, str | Path):
        counts.update(read_counts(resources.counts))
    else:
        counts.update(count_words_of(data) if resources.counts is None else resources.counts)
    specs = parse_noise(method)
    noise = corpus_noise(specs, resources.load(specs, counts), seed)
    noisy = b""
    count = 0
    for block in byte_blocks(io.BytesIO(data)):
        result = noise(block)
        if bad := result.bad:
            raise DataError(f"Line {count + bad.place} {bad.what}.")
        count += result.lines
        noisy += cast(bytes, result.output)
    return noisy.decode("utf-8").split("\n")[:-1]


def count_words_of(data: bytes) -> Counter[str]:
    """Count the words of a UTF-8 text, block by block."""
    counts: Counter[str] = Counter()
    for block in byte_blocks(io.BytesIO(data)):
        counts.update(count_words(block))
    return counts


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
        method: one or more noises with options: ``direct``, ``denoise:mean=0.3,spelling``
        seed: random seed, 0 or more
        resources: word counts, confusion sets, learner errors, mask token
        shard: (i, n) for the i-th of n shards of the source; the output gets a shard suffix
        executor: `Executor` for the blocks (default: this process)
        overwrite: replace an existing output
        progress: called with the number of lines done
    """
    text = TextInput(optional_path(source), shard)
    noisy, stream = file_or_stream(output)
    path = noisy and text.shard_path(noisy)
    kept = noisy and _counts_path(noisy, method, resources)
    _check(text, path, kept, resources or NoiseResources(), seed)
    job = _NoiseJob(
        method=parse_noise(method),
        seed=seed,
        text=text,
        output=path,
        resources=resources or NoiseResources(),
        kept_counts=kept,
        executor=executor or LocalExecutor(1),
        progress=progress,
    )
    written = run_job(
        [path] if path else [],
        job.params,
        job.chunks,
        job.signature,
        overwrite=overwrite,
        from_stdin=source is None,
        stdout=stream,
    )
    return job.summary() if written else None


def _counts_path(output: Path, method: str, resources: NoiseResources | None) -> Path | None:
    """Return the file for the word counts of the text, None if they are not needed."""
    is_needed = any("unigrams" in spec.needs for spec in parse_noise(method))
    has_counts = resources is not None and resources.counts is not None
    return output.with_name(f"{output.name}.counts") if is_needed and not has_counts else None


def _check(
    text: TextInput,
    output: Path | None,
    kept_counts: Path | None,
    resources: NoiseResources,
    seed: int,
) -> None:
    """Raise UsageError for invalid or incompatible arguments."""
    check_integer("seed", seed, 0)
    if output is None and text.shard != (1, 1):
        raise UsageError("`shard` needs an `output` file.")
    read = (text.path, resources.counts, resources.confusion_sets, resources.learner_errors)
    files = [Path(one) for one in read if isinstance(one, str | Path)]
    check_distinct(files, [path for path in (output, kept_counts) if path])


@dataclass
class _NoiseJob:
    """Arguments and counts of a call of `noise_file`."""

    method: list[NoiseSpec]
    seed: int
    text: TextInput
    output: Path | None
    resources: NoiseResources
    kept_counts: Path | None
    executor: Executor
    progress: ProgressFactory

    def __post_init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self.params: dict[str, Any] = {
            "noise": ",".join(map(str, self.method)),
            "seed": self.seed,
            "input": str(self.text),
            "input_is": self.text.fingerprint,
            "output": str(self.output),
            "shard": "{}/{}".format(*self.text.shard),
            "mask_token": self.resources.mask_token,
            **self.resources.fingerprints(),
            "version": __version__,
        }
        """Parameters that determine the content of the outputs."""

    def signature(self) -> Signature:
        """Return the signature of the outputs, with all parameters and counts."""
        names = ("noise", "seed", "mask_token", *options_of(NoiseResources))
        parameters = {name: self.params[name] for name in names}
        if self.text.shard != (1, 1):
            parameters["shard"] = self.params["shard"]
        counts = {name: self.totals[name] for name in TOTALS}
        return Signature("noise", parameters, self.params | counts)

    def summary(self) -> NoiseSummary:
        """Return the result of `noise_file`: a short signature, the output paths and the counts."""
        counts = [self.totals[name] for name in TOTALS]
        outputs = (self.output,) if self.output else ()
        return NoiseSummary(self.signature(), outputs, *counts)

    def chunks(self, state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        """Yield the output of each block and the job state after it. Resume from `state`."""
        self.text.resume(state, self.totals)
        compressed = self.output is not None and self.output.suffix == ".gz"
        noise = corpus_noise(self.method, self._resources(), self.seed, compressed)
        report = self.progress("noise", "lines")
        for result, share in self._noised(noise):
            self._count(result)
            report(result.lines, share)
            yield [result.output], {"position": result.end, "totals": self.totals}
        if not self.totals["lines"] and self.text.shard == (1, 1):
            raise DataError(f"{self.text} is empty. Expected one line or more.")

    def _noised(self, noise: CorpusNoise) -> Iterator[tuple[NoisedBlock, float | None]]:
        """Yield the result of each block, and the share of the text that is completed.

        Worker processes read a seekable file themselves and write their output to files, because
        sending text between processes is slow.
        """
        parts = self.output and self.output.with_name(f"{self.output.name}.parts")
        delete_parts(parts)
        if not (
            self.text.is_seekable
            and isinstance(self.executor, LocalExecutor)
            and self.executor.jobs > 1
        ):
            yield from self.text.map_blocks(self.executor, noise)
            return
        assert self.text.path is not None
        first, after = self.text.shard_blocks()
        begin = max(first, self.text.position // BLOCK_SIZE)  # block of the next line
        if self.text.position == self.text.path.stat().st_size:
            return
        with parts_folder(parts) as folder:
            function = FileNoise(noise, self.text.path, folder)
            ranges = [range(n, min(n + BLOCKS, after)) for n in range(begin, after, BLOCKS)]
            with open_results(self.executor, function, ranges) as results:
                for blocks, result in zip(ranges, results, strict=True):
                    if result is not None:
                        yield result, (blocks.stop - begin) / (after - begin)

    def _count(self, result: NoisedBlock) -> None:
        """Add the counts to the totals. Raise DataError for a bad line."""
        if bad := result.bad:
            number = self.text.lines_before() + self.totals["lines"] + bad.place
            raise DataError(
                f"{self.text}:{number} {bad.what}. Fix the line, or drop such lines first, for "
                "example with fairseq-ssl filter."
            )
        self.totals.update({name: getattr(result, name) for name in TOTALS})

    def _resources(self) -> dict[str, Any]:
        needs = set().union(*(spec.needs for spec in self.method))
        counts: Mapping[str, int] = self._counts() if "unigrams" in needs else {}
        if "unigrams" in needs and not sum(counts.values()):
            source = self.resources.counts
            raise DataError(
                f"{source if isinstance(source, str | Path) else self.text} has no words. Expected "
                "clean text with tokens separated by spaces, or word `counts`."
            )
        return self.resources.load(self.method, counts)

    def _counts(self) -> Mapping[str, int]:
        """Return the word counts of the resources, or of the text.

        Counts of the text are saved, so that other shards and seeds do not count it again.
        """
        source, path = self.resources.counts, self.text.path
        if source is not None:
            return read_counts(source) if isinstance(source, str | Path) else source
        if path is None or is_device(path):
            raise UsageError(
                "This noise samples words by their counts, which cannot be counted on stdin or in "
                "another pipe, since it is read once. Set "
                "`counts` to a file such as fairseq's dict.txt, or read the text from a file."
            )
        if self.kept_counts is None:
            return self._count_words(path)
        kept, made_of = self.kept_counts, {"input_is": self.text.fingerprint}

        def count() -> None:
            counts = self._count_words(path)
            is_ours = is_done([kept], {"method": "word-counts"}) or _has_counts(kept, counts)
            if kept.exists() and not is_ours:
                raise UsageError(
                    f"{kept} would be replaced by word counts, and was not written by this job. "
                    "Rename it, or choose another output."
                )
            if counts:
                write_counts(counts, kept)
                write_signature(Signature("word-counts", {}, {"input": str(path), **made_of}), kept)

        build_once(kept, lambda: is_done([kept], made_of), count)
        return read_counts(kept) if is_done([kept], made_of) else {}

    def _count_words(self, path: Path) -> Counter[str]:
        counts: Counter[str] = Counter()
        report = self.progress("count words", "blocks")
        with open_text(path) as file:
            for block in self.executor.imap(count_words, byte_blocks(file, name=str(path))):
                counts.update(block)
                report(1)
        return counts


def _has_counts(path: Path, counts: Counter[str]) -> bool:
    """Return True for a file of these counts, which a killed job left without its signature."""
    try:
        return path.exists() and read_counts(path) == counts
    except DataError:
        return False


def _digest(source: object) -> str | None:
    """Return a short SHA-256 digest of the content of a file, or of the representation of data."""
    if not isinstance(source, str | Path):
        return None if source is None else hashlib.sha256(repr(source).encode()).hexdigest()[:16]
    check_read_twice(source)
    return content_digest(source)
