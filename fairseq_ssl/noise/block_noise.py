"""Noise specifications (``direct:keep=0.2``), and noise for blocks of a text file as bytes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.io.blocks import ByteBlock, read_block
from fairseq_ssl.io.text_files import compress_chunk
from fairseq_ssl.noise.batch import Noise, NoiseChain, Random, TokenBatch
from fairseq_ssl.noise.byte_words import WordTable, join_words, split_words
from fairseq_ssl.noise.characters import SpellingNoise, SpellNoise
from fairseq_ssl.noise.learner import LearnerNoise
from fairseq_ssl.noise.tokens import DenoisingNoise, DirectNoise, FilteringNoise
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
        noises.append(kind(**{name: resources[name] for name in names}, **spec.options))
    return noises[0] if len(noises) == 1 else NoiseChain(noises)


def describe_noises() -> str:
    """Return a list of all noises and their options, for a help text."""
    return specs.describe_registry(NOISES)


def noise_options(kind: str) -> dict[str, Field[Any]]:
    """Return the dataclass fields of the options of a noise, by name."""
    return specs.options_of(NOISES[kind])


NOISE_OUTPUTS = ("noisy", "clean", "changed")
"""Outputs. In clean lines, too, CR becomes a space, since fairseq ends a line at it."""
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
    """Outputs and counts of a noised block."""

    outputs: tuple[bytes | Path, ...]
    """Content of each output, or a file with the content."""
    end: int
    """Offset in the source after the block, in bytes."""
    lines: int
    """Lines read, including bad lines."""
    bad: tuple[BadLine, ...]
    tokens: int
    """Tokens of the clean lines."""
    changed: int
    """Clean tokens that are deleted, replaced or moved."""

    def and_then(self, after: NoisedBlock) -> NoisedBlock:
        """Return the counts of this block and the next block `after` together, without outputs."""
        bad = (BadLine(self.lines + line.place, line.what) for line in after.bad)
        return NoisedBlock(
            outputs=(),
            end=after.end,
            lines=self.lines + after.lines,
            bad=(*self.bad, *bad),
            tokens=self.tokens + after.tokens,
            changed=self.changed + after.changed,
        )


@dataclass(frozen=True)
class FileNoise:
    """Picklable function that adds noise to blocks of a file and writes the outputs to files.

    Worker processes receive block numbers and return names of files, because sending text between
    processes is slow.
    """

    noise: CorpusNoise
    path: Path
    folder: Path

    def __call__(self, numbers: range) -> NoisedBlock | None:
        """Return the output files and total counts of the blocks, None if no line begins there."""
        paths = [self.folder / f"{numbers.start}.{name}" for name in self.noise.outputs]
        total: NoisedBlock | None = None
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb")) for path in paths]
            for number in numbers:
                block = read_block(self.path, number)
                if block is None:
                    continue
                noised = self.noise(block)
                for file, output in zip(files, noised.outputs, strict=True):
                    file.write(cast(bytes, output))
                total = noised if total is None else total.and_then(noised)
        return total and replace(total, outputs=tuple(paths))


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
    outputs: Sequence[str] = ("noisy",)
    """Outputs to return, from `NOISE_OUTPUTS`."""
    compressed: Sequence[bool] = (False,)
    """True for each output to compress with gzip. Gzip outputs of blocks can be concatenated."""

    def __call__(self, block: ByteBlock) -> NoisedBlock:
        """Add noise to the valid lines. Each output has one line per valid line."""
        data = block.data.removesuffix(b"\n") + b"\n"
        bad: list[BadLine] = []
        split = split_words(data, MAX_TOKENS)
        if split is None:
            lines, bad = split_bad_lines(data)
            data = "".join(f"{line}\n" for _, line in lines).encode("utf-8")
            places = np.array([place for place, _ in lines], dtype=np.int64)
            clean = self.table.start_lines(line for _, line in lines)
        else:
            clean = self.table.start(*split)
            places = np.arange(len(clean.lengths))
        noisy = self.noise(clean, Random.of((self.seed, block.number), places))
        words = self.table.words
        changed = noisy.changed(clean, words.same)
        contents: Mapping[str, Callable[[], bytes]] = {
            "noisy": lambda: words.to_bytes(noisy.block),
            "clean": lambda: data.replace(b"\r", b" "),
            "changed": lambda: position_lines(changed, clean),
        }
        return NoisedBlock(
            outputs=tuple(
                compress_chunk(contents[name](), compressed)
                for name, compressed in zip(self.outputs, self.compressed, strict=True)
            ),
            end=block.end,
            lines=len(places) + len(bad),
            bad=tuple(bad),
            tokens=len(changed),
            changed=int(np.count_nonzero(changed)),
        )


def corpus_noise(
    chain: Sequence[NoiseSpec],
    resources: Mapping[str, Any],
    seed: int,
    outputs: Mapping[str, bool],
) -> CorpusNoise:
    """Build the noise function of a file. `outputs` maps each output to whether it is gzipped."""
    noise = build_noise(chain, resources)
    return CorpusNoise(noise, resources["table"], seed, tuple(outputs), tuple(outputs.values()))


def split_bad_lines(data: bytes) -> tuple[list[tuple[int, str]], list[BadLine]]:
    """Return the valid lines with their positions in the block, from 0, and the bad lines."""
    good, bad = [], []
    for place, raw in enumerate(data.removesuffix(b"\n").split(b"\n")):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
            bad.append(BadLine(place + 1, f"is not valid UTF-8: {byte}"))
            continue
        what = _line_problem(line)
        if what:
            bad.append(BadLine(place + 1, what))
        else:
            good.append((place, line))
    return good, bad


def _line_problem(line: str) -> str:
    if not line or line.isspace():
        return "is blank"
    if "\0" in line:
        return "contains a NUL character"
    if len(line) > 2 * MAX_TOKENS and len(line.split()) > MAX_TOKENS:
        return f"has {len(line.split())} tokens. The maximum is {MAX_TOKENS}"
    return ""


def count_words(block: ByteBlock) -> Counter[str]:
    """Count the words of the valid lines of a block, separated by whitespace."""
    return count_line_words(line for _, line in split_bad_lines(block.data)[0])


def position_lines(changed: NDArray[np.bool_], clean: TokenBatch) -> bytes:
    """Return one line per clean line: the positions of its changed tokens, from 0."""
    places = list(map(str, clean.place[changed].tolist()))
    lines = join_words(places, clean.lengths_of(changed))
    return "".join(f"{line}\n" for line in lines).encode("ascii")
