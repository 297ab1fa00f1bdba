"""Readers of files, each with a valid sample, for the fuzzer and for the tests of attacks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from targets import (
    CASE,
    COUNTS,
    EDITS,
    FILTERS,
    FOUND,
    LABELED,
    LEARNED,
    M2,
    NBEST,
    TEXT,
    VECTORS,
    WEIGHTS,
)

from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.extraction import apply_labels
from fairseq_ssl.edits.labels import parse_label
from fairseq_ssl.edits.transforms import read_suffixes
from fairseq_ssl.errors import FairseqSslError
from fairseq_ssl.filters.chain import read_filters
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.noise import block_noise
from fairseq_ssl.noise.confusion_sets import read_confusion_sets
from fairseq_ssl.noise.learner_errors import LearnerErrors
from fairseq_ssl.rerank import nbest
from fairseq_ssl.rerank.weights import read_weights
from fairseq_ssl.rerank.word_vectors import read_vectors
from fairseq_ssl.text import m2
from fairseq_ssl.text.labeled_text import read_labeled_text
from fairseq_ssl.text.spelling import SpellingCounts
from fairseq_ssl.text.tokenization import truecaser
from fairseq_ssl.text.vocabulary import read_counts


def m2_again(path: Path) -> None:
    """Assert that a written and read M2 file has the same edits."""
    sentences = list(m2.read_m2(path))
    lines = [line for sentence in sentences for line in m2.format_m2(sentence)]
    again = list(m2.parse_m2(lines, "again"))
    assert [(one.words, one.annotators) for one in again] == [
        (one.words, one.annotators) for one in sentences
    ]
    for sentence in sentences:
        for annotator in sentence.annotators:
            m2.EditApplier("it", annotator)(sentence)


def nbest_again(path: Path) -> None:
    """Assert that a written and read n-best list is written equally, with twelve digits."""
    groups = nbest.parse_list(read_lines(path), str(path), "s", str.strip)
    lines = list(nbest.format_nbest(groups))
    assert list(nbest.format_nbest(nbest.parse_nbest(lines, "again"))) == lines


def edits_again(path: Path) -> None:
    """Assert that a dictionary is written as it was read, and that label names are unique."""
    read = EditDictionary.read(path)
    assert len(set(read.names)) == len(read.names)
    path.write_text(read.text(), encoding="utf-8", errors="surrogatepass", newline="\n")
    assert EditDictionary.read(path) == read


def label_again(path: Path) -> None:
    """Assert that a label is parsed from its name, and can be applied or is rejected."""
    for line in read_lines(path):
        label = parse_label(line)
        assert str(label) == line
        with suppress(FairseqSslError):  # a label that does not fit the token
            apply_labels(["cats"], [label])


def noise_settings(path: Path) -> None:
    """Assert that the full name of a noise is parsed as the same noise."""
    for line in read_lines(path):
        names = ",".join(map(str, block_noise.parse_noise(line)))
        assert ",".join(map(str, block_noise.parse_noise(names))) == names


READERS: dict[str, tuple[Callable[[Path], object], bytes]] = {
    "m2": (m2_again, M2),
    "n-best": (nbest_again, NBEST),
    "generated": (nbest_again, FOUND),
    "edits": (edits_again, EDITS),
    "labels": (label_again, b"KEEP\nAPPEND_of_the\nSUFFIX_-e+ing\nCASE_lower\n"),
    "suffixes": (read_suffixes, b"s ing\n- ed\n"),
    "noise": (noise_settings, b"direct:keep=0.2:mask=0.3\ndenoise\n"),
    "filters": (read_filters, FILTERS),
    "learner-errors": (LearnerErrors.read, LEARNED),
    "confusion-sets": (read_confusion_sets, b"cat\tcar cut\nsit\tset\n"),
    "counts": (read_counts, COUNTS),
    "spelling": (SpellingCounts.read, b"the 20\ncat 9\n<s> the 12\nthe cat 2\n"),
    "labeled": (lambda path: list(read_labeled_text(path)), LABELED[:60]),
    "case": (truecaser, CASE),
    "it.vec": (lambda path: read_vectors(path, {"one", "two"}), VECTORS),
    "weights": (read_weights, WEIGHTS),
    "lines": (lambda path: list(read_lines(path)), TEXT),
}
