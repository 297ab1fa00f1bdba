"""Coverage-guided fuzzing of the readers of files (atheris).

Needs `pip install atheris`, and a folder for the corpus of inputs:

    python scripts/fuzz/readers.py m2 --seconds 60 --corpus corpus

Without a name, all readers are fuzzed one after another. A crash is printed with its traceback, and
its input is stored next to the corpus.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("readers.py needs the package atheris. Install it with: pip install atheris")
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

TOKENISER = b'{"model": {"vocab": {"the": 0}}, "added_tokens": [{"id": 1, "content": "<x>"}]}'
HEAD = b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
WEIGHT = len(HEAD).to_bytes(8, "little") + HEAD + bytes(4)

with (
    contextlib.redirect_stderr(io.StringIO()),  # atheris prints a line for each module
    atheris.instrument_imports(include=["fairseq_ssl"]),
):
    from fairseq_ssl.checkpoints import hugging_face
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
            m2.apply_m2_edits(sentence, annotator, "it")


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
        with contextlib.suppress(FairseqSslError):  # a label that does not fit the token
            apply_labels(["cats"], [label])


def noise_settings(path: Path) -> None:
    """Assert that the full name of a noise is parsed as the same noise."""
    for line in read_lines(path):
        names = ",".join(map(str, block_noise.parse_noise(line)))
        assert ",".join(map(str, block_noise.parse_noise(names))) == names


READERS: dict[str, tuple[Callable[[Path], object], bytes]] = {
    "tokenizer.json": (lambda path: hugging_face.read_vocabulary(path.parent), TOKENISER),
    "vocab.json": (lambda path: hugging_face.read_vocabulary(path.parent), b'{"the": 0, "cat": 1}'),
    "model.safetensors": (lambda path: hugging_face.read_weights(path.parent), WEIGHT),
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


def one_reader(name: str, seconds: int, folder: Path) -> None:
    """Fuzz a reader for `seconds` in this process, which atheris then ends."""
    read, sample = READERS[name]
    file = Path(tempfile.mkdtemp(dir="/dev/shm")) / name
    file.write_bytes(sample)
    read(file)  # a rejected sample would be useless as a start

    def try_it(data: bytes) -> None:
        file.write_bytes(data)
        with contextlib.suppress(FairseqSslError):  # the expected errors
            read(file)

    (folder / "sample").write_bytes(sample)
    words = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2000", "-max_len=6000"]
    atheris.Setup([name, str(folder), f"-artifact_prefix={folder}-", *words], try_it)
    atheris.Fuzz()


def broken(names: list[str], seconds: int, corpus: Path) -> Iterator[str]:
    """Fuzz the readers in child processes. Yield the traceback of each crash."""
    for name in names:
        words = [sys.executable, __file__, name, "--alone", "--corpus", str(corpus)]
        words += ["--seconds", str(seconds)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        output = ended.stderr + ended.stdout
        tried = re.findall(r"^#(\d+)\t", output, re.MULTILINE) or ["no"]
        outcome = "crashed" if ended.returncode else "passed"
        print(f"{name}: {outcome}, {tried[-1]} inputs", flush=True)
        if ended.returncode:
            trace = output[max(output.find(" === Uncaught Python exception"), 0) :]
            kept = [line for line in trace.splitlines() if not line.startswith(("#", "INFO"))]
            yield "\n".join([f"{name}:", *kept[-20:]])


def main() -> int:
    """Fuzz all readers, or some. Return 1 if a reader crashed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"readers: {', '.join(READERS)}")
    parser.add_argument(
        "--seconds", type=int, default=60, help="time for each reader in seconds (default: 60)"
    )
    parser.add_argument("--corpus", type=Path, help="folder for inputs that reach new code")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if wrong := set(args.names) - set(READERS):
        parser.error(
            f"There is no reader {sorted(wrong)[0]!r}. The readers are: {', '.join(READERS)}."
        )
    corpus = args.corpus or Path(tempfile.mkdtemp(prefix="readers-"))
    if args.alone:
        folder = corpus / args.names[0]
        folder.mkdir(parents=True, exist_ok=True)
        one_reader(args.names[0], args.seconds, folder)
    findings = list(broken(args.names or list(READERS), args.seconds, corpus))
    print("\n".join(findings))
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
