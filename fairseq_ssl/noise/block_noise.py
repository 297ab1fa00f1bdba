"""Noise specifications (``direct:keep=0.2``), and noise for blocks of a text file as bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import ByteBlock, block_lines, line_place
from fairseq_ssl.io.jobs import BlockResult
from fairseq_ssl.io.text_files import compress_chunk
from fairseq_ssl.noise.batch import Noise, NoiseChain, Random
from fairseq_ssl.noise.byte_words import WordTable, split_words
from fairseq_ssl.noise.characters import CharacterNoise, ConfusionNoise
from fairseq_ssl.noise.learner import LearnerNoise
from fairseq_ssl.noise.tokens import DirectNoise, NegativeExampleNoise, ShuffleNoise
from fairseq_ssl.options import options_of
from fairseq_ssl.text import specs
from fairseq_ssl.text.vocabulary import count_line_words

NOISES: dict[str, type[Any]] = {
    "direct": DirectNoise,
    "confusion": ConfusionNoise,
    "characters": CharacterNoise,
    "shuffle": ShuffleNoise,
    "learner": LearnerNoise,
    "negatives": NegativeExampleNoise,
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
            for name, field in options_of(NOISES[self.kind]).items()
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


MAX_TOKENS = 10_000
"""Max tokens per line."""


@dataclass(frozen=True)
class CorpusNoise:
    """Picklable function that adds noise to a block of lines.

    The random numbers of a line are seeded with `seed`, the block number and the line's position in
    the block.
    """

    noise: Noise
    table: WordTable
    """Words of the block and of the noise."""
    seed: int
    source: Path | None = None
    """The file, for messages; None for stdin."""
    suffix: str = ""
    """Suffix of the output, which is compressed by suffix."""

    def __call__(self, block: ByteBlock) -> BlockResult:
        """Return the noisy lines of a block. Raise DataError for a line that cannot be noised."""
        split = split_words(block.data, MAX_TOKENS)
        if split is None:
            raise self._line_error(block)
        clean = self.table.start(*split)
        noisy = self.noise(clean, Random.of((self.seed, block.number), len(clean.lengths)))
        words = self.table.words
        changed = noisy.changed(clean, words.same)
        counts = Counter(
            lines=len(clean.lengths), tokens=len(changed), changed=int(np.count_nonzero(changed))
        )
        output = compress_chunk(words.to_bytes(noisy.block), self.suffix)
        return BlockResult((output,), block.end, counts)

    def _line_error(self, block: ByteBlock) -> DataError:
        """Return the error of the first line that `split_words` rejects."""
        for index, line in enumerate(block_lines(block, self.source)):
            if problem := line_problem(line):
                return DataError(
                    f"{line_place(block, self.source, index)} {problem}. Fix the line, or drop "
                    "such lines first, for example with fairseq-ssl filter."
                )
        raise AssertionError


def line_problem(line: str) -> str:
    """Return why a line cannot be noised, such as ``is blank``, or an empty string."""
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
