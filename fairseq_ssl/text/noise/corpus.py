"""Noise for a block of a text file: from bytes to the bytes of each output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.io.blocks import ByteBlock, read_block
from fairseq_ssl.text.noise import kinds
from fairseq_ssl.text.noise.block import Block, Noise
from fairseq_ssl.text.noise.byte_words import ByteWords, cut
from fairseq_ssl.text.noise.draws import Draws

OUTPUTS = ("noisy", "clean", "touched")
MOST_TOKENS = 10_000
"""Tokens a line may have."""


@dataclass(frozen=True)
class BadLine:
    """A line that can not be noised, by its place among those of its block, from 1."""

    place: int
    what: str


@dataclass(frozen=True)
class NoisedBlock:
    """What became of a block."""

    outputs: tuple[bytes | Path, ...]
    """Their bytes, or files that hold them."""
    end: int
    lines: int
    """Lines read, bad ones too."""
    bad: tuple[BadLine, ...]
    tokens: int
    touched: int

    def and_then(self, after: NoisedBlock) -> NoisedBlock:
        """Return the counts of both; the outputs are for who asks to join."""
        bad = (BadLine(self.lines + line.place, line.what) for line in after.bad)
        return NoisedBlock(
            *((), after.end, self.lines + after.lines, (*self.bad, *bad)),
            *(self.tokens + after.tokens, self.touched + after.touched),
        )


@dataclass(frozen=True)
class NumberedNoise:
    """The same noise for words by number, and the words that it draws or puts in."""

    noise: Noise
    words: ByteWords


@dataclass(frozen=True)
class FileNoise:
    """Noises blocks of a file by their numbers, and leaves the outputs in files of their own.

    So processes need not send text to each other.
    """

    noise: CorpusNoise
    path: Path
    folder: Path

    def __call__(self, numbers: range) -> NoisedBlock | None:
        """Return what became of the blocks as if they were one; None where no line begins."""
        left = [self.folder / f"{numbers.start}.{name}" for name in self.noise.outputs]
        whole: NoisedBlock | None = None
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb")) for path in left]
            for number in numbers:
                block = read_block(self.path, number)
                if block is None:
                    continue
                done = self.noise(block)
                for file, output in zip(files, done.outputs, strict=True):
                    file.write(cast(bytes, output))
                whole = done if whole is None else whole.and_then(done)
        return whole and replace(whole, outputs=tuple(left))


@dataclass(frozen=True)
class CorpusNoise:
    """Noises the lines of a block, with the seeds (seed, number of the block, place in it)."""

    noise: Noise
    seed: int
    outputs: Sequence[str] = ("noisy",)
    """Which of `OUTPUTS`."""
    compressed: Sequence[bool] = (False,)
    numbered: NumberedNoise | None = None
    """For ordinary blocks, where the noise does not look into words; the bytes are the same."""

    def __call__(self, block: ByteBlock) -> NoisedBlock:
        """Noise the good lines; the outputs have as many."""
        found = cut(block.data, MOST_TOKENS) if self.numbered else None
        if self.numbered is None or found is None:
            return self._by_strings(block)
        return self._by_numbers(block, self.numbered, *found)

    def _by_numbers(
        self,
        block: ByteBlock,
        numbered: NumberedNoise,
        own: ByteWords,
        lengths: NDArray[np.int64],
    ) -> NoisedBlock:
        first = len(numbered.words.starts)
        words = numbered.words.and_those_of(own)
        clean = Block(np.arange(first, first + len(own.starts)), lengths)
        noisy = numbered.noise(clean, Draws.of((self.seed, block.number), len(lengths)))
        touched = noisy.touched(clean, words.same)
        made = {
            "noisy": lambda: words.to_bytes(noisy.block),
            "clean": lambda: block.data if block.data.endswith(b"\n") else block.data + b"\n",
            "touched": lambda: _joined(places_of(touched, clean)),
        }
        return self._made(block, made, (), touched)

    def _by_strings(self, block: ByteBlock) -> NoisedBlock:
        lines, bad = good_lines(block.data)
        clean = Block.of_words(line for _, line in lines)
        places = np.array([place for place, _ in lines], dtype=np.int64)
        noisy = self.noise(clean, Draws.of((self.seed, block.number), places))
        touched = noisy.touched(clean)
        made = {
            "noisy": lambda: _joined(noisy.block.to_lines()),
            "clean": lambda: _joined([line for _, line in lines]),
            "touched": lambda: _joined(places_of(touched, clean)),
        }
        return self._made(block, made, tuple(bad), touched)

    def _made(
        self,
        block: ByteBlock,
        made: Mapping[str, Callable[[], bytes]],
        bad: tuple[BadLine, ...],
        touched: NDArray[np.bool_],
    ) -> NoisedBlock:
        """Make the outputs asked for; compressed ones can be joined as they are, too."""
        outputs: list[bytes | Path] = []
        for name, compressed in zip(self.outputs, self.compressed, strict=True):
            outputs.append(compressed(made[name](), compressed))
        lines = block.data.removesuffix(b"\n").count(b"\n") + 1
        counts = lines, bad, len(touched), int(touched.sum())
        return NoisedBlock(tuple(outputs), block.end, *counts)


def corpus_noise(
    settings: Sequence[kinds.Setting],
    at_hand: Mapping[str, Any],
    seed: int,
    outputs: Mapping[str, bool],
) -> CorpusNoise:
    """Make the noise of these settings for these outputs, each compressed or not."""
    numbered = None
    if not any(setting.kind in kinds.WITHIN_WORDS for setting in settings):
        unigrams, mask = at_hand["unigrams"], at_hand["mask_token"]
        words = ByteWords.of([*unigrams.words.tolist(), mask])
        numbers = {"unigrams": unigrams.numbered(), "mask_token": len(unigrams.words)}
        numbered = NumberedNoise(kinds.built(settings, numbers), words)
    noise = kinds.built(settings, at_hand)
    return CorpusNoise(noise, seed, tuple(outputs), tuple(outputs.values()), numbered)


def good_lines(data: bytes) -> tuple[list[tuple[int, str]], list[BadLine]]:
    """Return the lines with words, by their places, and those that can not be noised."""
    good, bad = [], []
    for place, raw in enumerate(data.removesuffix(b"\n").split(b"\n")):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
            bad.append(BadLine(place + 1, f"is not valid UTF-8: {byte}"))
            continue
        what = _wrong_with(line)
        if what:
            bad.append(BadLine(place + 1, what))
        else:
            good.append((place, line))
    return good, bad


def _wrong_with(line: str) -> str:
    if not line or line.isspace():
        return "is blank"
    if "\0" in line:
        return "holds a NUL character"
    if len(line) > 2 * MOST_TOKENS and len(line.split()) > MOST_TOKENS:
        return f"has {len(line.split())} tokens, more than {MOST_TOKENS}"
    return ""


def places_of(touched: NDArray[np.bool_], clean: Block) -> list[str]:
    """Return for each line the places, from 0, of its touched tokens."""
    at = np.flatnonzero(touched)
    words = np.empty(len(at), dtype=object)
    words[:] = list(map(str, clean.place[at].tolist()))
    return Block(words, clean.lengths_of(touched)).to_lines()


def _joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")
