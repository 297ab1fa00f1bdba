"""Noise specifications (``direct:keep=0.2``), and noise for blocks of a text file as bytes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from fairseq_ssl.io.blocks import ByteBlock, read_block
from fairseq_ssl.io.text_files import compress_chunk
from fairseq_ssl.noise.batch import Noise, NoiseChain, Random
from fairseq_ssl.noise.byte_words import WordTable, split_words
from fairseq_ssl.noise.characters import SpellingNoise, SpellNoise
from fairseq_ssl.noise.learner import LearnerNoise
from fairseq_ssl.noise.tokens import DenoisingNoise, DirectNoise, FilteringNoise
from fairseq_ssl.options import options_of
from fairseq_ssl.text import specs
from fairseq_ssl.text.vocabulary import count_line_words

NOISES: dict[str, type[Any]] = {
    "direct": DirectNoise,
    "spell": SpellNoise,
    "spelling": SpellingNoise,
    "denoise": DenoisingNoise,
    "learner": LearnerNoise,
    "filtering": FilteringNoise,
}
WITHIN_WORDS = tuple(
    kind for kind, noise in NOISES.items() if "table" in noise.__dataclass_fields__
)
"""Noises that read and write words in a `WordTable`. Others work on ids alone."""


@dataclass(frozen=True)
class NoiseSpec:
    """Name and options of one noise of a chain."""

    kind: str
    options: Mapping[str, float | bool | str]

    def __str__(self) -> str:
        """Return the specification, such as ``direct:keep=0.2:mask=0.3``.

        Options with their default value are included, except strings.
        """
        values = {
            name: self.options.get(name, field.default)
            for name, field in noise_options(self.kind).items()
            if name in self.options or not isinstance(field.default, str)
        }
        return ":".join([self.kind, *(f"{name}={value}" for name, value in values.items())])

    @property
    def needs(self) -> set[str]:
        """Names of the required resources, such as ``unigrams`` or ``confusions``."""
        return {
            field.name
            for field in fields(NOISES[self.kind])
            if field.init and field.default is MISSING and field.default_factory is MISSING
        }


def parse_noise(words: str) -> list[NoiseSpec]:
    """Parse a noise chain ``kind:option=value:...,kind,...``. Return one `NoiseSpec` per noise."""
    return [NoiseSpec(*specs.parse_spec("noise", NOISES, word)) for word in words.split(",")]


def build_noise(chain: Sequence[NoiseSpec], resources: Mapping[str, Any]) -> Noise:
    """Create the noise function of a chain.

    Each noise receives the `resources` whose names are fields of its class.
    """
    noises: list[Noise] = []
    for spec in chain:
        kind = NOISES[spec.kind]
        names = [field.name for field in fields(kind) if field.name in resources]
        arguments = {name: resources[name] for name in names} | dict(spec.options)
        noises.append(specs.build("noise", spec.kind, kind, arguments))
    return noises[0] if len(noises) == 1 else NoiseChain(noises)


def describe_noises() -> str:
    """Return a list of all noises and their options, for a help text."""
    return specs.describe_registry(NOISES)


def noise_options(kind: str) -> dict[str, Field[Any]]:
    """Return the dataclass fields of the options of a noise, by name."""
    return options_of(NOISES[kind])


MAX_TOKENS = 10_000
"""Max tokens per line."""


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be noised."""

    place: int
    """Position in the block, from 1."""
    what: str
    """Problem, such as ``is blank``."""


@dataclass(frozen=True)
class NoisedBlock:
    """Noisy lines and counts of a block."""

    output: bytes | Path
    """The noisy lines, or a file with them."""
    end: int
    """Offset in the source after the block, in bytes."""
    lines: int
    bad: BadLine | None
    """The first line that cannot be noised. Then there is no output."""
    tokens: int
    """Tokens of the clean lines."""
    changed: int
    """Clean tokens that are deleted, replaced or moved."""

    def and_then(self, after: NoisedBlock) -> NoisedBlock:
        """Return the counts of this block and the next block `after` together, without output."""
        bad = after.bad and BadLine(self.lines + after.bad.place, after.bad.what)
        return NoisedBlock(
            output=b"",
            end=after.end,
            lines=self.lines + after.lines,
            bad=self.bad or bad,
            tokens=self.tokens + after.tokens,
            changed=self.changed + after.changed,
        )


@dataclass(frozen=True)
class FileNoise:
    """Picklable function that adds noise to blocks of a file and writes the output to a file.

    Worker processes receive block numbers and return names of files, because sending text between
    processes is slow.
    """

    noise: CorpusNoise
    path: Path
    folder: Path

    def __call__(self, numbers: range) -> NoisedBlock | None:
        """Return the output file and total counts of the blocks, None if no line begins there."""
        path = self.folder / str(numbers.start)
        total: NoisedBlock | None = None
        with path.open("wb") as file:
            for number in numbers:
                block = read_block(self.path, number)
                if block is None:
                    continue
                noised = self.noise(block)
                file.write(cast(bytes, noised.output))
                total = noised if total is None else total.and_then(noised)
        return total and replace(total, output=path)


@contextmanager
def parts_folder(path: Path | None) -> Iterator[Path]:
    """Create an empty folder in `path`, or a temporary folder, and delete it at the end."""
    if path is None:
        with tempfile.TemporaryDirectory(prefix="fairseq-ssl-noise-") as folder:
            yield Path(folder)
        return
    own = path / f"{os.getpid()}.tmp"  # workers of a killed run may still write to their folder
    own.mkdir(parents=True)
    try:
        yield own
    finally:
        delete_parts(path)


def delete_parts(path: Path | None) -> None:
    """Delete the folders of `parts_folder` in `path`. Keep files that it has not created."""
    if path is None:
        return
    for own in path.glob("*.tmp"):
        shutil.rmtree(own, ignore_errors=True)
    with suppress(OSError):
        path.rmdir()


@dataclass(frozen=True)
class CorpusNoise:
    """Function that adds noise to a block of lines.

    The random numbers of a line are seeded with `seed`, the block number and the line's position in
    the block.
    """

    noise: Noise
    table: WordTable
    """Words of the block and of the noise."""
    seed: int
    compressed: bool = False
    """True to compress the output with gzip. Gzip outputs of blocks can be concatenated."""

    def __call__(self, block: ByteBlock) -> NoisedBlock:
        """Return the noisy lines of a block, or its first bad line."""
        split = split_words(block.data, MAX_TOKENS)
        if split is None:
            return NoisedBlock(b"", block.end, 0, find_bad_line(block.data), 0, 0)
        clean = self.table.start(*split)
        noisy = self.noise(clean, Random.of((self.seed, block.number), len(clean.lengths)))
        words = self.table.words
        changed = noisy.changed(clean, words.same)
        return NoisedBlock(
            output=compress_chunk(words.to_bytes(noisy.block), self.compressed),
            end=block.end,
            lines=len(clean.lengths),
            bad=None,
            tokens=len(changed),
            changed=int(np.count_nonzero(changed)),
        )


def corpus_noise(
    chain: Sequence[NoiseSpec],
    resources: Mapping[str, Any],
    seed: int,
    compressed: bool = False,
) -> CorpusNoise:
    """Build the noise function of a file."""
    return CorpusNoise(build_noise(chain, resources), resources["table"], seed, compressed)


def find_bad_line(data: bytes) -> BadLine:
    """Return the first line that cannot be noised, of lines that `split_words` rejects."""
    for place, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        try:
            what = _line_problem(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            byte = f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
            what = f"is not valid UTF-8: {byte}"
        if what:
            return BadLine(place, what)
    raise AssertionError


def _line_problem(line: str) -> str:
    if not line or line.isspace():
        return "is blank"
    if "\0" in line:
        return "contains a NUL character"
    if len(line) > 2 * MAX_TOKENS and len(line.split()) > MAX_TOKENS:
        return f"has {len(line.split())} tokens. The maximum is {MAX_TOKENS}"
    return ""


def count_words(block: ByteBlock) -> Counter[str]:
    """Count the words of the lines of a block, separated by whitespace."""
    return count_line_words(block.data.decode("utf-8", "replace").split("\n"))
