"""Read and train fastText word vectors (``.vec`` and ``.bin`` files)."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, UsageError, check_integer, check_positive, import_optional
from fairseq_ssl.io.jobs import ProgressFactory, counted, silent_progress
from fairseq_ssl.io.outputs import atomic_lines, atomic_path, exclusive, write_signature
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import open_bytes, open_text, path_list, raw_lines, read_lines
from fairseq_ssl.metrics.bleu import bleu_words
from fairseq_ssl.options import check, option
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.specs import parse_integers
from fairseq_ssl.text.tokenization import LineRewriter
from fairseq_ssl.text.vocabulary import write_counts

MAGIC = 793712314
BINARY_HEADER = struct.Struct("<i60xi24x")
"""Header format of a fastText model: magic number, settings, number of words, counts."""
COUNT_SIZE = 10
"""Number of bytes that follow a word: a NUL, the word's count and its type."""

Vector = NDArray[np.float32]
VECTOR_SUFFIXES = (".vec", ".vec.gz", ".bin")


@dataclass(frozen=True)
class WordVectors:
    """Word vectors. `vector` returns the vector of a word, or None if the word has no vector."""

    vector: Callable[[str], Vector | None]
    dimensions: int


def _check_words(path: Path) -> None:
    """Raise ValueError if a file is not a fastText model, and EOFError if its words are truncated.

    gensim would read a truncated file forever.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        magic, words = BINARY_HEADER.unpack_from(data)
        if magic != MAGIC:
            raise ValueError("it has a different format")
        end = BINARY_HEADER.size
        for _ in range(words):
            end = data.find(b"\0", end) + COUNT_SIZE
            if end < COUNT_SIZE:
                raise EOFError("it is truncated")


def read_vectors(path: Path, words: Set[str]) -> WordVectors:
    """Read the vectors of `words` from a .vec file, or the complete model from a .bin file."""
    if path.name.endswith((".vec", ".vec.gz")):
        return _read_table(path, words)
    if path.suffix == ".bin":
        with open_bytes(path):  # report a missing file before a missing package
            fasttext = import_optional(
                "gensim.models.fasttext", "Reading a fastText .bin file", "wmt"
            )
        try:
            _check_words(path)
            model = fasttext.load_facebook_vectors(str(path))
        except Exception as error:  # gensim raises many types of exceptions
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(
                f"{path} is not a complete fastText model: {reason}. Copy or create the file again."
            ) from None

        def vector(word: str) -> Vector | None:
            try:
                return np.asarray(model.get_vector(word))
            except KeyError:  # no n-gram of the word is known
                return None

        return WordVectors(vector, int(model.vector_size))
    raise UsageError(f"{path} is not a vector file. Expected the suffix .vec, .vec.gz or .bin.")


def _read_table(path: Path, words: Set[str]) -> WordVectors:
    """Read the vectors of `words` from a .vec file.

    The first line contains the numbers of words and dimensions. Each of the other lines contains a
    word and its vector.
    """
    missing = {word.encode("utf-8", "surrogatepass"): word for word in words}
    vectors: dict[str, Vector] = {}
    with open_text(path) as file:  # some files contain words that are not UTF-8
        head = file.readline(200).decode("utf-8", "replace").split()
        numbers = parse_integers(",".join(head))
        if numbers is None or len(numbers) != 2:
            raise DataError(
                f"{path}:1 is {' '.join(head)[:40]!r}. Expected the number of words and the number "
                "of dimensions, as in a fastText .vec file."
            )
        count, dimensions = numbers
        number = 0
        for number, line in enumerate(raw_lines(file, str(path)), 1):
            word = missing.pop(line.partition(b" ")[0], None)
            if word is not None:
                vectors[word] = _parse_vector(
                    line.decode("utf-8", "replace").rstrip(), dimensions, f"{path}:{number + 1}"
                )
    if number != count:
        raise DataError(
            f"{path} contains {number} words. Expected {count}, the number in its first line. The "
            "file may be truncated. Copy it again."
        )
    return WordVectors(vectors.get, dimensions)


def _parse_vector(line: str, dimensions: int, where: str) -> Vector:
    numbers = line.split(" ")[1:]
    try:
        vector = np.array(numbers, np.float32)
    except ValueError:
        vector = np.full(1, np.nan, np.float32)
    if len(vector) != dimensions or not np.isfinite(vector).all():
        raise DataError(
            f"{where} is {line[:40]!r}. Expected a word and {dimensions} finite numbers."
        )
    return vector


@dataclass(frozen=True)
class VectorTraining:
    """Hyperparameters of word vectors, with fastText's defaults except for `dimensions`."""

    dimensions: int = option(300, "vector dimension (300 in Kiyono, 2022)", low=1, high=10_000)
    epochs: int = option(5, "number of training epochs", low=1, high=10_000)
    min_count: int = option(5, "min count of a word in the text", low=1, high=10**9)
    window: int = 5
    """Number of context words on each side."""
    buckets: int = option(
        2_000_000,
        "number of hash buckets for character n-grams of 3 to 6 characters",
        low=1,
        high=10**9,
    )
    seed: int = 1
    jobs: int = option(
        1, "number of threads; results with several threads are not reproducible", low=1, high=1024
    )
    sample: float = 1e-4
    """Threshold for subsampling frequent words. 0 disables subsampling."""
    tokenize: str = option(
        "none",
        "sacreBLEU tokenizer that splits the text into words, such as ja-mecab, zh or 13a; use the "
        "same tokenizer for rerank vectors and post-ensemble",
        usual="none, words separated by spaces",
        metavar="NAME",
    )

    def __post_init__(self) -> None:
        check(self)
        check_positive("window", self.window)
        check_integer("seed", self.seed, 0)


def train_vectors(
    texts: Sequence[str | Path],
    output: str | Path,
    training: VectorTraining | None = None,
    progress: ProgressFactory = silent_progress,
) -> Signature:
    """Train skip-gram vectors with character n-grams (Bojanowski et al., 2017).

    The text is streamed once to count words, and once per epoch. Word counts are written to a file
    named after `output` with the suffix ``.counts`` appended, and the signature to a file with the
    suffix ``.json`` appended.

    Args:
        texts: text files, one sentence per line
        output: ``.vec`` or ``.vec.gz`` file for word vectors, ``.bin`` file to include n-grams
        training: hyperparameters (default: `VectorTraining()`)
        progress: creates the progress report, which receives the number of processed lines

    Returns:
        The signature, with the number of words.
    """
    texts, output = path_list(texts), as_path(output)
    if not output.name.endswith(VECTOR_SUFFIXES):
        raise UsageError(
            f"{output} is not a vector file. Expected the suffix .vec, .vec.gz or .bin."
        )
    training = training or VectorTraining()
    rewrite = bleu_words(training.tokenize)
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
            f"No word in {', '.join(map(str, texts))} occurs at least {training.min_count} times. "
            "Provide more text with spaces between words, or set `min_count` to a smaller number."
        )
    model.train(sentences, total_examples=model.corpus_count, epochs=training.epochs)
    counts = {word: model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key}
    with exclusive(output):
        _write(model, gensim, output)
        write_counts(counts, output.with_name(f"{output.name}.counts"))
    parameters = {"words": len(model.wv), **vars(training)}
    signature = Signature("word-vectors", parameters, {"text": list(map(str, texts))})
    write_signature(signature, output)
    return signature


@dataclass(frozen=True)
class SentenceWords:
    """Iterable over the words of each line in text files, which gensim reads several times."""

    paths: Sequence[Path]
    rewrite: LineRewriter = str
    progress: ProgressFactory = silent_progress

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the words of each line. Report progress."""
        lines = chain.from_iterable(map(read_lines, self.paths))
        for line in counted(lines, self.progress("rerank vectors", "lines")):
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
