"""Random mutations of files, and hostile values of numbers."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

CHARACTERS = (
    "\u2028",
    "\u0085",
    "\u3000",
    "\u200f",
    "e\u0301\u0301",
    "\U0001d54f\U0001f926",
    "\ufb00",
)
"""Unicode line separators, spaces, combining marks, surrogate pairs, ligatures."""
PIECES = (
    *(b"", b"\0", b"\r", b"\r\n", b"\n\n\n", b"\t", b" ", b"\xff\xfe", b"\xc3", b"\xef\xbb\xbf"),
    *(text.encode() for text in CHARACTERS),
    *(b"<unk>", b"<s>", b"</s>", b"<pad>", b"<mask>", b"|||", b" ||| ", b"@@ ", b"\xe2\x96\x81"),
    *(b"nan", b"inf", b"-1", b"0", b"1e999", b"9" * 400, b"a" * 30_000, b"a " * 3000, b"#", b"="),
    *(b"S ", b"A 0 1|||R|||x|||REQUIRED|||-NONE-|||0", b"{", b"[[", b'"', b"\\", b"%s%n", b"../x"),
)
NUMBERS = ("0", "-1", "1", "2", "3.5", "nan", "inf", "-inf", "1e400", "", "x", "9" * 30, "1_0", "٣")
MOST = 200_000
"""Maximum size of a file in bytes."""


def mutated(sample: bytes, draw: random.Random) -> bytes:
    """Return a sample after up to 8 random mutations: truncate, shuffle, repeat or insert."""
    for _ in range(draw.choice((0, 1, 1, 2, 3, 8))):
        sample = draw.choice(WAYS)(sample, draw)[:MOST]
    return sample


def write(path: Path, sample: bytes, draw: random.Random | None) -> None:
    """Write a mutated sample, or sometimes no file, or a folder of that name.

    Without `draw` the sample is written unchanged.
    """
    if draw is None:
        path.write_bytes(gzip.compress(sample) if path.suffix == ".gz" else sample)
        return
    way = draw.random()
    if way < 0.01:
        return
    if way < 0.02:
        path.mkdir()
        return
    data = mutated(sample, draw)
    if path.suffix == ".gz" and draw.random() < 0.8:
        data = gzip.compress(data, 1)
        if draw.random() < 0.3:
            data = mutated(data, draw)
    path.write_bytes(data)


def _put_in(sample: bytes, draw: random.Random) -> bytes:
    place = draw.randint(0, len(sample))
    return sample[:place] + draw.choice(PIECES) + sample[place:]


def _replace(sample: bytes, draw: random.Random) -> bytes:
    first, last = sorted(draw.randint(0, len(sample)) for _ in range(2))
    return sample[:first] + draw.choice(PIECES) + sample[last:]


def _flip(sample: bytes, draw: random.Random) -> bytes:
    changed = bytearray(sample)
    for _ in range(draw.randint(1, 8)):
        if changed:
            changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def _cut(sample: bytes, draw: random.Random) -> bytes:
    return sample[: draw.randint(0, len(sample))]


def _repeat(sample: bytes, draw: random.Random) -> bytes:
    first, last = sorted(draw.randint(0, len(sample)) for _ in range(2))
    return sample[:last] + sample[first:last] * draw.choice((1, 2, 50)) + sample[last:]


def _shuffle_lines(sample: bytes, draw: random.Random) -> bytes:
    lines = sample.split(b"\n")
    draw.shuffle(lines)
    return b"\n".join(lines[: draw.randint(0, len(lines))])


def _noise(sample: bytes, draw: random.Random) -> bytes:
    return draw.randbytes(draw.choice((0, 1, 7, 300)))


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_put_in, _put_in, _replace, _flip, _cut, _repeat, _shuffle_lines, _noise),
)
