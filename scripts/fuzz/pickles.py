"""Fuzz the checkpoint reader with random pickles of allowed names, in child processes.

Reading must end with a value or an error of this package, not with another error or a crash. A
finding is printed with the seed that reproduces it.
"""

from __future__ import annotations

import argparse
import io
import pickle
import random
import struct
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable

NAMES = (
    "numpy\ndtype",
    "numpy._core.multiarray\nscalar",
    "numpy.core.multiarray\nscalar",
    "numpy\nndarray",
    "numpy._core.multiarray\n_reconstruct",
    "argparse\nNamespace",
    "collections\nOrderedDict",
    "_codecs\nencode",
    "torch._utils\n_rebuild_tensor_v2",
)
CODES = (
    "f8",
    "i8",
    "b1",
    "f4",
    "V8",
    "O",
    "O8",
    "S8",
    "U2",
    "f8,f8",
    "O,O",
    "M8[s]",
    "i99",
    "",
    "<f8",
)
BATCH = 250
"""Number of pickles in a child process."""


def text(value: str) -> bytes:
    """Return the pickle of a string, or of bytes if torch expects bytes."""
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def constant(draw: random.Random, depth: int) -> bytes:
    """Pickle an argument for a dtype, a scalar or a Namespace."""
    choices: list[Callable[[], bytes]] = [
        lambda: b"N",
        lambda: draw.choice((b"\x88", b"\x89")),
        lambda: b"J" + struct.pack("<i", draw.choice((-1, 0, 1, 3, 4, 8, 2**31 - 1, -(2**31)))),
        lambda: b"G" + struct.pack(">d", draw.choice((0.0, 1e308, float("nan"), -1.0))),
        lambda: text(draw.choice((*CODES, "<", ">", "|", "=", "__class__", "x", "latin1"))),
        lambda: (
            b"c_codecs\nencode\n"
            + text("\0" * draw.choice((0, 1, 7, 8, 9, 64)))
            + text("latin1")
            + b"\x86R"
        ),
    ]
    if depth:
        choices += [
            lambda: (
                b"(" + b"".join(constant(draw, depth - 1) for _ in range(draw.randrange(9))) + b"t"
            ),
            lambda: (
                b"}("
                + b"".join(text(draw.choice("abc")) + constant(draw, depth - 1) for _ in range(3))
                + b"u"
            ),
            lambda: built(draw, depth - 1),
            lambda: b"h" + bytes([draw.randrange(4)]),
        ]
    return draw.choice(choices)()


def built(draw: random.Random, depth: int) -> bytes:
    """Pickle the call of an allowed name, sometimes followed by a state."""
    if draw.random() < 0.8:
        return scalar(draw)
    name = f"c{draw.choice(NAMES)}\n".encode()
    arguments = b"(" + b"".join(constant(draw, depth) for _ in range(draw.randrange(4))) + b"t"
    call = name + arguments + draw.choice((b"R", b"\x81"))
    put = b"q" + bytes([draw.randrange(4)])
    state = constant(draw, depth) + b"b" if draw.random() < 0.6 else b""
    return call + put + state


def scalar(draw: random.Random) -> bytes:
    """Return the pickle of a numpy scalar with up to three parts replaced."""
    minus = b"J" + struct.pack("<i", -1)
    zeros = b"c_codecs\nencode\n" + text("\0" * 8) + text("latin1") + b"\x86R"
    parts = [text("f8"), b"\x89", b"\x88"]
    parts += [b"K\x03", text("<"), b"N", b"N", b"N", minus, minus, b"K\x00", zeros]
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        parts[draw.randrange(len(parts))] = constant(draw, draw.choice((0, 0, 1)))
    if draw.random() < 0.3:  # a dtype with fields, or of arrays
        parts[5:8] = draw.choice(((b"N", *fields(draw)), (shape(draw), b"N", b"N")))
        parts[8:11] = [number(draw), number(draw), number(draw)]
        parts[0] = text(draw.choice(("f8", "i8", "b1")))
    elif draw.random() < 0.4:
        parts[0] = text(draw.choice(CODES))
    dtype = b"cnumpy\ndtype\n" + b"".join(parts[:3]) + b"\x87R"
    state = b"(" + b"".join(parts[3:-1]) + b"tb"
    dtype += state if draw.random() < 0.8 else b""
    arguments = dtype + parts[-1] + b"\x86" if draw.random() < 0.8 else dtype + b"\x85"
    return b"cnumpy._core.multiarray\nscalar\n" + arguments + b"R"


def other_dtype(draw: random.Random) -> bytes:
    """Return the pickle of a random dtype."""
    return b"cnumpy\ndtype\n" + text(draw.choice(CODES)) + b"\x85R"


def number(draw: random.Random) -> bytes:
    """Return the pickle of a small integer, such as a size or a flag of a dtype."""
    return b"J" + struct.pack("<i", draw.choice((-1, 0, 1, 4, 8, 63, 2**31 - 1)))


def fields(draw: random.Random) -> tuple[bytes, bytes]:
    """Return the pickles of a dtype's field names and of the fields by name."""
    chosen = draw.choice(("a", "ab"))
    held = (text(name) + other_dtype(draw) + number(draw) + b"\x86" for name in chosen)
    return b"(" + b"".join(map(text, chosen)) + b"t", b"}(" + b"".join(held) + b"u"


def shape(draw: random.Random) -> bytes:
    """Return the pickle of a subarray dtype: the dtype of the items and the shape."""
    return other_dtype(draw) + number(draw) + b"\x85" + b"\x86"


def checkpoint(seed: int) -> bytes:
    """Return a checkpoint that contains a random pickle."""
    draw = random.Random(seed)
    first = b"".join(constant(draw, 0) + b"q" + bytes([place]) for place in range(4))
    values = b"".join(text(f"v{place}") + built(draw, 2) for place in range(draw.choice((1, 1, 2))))
    where = draw.choice(("extra_state", "args", "cfg"))
    body = (
        b"\x80\x02"
        + b"}("
        + text("x")
        + b"("
        + first
        + b"t"
        + text("model")
        + b"}"
        + text(where)
        + b"}("
        + values
        + b"uu."
    )
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("archive/data.pkl", body)
        archive.writestr("archive/version", b"3\n")
        archive.writestr("archive/byteorder", b"little")
    return held.getvalue()


def read(seed: int) -> str:
    """Read a checkpoint. Return the outcome."""
    from fairseq_ssl.checkpoints.files import load_checkpoint
    from fairseq_ssl.errors import DataError

    try:
        state = load_checkpoint(io.BytesIO(checkpoint(seed)), f"seed {seed}")
        pickle.dumps(state)
        repr(state)
    except DataError:
        return "rejected"
    except Exception as error:
        return f"FINDING seed {seed}: {type(error).__name__}: {str(error)[:200]}"
    return "read"


def read_all(first: int, count: int) -> list[str]:
    """Read many checkpoints in child processes. Return the outcome of each."""
    found = []
    while count:
        batch = min(count, BATCH)
        words = [sys.executable, __file__, "--child", "--first", str(first), "--count", str(batch)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        if done.returncode:
            seed = first + len(lines)
            lines.append(f"FINDING seed {seed}: exit code {done.returncode} {done.stderr[-300:]}")
        found += lines
        first, count = first + len(lines), count - len(lines)
    return found


def main() -> int:
    """Read the pickles and print the numbers of values, errors and findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument(
        "--count", type=int, default=10_000, help="number of pickles (default: 10000)"
    )
    parser.add_argument("--child", action="store_true", help="read in this process")
    args = parser.parse_args()
    if args.child:
        for seed in range(args.first, args.first + args.count):
            print(read(seed), flush=True)
        return 0
    results = read_all(args.first, args.count)
    findings = [line for line in results if line.startswith("FINDING")]
    for line in findings:
        print(line)
    counts = Counter(line for line in results if not line.startswith("FINDING"))
    print(f"{len(results)} pickles: {dict(counts)}, {len(findings)} findings")
    return min(1, len(findings))


if __name__ == "__main__":
    sys.exit(main())
