"""Labeled texts: reading, word segmentation, detection of duplicates, and splits by hash."""

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
"""Invisible characters within words, for example of Persian."""
HELD_OUT = ("valid", "test")
REJECT, DROP, KEEP = "reject", "drop", "keep"
FORMAT = "each line a label, a tab and a text; .gz or .zst by suffix"
SELECTED = (
    "select from the labeled texts by a hash of the text: a number, 1 or more, or a fraction "
    "between 0 and 1"
)


@dataclass(frozen=True)
class LabeledText:
    """A text and its class label, as in a line of a labeled file."""

    label: str
    text: str


@dataclass(frozen=True)
class PreparationConfig:
    """Texts, splits and tokenization of a data folder for text classifiers."""

    labeled: Path
    """Training texts: a label, a tab and a text on each line."""
    unlabeled: tuple[Path, ...] = option(
        (), "unlabeled texts, one per line; .gz or .zst by suffix", usual="none", nargs="+"
    )
    extra_unlabeled: tuple[Path, ...] = option(
        (),
        "additional unlabeled texts for imitators, excluded from the vocabularies and from the "
        "data of the language model; .gz or .zst by suffix",
        usual="none",
        nargs="+",
    )
    valid: Path | None = option(None, f"valid texts, {FORMAT}")
    valid_size: float | None = option(None, f"valid texts to {SELECTED}", metavar="SIZE")
    test: Path | None = option(None, f"test texts, {FORMAT}")
    test_size: float | None = option(None, f"test texts to {SELECTED}", metavar="SIZE")
    train_lines: int | None = option(
        None,
        "number of labeled texts that keep their label, selected by the same hash; the others "
        "become unlabeled",
        low=1,
        usual="all",
    )
    tokenizer: str = option(
        "words",
        "tokenizer for the expert: words: sequences of letters and digits, and single punctuation "
        "marks; spaces: split at spaces; bert:FOLDER: tokenizer of a BERT or RoBERTa, for the "
        "architecture bert_classifier",
        metavar="NAME",
    )
    lower: bool = option(False, "lowercase the text of both views")
    min_count: int | None = option(
        None,
        "min count of a word in labeled and unlabeled texts",
        low=1,
        usual="2, as in the thesis; 1 with bert:",
    )
    subword_vocab_size: int = option(
        20_000,
        "subword vocabulary size for the imitators, of a sentencepiece BPE model trained on "
        "training and unlabeled texts, 20,000 merges in the thesis",
        low=1,
    )
    train_test_overlap: str = option(
        REJECT,
        "treatment of unlabeled or training texts that are also valid or test texts, up to case, "
        "spaces and punctuation",
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
                    f"`{name}_size` is {size:g}. Expected a number of texts, 1 or more, or a "
                    "fraction between 0 and 1."
                )
            if getattr(self, name):
                raise UsageError(
                    f"`{name}` and `{name}_size` select the {name} texts. Set only one of them."
                )
            fractions += size if size < 1 else 0
        if fractions >= 1:
            raise UsageError(
                "`valid_size` and `test_size` leave no training texts. Expected a sum of fractions "
                "below 1."
            )

    @property
    def minimum(self) -> int:
        """`min_count`, or the default for the tokenization."""
        default = 1 if self.tokenizer.startswith("bert:") else 2
        return default if self.min_count is None else self.min_count


def read_labeled_text(path: Path) -> Iterator[LabeledText]:
    """Yield the texts of a file with a label, a tab and a text on each line."""
    for number, line in enumerate(read_lines(path), 1):
        label, tab, text = line.partition("\t")
        label = label.strip()
        if not tab or not label or label.split() != [label]:
            raise DataError(
                f"{path}:{number} is {line[:80]!r}; expected a label, a tab and a text. Labels "
                "cannot have spaces."
            )
        yield LabeledText(label, text.strip())


def normalized(text: str) -> str:
    """Return the words of a text in a form that is equal for duplicates.

    Case, spaces and punctuation are ignored, and so are Unicode compatibility variants, such as
    full-width letters. A text without words keeps its other characters.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    letters, _ = _letters_and_marks(plain)
    return " ".join(re.findall(letters, plain)) or "".join(plain.split())


def duplicate_key(text: str) -> bytes:
    """Return a 16-byte hash of the normalized text. Duplicates have the same hash."""
    return hashlib.blake2b(normalized(text).encode(), digest_size=16).digest()


def is_in_fraction(text: str, fraction: float) -> bool:
    """Return True if a text is in a random fraction of all texts, 0 to 1, selected by its hash.

    Duplicates are all inside or all outside. Smaller fractions are subsets of larger ones.
    """
    return _hash_number(text) < fraction * 2**64


def fraction_below(text: str) -> float:
    """Return the fraction of all texts, 0 to 1, that have a lower hash than a text."""
    return _hash_number(text) / 2**64


def _hash_number(text: str) -> int:
    return int.from_bytes(duplicate_key(text)[:8], "big")


def take_balanced(
    texts: Sequence[LabeledText], count: int
) -> tuple[list[LabeledText], list[LabeledText]]:
    """Split texts into up to `count` texts, selected by hash, and the other texts.

    Both lists keep the order of the texts. Duplicates are selected together.
    A group of duplicates is skipped if it would exceed `count`.
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
    """Segment a text into words and punctuation marks. Apostrophes within words do not split."""
    letters, marks = _letters_and_marks(text)
    return re.findall(rf"{letters}(?:['\u2019]{letters})*|[^\w\s]{marks}", text)


def _letters_and_marks(text: str) -> tuple[str, str]:
    r"""Return patterns of the letters of a word, and of the combining marks after a character.

    The pattern \w of Python does not match combining marks, such as the vowel signs of Hindi.
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
    """Yield each line as words separated by spaces."""
    return (" ".join(cut(line)) for line in lines)
