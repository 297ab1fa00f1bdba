"""Labeled texts: reading, word segmentation, duplicate detection, and hash-based splits."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import convert_fields, read_lines
from fairseq_ssl.options import check, option

Segmenter = Callable[[str], list[str]]

JOINERS = "\u200c\u200d"
"""Zero-width characters within words, for example in Persian."""
HELD_OUT = ("valid", "test")
REJECT, DROP, KEEP = "reject", "drop", "keep"
COMPRESSED = ".gz and .zst files are decompressed"
FORMAT = f"with a label, a tab and a text on each line; {COMPRESSED}"
SELECTED = "number (1 or more) or fraction (below 1) of labeled texts, selected by hash, for the"


@dataclass(frozen=True)
class LabeledText:
    """A text and its class label, from a line of a labeled file."""

    label: str
    text: str


@dataclass(frozen=True)
class PreparationConfig:
    """Options for the data folder of a text classifier: input texts, splits and tokenization."""

    labeled: Path
    """Training file with a label, a tab and a text on each line."""
    unlabeled: tuple[Path, ...] = option(
        (), f"files of unlabeled texts, one per line; {COMPRESSED}", usual="none", nargs="+"
    )
    extra_unlabeled: tuple[Path, ...] = option(
        (),
        "files of additional unlabeled texts, one per line, only for imitators; the vocabularies "
        f"and the language model data do not include these texts; {COMPRESSED}",
        usual="none",
        nargs="+",
    )
    valid: Path | None = option(None, f"file of the validation texts, {FORMAT}")
    valid_size: float | None = option(None, f"{SELECTED} validation set", metavar="SIZE")
    test: Path | None = option(None, f"file of the test texts, {FORMAT}")
    test_size: float | None = option(None, f"{SELECTED} test set", metavar="SIZE")
    train_lines: int | None = option(
        None,
        "number of training texts that keep their labels; the texts are selected by their hash "
        "values, and all other training texts become unlabeled",
        low=1,
        usual="all",
    )
    tokenizer: str = option(
        "words",
        "tokenizer for the expert; words: split into words and punctuation marks; spaces: split "
        "at spaces; bert:FOLDER: tokenizer of a BERT or RoBERTa model, for the architecture "
        "bert_classifier",
        metavar="NAME",
    )
    lower: bool = option(False, "lowercase the text for both the expert and the imitators")
    min_count: int | None = option(
        None,
        "min count of a vocabulary word in the training texts and unlabeled texts",
        low=1,
        usual="2; 1 with bert:FOLDER",
    )
    subword_vocab_size: int = option(
        20_000,
        "vocabulary size of the imitators' sentencepiece BPE model; the model is trained on the "
        "training and unlabeled texts",
        low=1,
    )
    train_test_overlap: str = option(
        REJECT,
        "treatment of training and unlabeled texts that are equal to a validation or test text, "
        "ignoring case, spaces and punctuation",
        choices=(REJECT, DROP, KEEP),
    )

    def __post_init__(self) -> None:
        convert_fields(self, ["labeled", "valid", "test"], ["unlabeled", "extra_unlabeled"])
        check(self)
        fractions = 0.0
        for name in HELD_OUT:
            size = getattr(self, f"{name}_size")
            if size is None:
                continue
            if not (0 < size < 1 or (size >= 1 and float(size).is_integer())):
                raise UsageError(
                    f"`{name}_size` is {size}. Expected a fraction above 0 and below 1, or an "
                    "integer of 1 or more."
                )
            if getattr(self, name):
                raise UsageError(f"`{name}` and `{name}_size` are both set. Set only one of them.")
            fractions += size if size < 1 else 0
        if fractions >= 1:
            raise UsageError(
                f"The fractions `valid_size` and `test_size` have the sum {fractions:g} and leave "
                "no training texts. Expected a sum below 1."
            )

    @property
    def minimum(self) -> int:
        """Minimum count of a vocabulary word: `min_count`, or the default for the tokenizer."""
        default = 1 if self.tokenizer.startswith("bert:") else 2
        return default if self.min_count is None else self.min_count


def read_labeled_text(path: Path) -> Iterator[LabeledText]:
    """Yield the labeled texts in a file. Each line contains a label, a tab and a text."""
    for number, line in enumerate(read_lines(path), 1):
        label, tab, text = line.partition("\t")
        label = label.strip()
        if not tab or not label or label.split() != [label]:
            raise DataError(
                f"{path}:{number} is {line[:80]!r}. Expected a label, a tab and a text. Labels "
                "cannot contain spaces."
            )
        yield LabeledText(label, text.strip())


def normalized(text: str) -> str:
    """Return the words of a text in a normalized form, which is equal for duplicates.

    Case, spaces, punctuation and Unicode compatibility variants, such as full-width letters, are
    ignored. If a text contains no words, its other characters are returned without spaces.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    letters, _ = _letters_and_marks(plain)
    return " ".join(re.findall(letters, plain)) or "".join(plain.split())


def duplicate_key(text: str) -> bytes:
    """Return a 16-byte hash of the normalized text. Duplicates have the same hash."""
    return hashlib.blake2b(normalized(text).encode(), digest_size=16).digest()


def is_in_fraction(text: str, fraction: float) -> bool:
    """Return True if the hash of a text is in the lowest `fraction` (0 to 1) of the hash range.

    Duplicates get the same result. All texts in a fraction are also in every larger fraction.
    """
    return _hash_number(text) < fraction * 2**64


def fraction_below(text: str) -> float:
    """Return the expected fraction of texts, 0 to 1, whose hash is lower than that of `text`."""
    return _hash_number(text) / 2**64


def _hash_number(text: str) -> int:
    return int.from_bytes(duplicate_key(text)[:8], "big")


def take_balanced(
    texts: Sequence[LabeledText], count: int
) -> tuple[list[LabeledText], list[LabeledText]]:
    """Select up to `count` texts by hash. Return the selected texts and the remaining texts.

    Both lists keep the order of the texts. Duplicates are selected together. A group of duplicates
    is skipped if selecting it would exceed `count`.
    """
    groups = Counter(duplicate_key(example.text) for example in texts)
    selected: set[bytes] = set()
    missing = count
    for key in sorted(groups):
        if groups[key] <= missing:
            selected.add(key)
            missing -= groups[key]
    is_selected = [duplicate_key(example.text) in selected for example in texts]
    return (
        [example for example, inside in zip(texts, is_selected, strict=True) if inside],
        [example for example, inside in zip(texts, is_selected, strict=True) if not inside],
    )


def segment_words(text: str) -> list[str]:
    """Segment a text into words and punctuation marks. Words are not split at apostrophes."""
    letters, marks = _letters_and_marks(text)
    return re.findall(rf"{letters}(?:['\u2019]{letters})*|[^\w\s]{marks}", text)


def _letters_and_marks(text: str) -> tuple[str, str]:
    r"""Return regular expressions for a word and for the combining marks after a symbol.

    Python's \w does not match combining marks, such as the vowel signs of Hindi.
    """
    if text.isascii() or not any(map(_is_mark, set(text))):
        return r"\w+", ""
    return rf"\w[\w{_all_marks()}]*", f"[{_all_marks()}]*"


def _is_mark(character: str) -> bool:
    return character in JOINERS or unicodedata.category(character).startswith("M")


@lru_cache(maxsize=1)
def _all_marks() -> str:
    return "".join(filter(_is_mark, map(chr, range(sys.maxunicode + 1))))


CUTS: dict[str, Segmenter] = {"words": segment_words, "spaces": str.split}


def word_view(lines: Iterable[str], cut: Segmenter) -> Iterator[str]:
    """Yield the words of each line, segmented with `cut` and separated by spaces."""
    return (" ".join(cut(line)) for line in lines)
