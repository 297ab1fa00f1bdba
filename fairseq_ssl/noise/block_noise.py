"""Noises by name, and noise for blocks of a text: from bytes to the bytes of each output."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.io.blocks import ByteBlock, read_block
from fairseq_ssl.io.text_files import compress_chunk
from fairseq_ssl.noise.batch import Noise, NoiseChain, Random, TokenBatch, Tokens
from fairseq_ssl.noise.characters import SpellingNoise, SpellNoise
from fairseq_ssl.noise.learner import LearnerNoise
from fairseq_ssl.noise.tokens import DenoisingNoise, DirectNoise, FilteringNoise
from fairseq_ssl.text import specs

NOISES: dict[str, type[Any]] = {
    "direct": DirectNoise,
    "spell": SpellNoise,
    "spelling": SpellingNoise,
    "denoise": DenoisingNoise,
    "learner": LearnerNoise,
    "filtering": FilteringNoise,
}
WITHIN_WORDS = ("spell", "spelling", "learner")
"""Those that look into words; the others take ids as well."""


@dataclass(frozen=True)
class NoiseSpec:
    """One noise of a chain as its user asked for it."""

    kind: str
    options: Mapping[str, float | bool | str]

    def __str__(self) -> str:
        """Return it with all its numbers, as in ``direct:keep=0.2:mask=0.3``."""
        values = {
            name: self.options.get(name, field.default)
            for name, field in noise_options(self.kind).items()
            if name in self.options or not isinstance(field.default, str)
        }
        return ":".join([self.kind, *(f"{name}={value}" for name, value in values.items())])

    @property
    def needs(self) -> set[str]:
        """Name what the noise works with that is no option: unigrams, confusions, and so on."""
        return {
            field.name
            for field in fields(NOISES[self.kind])
            if field.init and field.default is MISSING and field.default_factory is MISSING
        }


def parse_noise(words: str) -> list[NoiseSpec]:
    """Read ``kind:option=value:...,kind,...``: the noises of a chain, first to last."""
    return [_parse_spec(word) for word in words.split(",")]


def build_noise(chain: Sequence[NoiseSpec], at_hand: Mapping[str, Any]) -> Noise:
    """Make the noise, with what it needs, and may take, of `at_hand`."""
    noises = []
    for setting in chain:
        kind = NOISES[setting.kind]
        taken = {field.name: at_hand[field.name] for field in fields(kind) if field.name in at_hand}
        noises.append(kind(**taken, **setting.options))
    return noises[0] if len(noises) == 1 else NoiseChain(noises)


def describe_noises() -> str:
    """Return a line for each kind and for each of its options, for a help text."""
    return specs.describe_registry(NOISES)


def noise_options(kind: str) -> dict[str, Field[Any]]:
    """Return the fields of a kind that its user may set."""
    return specs.options_of(NOISES[kind])


def _parse_spec(words: str) -> NoiseSpec:
    return NoiseSpec(*specs.parse_spec("noise", NOISES, words))


NEWLINE, SPACE = 10, 32
WIDE_SPACES = tuple(space.encode() for space in "\x85\xa0\u1680\u205f\u3000")
GENERAL_SPACES = re.compile(rb"\xe2\x80[\x80-\x8a\xa8\xa9\xaf]")
"""U+2000 to U+200A, U+2028, U+2029 and U+202F; quotation marks and dashes are their neighbours."""


@dataclass(frozen=True)
class ByteWords:
    """Bytes, and the words in them: the word of number n is `sizes[n]` bytes from `starts[n]`."""

    buffer: NDArray[np.uint8]
    """Ends with a space or a newline, as every word is followed by one."""
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, words: Sequence[str]) -> ByteWords:
        """Number some words from 0."""
        packed = [word.encode() for word in words]
        sizes = np.fromiter(map(len, packed), np.int64, len(packed))
        buffer = np.frombuffer(b"".join(word + b" " for word in packed), np.uint8)
        return cls(buffer, np.cumsum(sizes + 1) - sizes - 1, sizes)

    def and_those_of(self, other: ByteWords) -> ByteWords:
        """Return the words of both; those of the other get the numbers after these."""
        return ByteWords(
            np.concatenate([self.buffer, other.buffer]),
            np.concatenate([self.starts, other.starts + len(self.buffer)]),
            np.concatenate([self.sizes, other.sizes]),
        )

    def same(self, first: Tokens, second: Tokens) -> NDArray[np.bool_]:
        """Tell of numbers side by side whether they stand for the same word."""
        same: NDArray[np.bool_] = first == second
        alike = np.flatnonzero(~same)
        for own in (self.sizes, self.buffer[self.starts]):  # few need to be compared in full
            alike = alike[own[first[alike]] == own[second[alike]]]
        sizes = self.sizes[first[alike]]
        differs = self._bytes(first[alike], sizes) != self._bytes(second[alike], sizes)
        up_to = np.concatenate([[0], np.cumsum(differs)])
        ends = np.cumsum(sizes)
        same[alike] = up_to[ends] == up_to[ends - sizes]
        return same

    def to_bytes(self, block: TokenBatch) -> bytes:
        """Return the lines of a block of numbers, spaces between words, a newline after each."""
        sizes = self.sizes[block.tokens] + 1
        text = self._bytes(block.tokens, sizes)
        after = np.cumsum(sizes) - 1
        text[after] = SPACE
        text[after[block.ends - 1]] = NEWLINE
        return text.tobytes()

    def _bytes(self, words: Tokens, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return so many bytes from the start of each word, all above 0 in number, end to end."""
        if not len(words):
            return np.empty(0, np.uint8)
        starts, ends = self.starts[words], np.cumsum(sizes)
        step = np.ones(int(ends[-1]), np.int64)
        step[0] = starts[0]
        step[ends[:-1]] = starts[1:] - starts[:-1] - sizes[:-1] + 1
        return self.buffer[np.cumsum(step, out=step)]


def split_words(data: bytes, most: int) -> tuple[ByteWords, NDArray[np.int64]] | None:
    """Find the words of lines, and how many each line has, as `str.split` does.

    None where anything is out of the ordinary: a blank line, one of more than `most` words,
    bad UTF-8, a control character, a space beyond ASCII.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    if not data.isascii() and not _is_ordinary(data):
        return None
    buffer = np.frombuffer(data, np.uint8)
    after = np.flatnonzero(buffer <= SPACE)
    spaces = buffer[after]
    if ((spaces < 9) | ((spaces > 13) & (spaces < 28))).any():
        return None
    starts = np.concatenate([[0], after[:-1] + 1])
    sizes = after - starts
    words = sizes > 0
    up_to = np.cumsum(words)[spaces == NEWLINE]
    lengths = np.diff(up_to, prepend=0)
    if lengths.min() == 0 or lengths.max() > most:
        return None
    if not words.all():
        starts, sizes = starts[words], sizes[words]
    return ByteWords(buffer, starts, sizes), lengths


def _is_ordinary(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    if any(space in data for space in WIDE_SPACES):
        return False
    return b"\xe2\x80" not in data or not GENERAL_SPACES.search(data)


NOISE_OUTPUTS = ("noisy", "clean", "changed")
MAX_TOKENS = 10_000
"""Tokens a line may have."""


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be noised, with its position in the block, from 1."""

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
    changed: int

    def and_then(self, after: NoisedBlock) -> NoisedBlock:
        """Return the counts of both; the outputs are for who asks to join."""
        bad = (BadLine(self.lines + line.place, line.what) for line in after.bad)
        return NoisedBlock(
            *((), after.end, self.lines + after.lines, (*self.bad, *bad)),
            *(self.tokens + after.tokens, self.changed + after.changed),
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
    """Which of `NOISE_OUTPUTS`."""
    compressed: Sequence[bool] = (False,)
    numbered: NumberedNoise | None = None
    """For ordinary blocks, where the noise does not look into words; the bytes are the same."""

    def __call__(self, block: ByteBlock) -> NoisedBlock:
        """Noise the good lines; the outputs have as many."""
        found = split_words(block.data, MAX_TOKENS) if self.numbered else None
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
        clean = TokenBatch(np.arange(first, first + len(own.starts)), lengths)
        noisy = numbered.noise(clean, Random.of((self.seed, block.number), len(lengths)))
        changed = noisy.changed(clean, words.same)
        made = {
            "noisy": lambda: words.to_bytes(noisy.block),
            "clean": lambda: block.data if block.data.endswith(b"\n") else block.data + b"\n",
            "changed": lambda: _join_lines(position_lines(changed, clean)),
        }
        return self._made(block, made, (), changed)

    def _by_strings(self, block: ByteBlock) -> NoisedBlock:
        lines, bad = split_bad_lines(block.data)
        clean = TokenBatch.of_words(line for _, line in lines)
        places = np.array([place for place, _ in lines], dtype=np.int64)
        noisy = self.noise(clean, Random.of((self.seed, block.number), places))
        changed = noisy.changed(clean)
        made = {
            "noisy": lambda: _join_lines(noisy.block.to_lines()),
            "clean": lambda: _join_lines([line for _, line in lines]),
            "changed": lambda: _join_lines(position_lines(changed, clean)),
        }
        return self._made(block, made, tuple(bad), changed)

    def _made(
        self,
        block: ByteBlock,
        made: Mapping[str, Callable[[], bytes]],
        bad: tuple[BadLine, ...],
        changed: NDArray[np.bool_],
    ) -> NoisedBlock:
        """Make the outputs asked for; compressed ones can be joined as they are, too."""
        outputs: list[bytes | Path] = []
        for name, compressed in zip(self.outputs, self.compressed, strict=True):
            outputs.append(compress_chunk(made[name](), compressed))
        lines = block.data.removesuffix(b"\n").count(b"\n") + 1
        counts = lines, bad, len(changed), int(changed.sum())
        return NoisedBlock(tuple(outputs), block.end, *counts)


def corpus_noise(
    settings: Sequence[NoiseSpec],
    at_hand: Mapping[str, Any],
    seed: int,
    outputs: Mapping[str, bool],
) -> CorpusNoise:
    """Make the noise of these settings for these outputs, each compressed or not."""
    numbered = None
    if not any(setting.kind in WITHIN_WORDS for setting in settings):
        unigrams, mask = at_hand["unigrams"], at_hand["mask_token"]
        words = ByteWords.of([*unigrams.words.tolist(), mask])
        numbers = {"unigrams": unigrams.numbered(), "mask_token": len(unigrams.words)}
        numbered = NumberedNoise(build_noise(settings, numbers), words)
    noise = build_noise(settings, at_hand)
    return CorpusNoise(noise, seed, tuple(outputs), tuple(outputs.values()), numbered)


def split_bad_lines(data: bytes) -> tuple[list[tuple[int, str]], list[BadLine]]:
    """Return the lines that can be noised, with their positions, and the bad lines."""
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
        return "holds a NUL character"
    if len(line) > 2 * MAX_TOKENS and len(line.split()) > MAX_TOKENS:
        return f"has {len(line.split())} tokens, more than {MAX_TOKENS}"
    return ""


def position_lines(changed: NDArray[np.bool_], clean: TokenBatch) -> list[str]:
    """Return for each line the places, from 0, of its changed tokens."""
    at = np.flatnonzero(changed)
    words = np.empty(len(at), dtype=object)
    words[:] = list(map(str, clean.place[at].tolist()))
    return TokenBatch(words, clean.lengths_of(changed)).to_lines()


def _join_lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")
