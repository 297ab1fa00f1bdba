"""Word vectors: read from fastText's ``.vec`` or ``.bin`` files, checked, or trained."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError, import_optional
from fairseq_ssl.io.atomic import atomic_lines, atomic_path, exclusive
from fairseq_ssl.io.text_files import open_bytes, open_text, read_lines
from fairseq_ssl.text.specs import parse_integers
from fairseq_ssl.text.tokenization import LineRewriter
from fairseq_ssl.text.vocabulary import write_counts

MAGIC, VERSION = 793712314, 12
BINARY_HEADER = struct.Struct("<14id")
"""Magic number, version, 12 settings and the sampling threshold."""
DIM, BUCKETS, MIN_N, MAX_N = 2, 10, 11, 12
"""Positions in the header: dimensions, buckets of n-grams, and the lengths of n-grams."""
VOCABULARY_FORMAT = struct.Struct("<3i2q")
"""Entries, words, labels, tokens and the size of the pruning index, -1 for none."""
COUNT_FORMAT = struct.Struct("<qb")
"""Behind each word: its count, and whether it is a label."""
MATRIX = struct.Struct("<?2q")
"""Whether it is quantized, rows and columns."""
MAX_GRAM = 100
READ_SIZE = 1 << 22


class _DamagedError(Exception):
    """A fault in the bytes of a file."""


def check_fasttext(path: Path) -> None:
    """Reject a file that is cut off, or whose sizes do not go together.

    Raises:
        DataError: if a file is not a whole, unquantized model of fastText
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check(data)
    except (_DamagedError, ValueError, struct.error) as error:  # ValueError: an empty file
        reason = str(error) if isinstance(error, _DamagedError) else "it is truncated"
        raise DataError(f"{path} is not a complete fastText model: {reason}.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _check(data: mmap.mmap) -> None:
    header = BINARY_HEADER.unpack_from(data)
    if header[:2] != (MAGIC, VERSION):
        raise _DamagedError("it has another format or version")
    grams = header[MIN_N], header[MAX_N]
    if not (0 <= grams[0] <= MAX_GRAM and 0 <= grams[1] <= MAX_GRAM and header[BUCKETS] >= 0):
        raise _DamagedError(f"it has n-grams of {grams[0]} to {grams[1]} letters")
    if grams[1] and not header[BUCKETS]:
        raise _DamagedError("it has n-grams and no buckets for them")
    entries, words, labels, _, pruned = VOCABULARY_FORMAT.unpack_from(data, BINARY_HEADER.size)
    if labels or entries != words or entries < 1 or pruned > 0:
        raise _DamagedError("it is not a model of words, or it is pruned")
    end = _after_words(data, BINARY_HEADER.size + VOCABULARY_FORMAT.size, entries)
    is_quantized, rows, columns = MATRIX.unpack_from(data, end)
    if is_quantized or (rows, columns) != (words + header[BUCKETS], header[DIM]):
        raise _DamagedError("its matrix is quantized or has another size than its settings say")
    start, count = end + MATRIX.size, rows * columns
    if count < 1 or start + 4 * count > len(data):
        raise _DamagedError("it is truncated")
    for first in range(0, count, READ_SIZE):
        some = min(READ_SIZE, count - first)
        values = np.frombuffer(data, "<f4", some, start + 4 * first)
        is_finite = bool(np.isfinite(values).all())
        del values  # or the file could not be closed
        if not is_finite:
            raise _DamagedError("it has infinite numbers")


def _after_words(data: mmap.mmap, start: int, entries: int) -> int:
    """Return where the vocabulary ends."""
    for _ in range(entries):
        end = data.find(b"\0", start)
        if end < 0:
            raise _DamagedError("it is truncated")
        start = end + 1 + COUNT_FORMAT.size
    return start


Vector = NDArray[np.float32]
VECTOR_SUFFIXES = (".vec", ".vec.gz", ".bin")


class WordVectors(Protocol):
    """Knows words by their vectors."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    def vector(self, word: str) -> Vector | None:
        """Return a word's vector, [dimensions], or None where it is not known."""


@dataclass(frozen=True)
class VectorTable:
    """Words and their vectors; other words are not known."""

    vectors: dict[str, Vector]
    dimensions: int

    def vector(self, word: str) -> Vector | None:
        """Return a word's vector, [dimensions], or None."""
        return self.vectors.get(word)


@dataclass(frozen=True)
class Subwords:
    """A model of fastText's, which makes vectors of unknown words from their letters."""

    model: Any
    dimensions: int

    def vector(self, word: str) -> Vector | None:
        """Return a word's vector, [dimensions], or None where no n-gram of it is known."""
        try:
            found: Vector = self.model.get_vector(word)
        except KeyError:
            return None
        return found


def read_vectors(path: Path, words: Set[str]) -> WordVectors:
    """Read the vectors of these words, which saves memory; a .bin file is read whole."""
    if path.name.endswith((".vec", ".vec.gz")):
        return _table(path, words)
    if path.suffix == ".bin":
        with open_bytes(path):  # what is wrong with the file itself is told in words
            fasttext = import_optional(
                "gensim.models.fasttext", "Reading a .bin file of fastText", "wmt"
            )
        check_fasttext(path)
        try:
            model = fasttext.load_facebook_vectors(str(path))
        except Exception as error:  # each of gensim's checks has its own
            raise DataError(f"{path} is not a model of fastText: {error}") from None
        return Subwords(model, int(model.vector_size))
    raise UsageError(f"{path} is no file of vectors. Expected one that ends in .vec or .bin.")


def _table(path: Path, words: Set[str]) -> VectorTable:
    """Read a text file: how many words and dimensions; then a word and its numbers in a line."""
    wanted = {word.encode("utf-8", "surrogatepass"): word for word in words}
    found: dict[str, Vector] = {}
    with open_text(path) as file:  # some such files have words that are no UTF-8
        head = file.readline(200).decode("utf-8", "replace").split()
        numbers = parse_integers(",".join(head))
        if numbers is None or len(numbers) != 2:
            shown = " ".join(head)[:40]
            raise DataError(
                f"{path}:1 is {shown!r}; expected two numbers, of words and of dimensions, as in a "
                ".vec file of fastText."
            )
        count, dimensions = numbers
        number = 0
        for number, line in enumerate(file, 1):
            word = wanted.pop(line.partition(b" ")[0], None)
            if word is not None:
                found[word] = _parsed(
                    line.decode("utf-8", "replace").rstrip(), dimensions, f"{path}:{number + 1}"
                )
    if number != count:
        raise DataError(
            f"{path} has {number} words and says {count}. It may be cut off: copy it again."
        )
    return VectorTable(found, dimensions)


def _parsed(line: str, dimensions: int, where: str) -> Vector:
    numbers = line.split(" ")[1:]
    try:
        vector = np.array(numbers, np.float32)
    except ValueError:
        vector = np.full(1, np.nan, np.float32)
    if len(vector) != dimensions or not np.isfinite(vector).all():
        raise DataError(f"{where} has {line[:40]!r} ...; expected a word and {dimensions} numbers.")
    return vector


@dataclass(frozen=True)
class Training:
    """How vectors are trained; the defaults are fastText's but for the dimensions."""

    dimensions: int = 300
    """As the thesis has it (section 5.3.9)."""
    epochs: int = 5
    least: int = 5
    """How often a word must occur."""
    window: int = 5
    buckets: int = 2_000_000
    """For n-grams of letters."""
    seed: int = 1
    jobs: int = 1
    sample: float = 1e-4
    """Words are left out at random the more their share is above it; 0: none."""


def train_vectors(
    texts: list[Path],
    output: Path,
    training: Training,
    rewrite: LineRewriter = str,
    watch: Callable[[Iterable[str]], Iterable[str]] = iter,
) -> int:
    """Train skip-grams with letters (Bojanowski et al., 2017), and count words in `output`.counts.

    Args:
        texts: files of lines, never held whole
        output: where to write, by its suffix
        training: how
        rewrite: puts spaces between words
        watch: sees all lines, once to count words and once an epoch

    Returns:
        how many words have a vector
    """
    if not output.name.endswith(VECTOR_SUFFIXES):
        raise UsageError(f"{output} is no name for vectors. Expected .vec, .vec.gz or .bin.")
    gensim = import_optional("gensim.models.fasttext", "Training word vectors", "wmt")
    model = gensim.FastText(
        vector_size=training.dimensions,
        window=training.window,
        min_count=training.least,
        bucket=training.buckets,
        seed=training.seed,
        workers=training.jobs,
        sg=1,
        alpha=0.05,
        sample=training.sample,
        min_n=3,
        max_n=6,
    )
    text = Text(texts, rewrite, watch)
    model.build_vocab(text)
    if not len(model.wv):
        raise DataError(
            f"No word of {', '.join(map(str, texts))} is there {training.least} times. Give more "
            "text, in words between spaces, or a lower --min-count."
        )
    model.train(text, total_examples=model.corpus_count, epochs=training.epochs)
    counts = {word: model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key}
    with exclusive(output):
        _write(model, gensim, output)
        write_counts(counts, output.with_name(f"{output.name}.counts"))
    return len(model.wv)


@dataclass(frozen=True)
class Text:
    """The words of each line of files, as often as asked."""

    paths: list[Path]
    rewrite: LineRewriter = str
    watch: Callable[[Iterable[str]], Iterable[str]] = iter

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the words of each line."""
        lines = (line for path in self.paths for line in read_lines(path))
        for line in self.watch(lines):
            yield self.rewrite(line).split()


def _write(model: Any, gensim: Any, output: Path) -> None:
    if output.suffix == ".bin":
        with atomic_path(output) as temporary:
            gensim.save_facebook_model(model, str(temporary))
        return
    words = model.wv.index_to_key
    with atomic_lines(output) as file:
        file.write(f"{len(words)} {model.wv.vector_size}\n")
        for word in words:
            numbers = " ".join(f"{value:.6g}" for value in model.wv.get_vector(word).tolist())
            file.write(f"{word} {numbers}\n")
