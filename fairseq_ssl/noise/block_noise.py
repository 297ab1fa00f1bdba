"""Noise specifications such as ``direct:keep=0.2``, and noise for the blocks of a text file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import Block, Span, span_blocks
from fairseq_ssl.io.parts import BlockResult
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
"""Noises that need the spelling of words, from a `WordTable`. Other noises only need word ids."""


@dataclass(frozen=True)
class NoiseSpec:
    """Name and options of a noise in a chain."""

    kind: str
    options: Mapping[str, float | bool | str]

    def __str__(self) -> str:
        """Return the specification, such as ``direct:keep=0.2:mask=0.3``.

        Unset options appear with their defaults, but unset string options are omitted.
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
    """Parse a chain of noises such as ``direct:keep=0.2,characters`` into `NoiseSpec` objects."""
    return [NoiseSpec(*specs.parse_spec("noise", NOISES, word)) for word in words.split(",")]


def build_noise(chain: Sequence[NoiseSpec], resources: Mapping[str, Any]) -> Noise:
    """Create the noise function for a chain of noise specifications.

    Each noise receives the `resources` whose names match its fields.
    """
    noises: list[Noise] = []
    for spec in chain:
        kind = NOISES[spec.kind]
        names = [field.name for field in fields(kind) if field.name in resources]
        arguments = {name: resources[name] for name in names} | dict(spec.options)
        noises.append(specs.build("noise", spec.kind, kind, arguments))
    return noises[0] if len(noises) == 1 else NoiseChain(noises)


def describe_noises() -> str:
    """Return a list of all noises and their options as text, for command-line help."""
    return specs.describe_registry(NOISES)


MAX_TOKENS = 10_000
"""Maximum number of tokens per line. Lines with more tokens are rejected."""


@dataclass(frozen=True)
class CorpusNoise:
    """Picklable function that adds noise to a block of lines.

    The random numbers of a line are seeded with `seed`, the indices of the file and the block, and
    the index of the line in the block.
    """

    noise: Noise
    table: WordTable
    """Words that the noise can insert, and words of the current block."""
    seed: int

    def __call__(self, block: Block) -> BlockResult:
        """Return the noisy lines of a block. Raise DataError if `line_problem` rejects a line."""
        split = split_words(block.data[0], MAX_TOKENS)
        if split is None:
            raise _line_error(block)
        clean = self.table.start(*split)
        noisy = self.noise(clean, Random.of((self.seed, *block.seeds), len(clean.lengths)))
        words = self.table.words
        changed = noisy.changed(clean, words.same)
        counts = Counter(
            lines=len(clean.lengths), tokens=len(changed), changed=int(np.count_nonzero(changed))
        )
        return BlockResult((words.to_bytes(noisy.block),), counts)


def _line_error(block: Block) -> DataError:
    """Return the error for the first line that `split_words` rejects."""
    for index, line in enumerate(block.lines()):
        if problem := line_problem(line):
            return DataError(
                f"{block.place(index)} {problem}. Fix the line, or remove such lines first, for "
                "example with fairseq-ssl filter."
            )
    raise AssertionError


def line_problem(line: str) -> str:
    """Return the problem with a line, such as ``is blank``, or an empty string for a valid line."""
    if not line or line.isspace():
        return "is blank"
    if "\0" in line:
        return "contains a NUL character"
    if len(line) > 2 * MAX_TOKENS and len(line.split()) > MAX_TOKENS:
        return f"contains {len(line.split())} tokens. The maximum is {MAX_TOKENS}"
    return ""


def count_words(span: Span) -> Counter[str]:
    """Count the whitespace-separated words in a span of a text."""
    counts: Counter[str] = Counter()
    for block in span_blocks(span):
        counts.update(count_line_words(block.data[0].decode("utf-8", "replace").split("\n")))
    return counts
