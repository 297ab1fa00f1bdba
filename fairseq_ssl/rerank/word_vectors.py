"""Word vectors of fastText: ``.vec`` and ``.bin`` files, read, checked and trained."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError, import_optional
from fairseq_ssl.io.atomic import atomic_lines, atomic_path, exclusive
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.text_files import open_bytes, open_text, read_lines
from fairseq_ssl.metrics.bleu import bleu_words
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.specs import parse_integers
from fairseq_ssl.text.tokenization import LineRewriter
from fairseq_ssl.text.vocabulary import write_counts

MAGIC, VERSION = 793712314, 12
BINARY_HEADER = struct.Struct("<14id")
"""Magic number, version, 12 settings, sampling threshold."""
DIM, BUCKETS, MIN_N, MAX_N = 2, 10, 11, 12
"""Positions in the header: dimensions, buckets of n-grams, and the lengths of n-grams."""
VOCABULARY_FORMAT = struct.Struct("<3i2q")
"""Entries, words, labels, tokens and the size of the pruning index, -1 for none."""
COUNT_FORMAT = struct.Struct("<qb")
"""After each word: its count, and whether it is a label."""
MATRIX = struct.Struct("<?2q")
"""Whether it is quantized, rows and columns."""
MAX_GRAM = 100
READ_SIZE = 1 << 22


class _DamagedError(Exception):
    """An invalid model file."""


def check_fasttext(path: Path) -> None:
    """Reject a file that is truncated or inconsistent.

    Raises:
        DataError: if a file is not a complete, unquantized model of fastText
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
        raise _DamagedError("its matrix is quantized or does not match its settings")
    start, count = end + MATRIX.size, rows * columns
    if count < 1 or start + 4 * count > len(data):
        raise _DamagedError("it is truncated")
    for first in range(0, count, READ_SIZE):
        some = min(READ_SIZE, count - first)
        values = np.frombuffer(data, "<f4", some, start + 4 * first)
        is_finite = bool(np.isfinite(values).all())
        del values  # or the file cannot be closed
        if not is_finite:
            raise _DamagedError("it has infinite numbers")


def _after_words(data: mmap.mmap, start: int, entries: int) -> int:
    """Return the position after the vocabulary."""
    for _ in range(entries):
        end = data.find(b"\0", start)
        if end < 0:
            raise _DamagedError("it is truncated")
        start = end + 1 + COUNT_FORMAT.size
    return start


Vector = NDArray[np.float32]
VECTOR_SUFFIXES = (".vec", ".vec.gz", ".bin")


class WordVectors(Protocol):
    """Vectors of words."""

    @property
    def dimensions(self) -> int:
        """Number of dimensions of a vector."""

    def vector(self, word: str) -> Vector | None:
        """Return the vector of a word, [dimensions], or None for an unknown word."""


@dataclass(frozen=True)
class VectorTable:
    """Vectors of a fixed vocabulary."""

    vectors: dict[str, Vector]
    dimensions: int

    def vector(self, word: str) -> Vector | None:
        """Return the vector of a word, [dimensions], or None."""
        return self.vectors.get(word)


@dataclass(frozen=True)
class FastTextVectors:
    """A model of fastText, which computes vectors of unknown words from character n-grams."""

    model: Any
    dimensions: int

    def vector(self, word: str) -> Vector | None:
        """Return the vector of a word, [dimensions], or None if no n-gram of it is known."""
        try:
            vector: Vector = self.model.get_vector(word)
        except KeyError:
            return None
        return vector


def read_vectors(path: Path, words: Set[str]) -> WordVectors:
    """Read the vectors of some words. A .bin file is read completely."""
    if path.name.endswith((".vec", ".vec.gz")):
        return _read_table(path, words)
    if path.suffix == ".bin":
        with open_bytes(path):  # reports a missing file before a missing package
            fasttext = import_optional(
                "gensim.models.fasttext", "Reading a .bin file of fastText", "wmt"
            )
        check_fasttext(path)
        try:
            model = fasttext.load_facebook_vectors(str(path))
        except Exception as error:  # gensim raises many kinds
            raise DataError(f"{path} is not a fastText model: {error}") from None
        return FastTextVectors(model, int(model.vector_size))
    raise UsageError(f"{path} is not a vector file. Expected a name that ends in .vec or .bin.")


def _read_table(path: Path, words: Set[str]) -> VectorTable:
    """Read a text file: a header of two numbers, then a word and its vector in each line."""
    missing = {word.encode("utf-8", "surrogatepass"): word for word in words}
    vectors: dict[str, Vector] = {}
    with open_text(path) as file:  # some files have words that are not UTF-8
        head = file.readline(200).decode("utf-8", "replace").split()
        numbers = parse_integers(",".join(head))
        if numbers is None or len(numbers) != 2:
            shown = " ".join(head)[:40]
            raise DataError(
                f"{path}:1 is {shown!r}; expected the numbers of words and of dimensions, as in "
                "a .vec file of fastText."
            )
        count, dimensions = numbers
        number = 0
        for number, line in enumerate(file, 1):
            word = missing.pop(line.partition(b" ")[0], None)
            if word is not None:
                vectors[word] = _parse_vector(
                    line.decode("utf-8", "replace").rstrip(), dimensions, f"{path}:{number + 1}"
                )
    if number != count:
        raise DataError(
            f"{path} has {number} words, but its first line says {count}. It may be truncated: "
            "copy it again."
        )
    return VectorTable(vectors, dimensions)


def _parse_vector(line: str, dimensions: int, where: str) -> Vector:
    numbers = line.split(" ")[1:]
    try:
        vector = np.array(numbers, np.float32)
    except ValueError:
        vector = np.full(1, np.nan, np.float32)
    if len(vector) != dimensions or not np.isfinite(vector).all():
        raise DataError(f"{where} has {line[:40]!r} ...; expected a word and {dimensions} numbers.")
    return vector


@dataclass(frozen=True)
class VectorTraining:
    """Hyper-parameters of the training. The defaults are those of fastText, except `dimensions`."""

    dimensions: int = 300
    """Thesis, section 5.3.9."""
    epochs: int = 5
    min_count: int = 5
    """Minimum number of occurrences of a word."""
    window: int = 5
    """Number of context words on each side."""
    buckets: int = 2_000_000
    """Number of vectors that character n-grams share."""
    seed: int = 1
    jobs: int = 1
    """Number of threads. The result with several threads is not reproducible."""
    sample: float = 1e-4
    """Frequency above which words are randomly dropped, 0 for none."""


def train_vectors(
    texts: Sequence[Path],
    output: Path,
    training: VectorTraining | None = None,
    tokenize: str = "none",
    progress: ProgressFactory = silent_progress,
) -> Signature:
    """Train skip-gram vectors with character n-grams (Bojanowski et al., 2017).

    The text is read once to count words and once in each epoch, and is never in memory as a whole.
    The counts of words are written to `output` with ``.counts`` appended, the signature to `output`
    with ``.json`` appended.

    Args:
        texts: text files, one sentence a line
        output: file of the vectors: .vec or .vec.gz for words, .bin for n-grams too
        training: hyper-parameters
        tokenize: tokenizer of sacreBLEU, or none if spaces separate words
        progress: reports lines

    Returns:
        the signature, with the number of words
    """
    if not output.name.endswith(VECTOR_SUFFIXES):
        raise UsageError(f"{output} is not a vector file. Expected .vec, .vec.gz or .bin.")
    training = training or VectorTraining()
    rewrite = bleu_words(tokenize)
    gensim = import_optional("gensim.models.fasttext", "Training word vectors", "wmt")
    model = gensim.FastText(
        vector_size=training.dimensions,
        window=training.window,
        min_count=training.min_count,
        bucket=training.buckets,
        seed=training.seed,
        workers=training.jobs,
        sg=1,
        alpha=0.05,
        sample=training.sample,
        min_n=3,
        max_n=6,
    )
    sentences = SentenceWords(texts, rewrite, progress)
    model.build_vocab(sentences)
    if not len(model.wv):
        raise DataError(
            f"No word of {', '.join(map(str, texts))} occurs {training.min_count} times. Provide "
            "more text with spaces between words, or set `min_count` to a smaller number."
        )
    model.train(sentences, total_examples=model.corpus_count, epochs=training.epochs)
    counts = {word: model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key}
    with exclusive(output):
        _write(model, gensim, output)
        write_counts(counts, output.with_name(f"{output.name}.counts"))
    parameters = {**vars(training), "tokenize": tokenize, "text": list(map(str, texts))}
    signature = Signature("word-vectors", {"words": len(model.wv), **parameters})
    signature.write_beside(output)
    return signature


@dataclass(frozen=True)
class SentenceWords:
    """The words of each line of files, for any number of iterations."""

    paths: Sequence[Path]
    rewrite: LineRewriter = str
    progress: ProgressFactory = silent_progress

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the words of each line."""
        advance = self.progress("rerank vectors", "lines")
        for path in self.paths:
            for line in read_lines(path):
                yield self.rewrite(line).split()
                advance(1)


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
