"""Moses' tokens are sacremoses' own, made quicker."""

# ruff: noqa: RUF001 - quotes and dashes are what is normalized

from __future__ import annotations

import random
import sys

import pytest
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from fairseq_ssl.errors import MissingPackageError
from fairseq_ssl.text.tokenization import moses_detokenizer, moses_tokenizer

LETTERS = [*"abABäßÉ猫ア12.,;:'\"-–|&<>[]()/$ \u00a0\u2028\t\r…", *[" "] * 12]
WORDS = ["Dr. ", "No. 5 ", "z.B. ", "etc. ", "U.S. ", "it's ", "l'eau ", "3,000.5 ", "...", "DOT"]


def texts(number: int) -> list[str]:
    draw = random.Random(1)
    parts = LETTERS + WORDS
    return ["", " ", *("".join(draw.choices(parts, k=draw.randrange(30))) for _ in range(number))]


@pytest.mark.parametrize(
    ("language", "dashes"), [("en", False), ("en", True), ("de", True), ("fr", False), ("ja", True)]
)
def test_equal_to_sacremoses(language: str, dashes: bool) -> None:
    ours, theirs = moses_tokenizer(language, dashes), MosesTokenizer(lang=language)
    for text in texts(40):
        plain = theirs.tokenize(text, aggressive_dash_splits=dashes, return_str=True)
        assert ours(text) == plain


def test_by_hand() -> None:
    assert moses_tokenizer("en")("Isn't it 3.5|4?") == "Isn &apos;t it 3.5 &#124; 4 ?"
    assert moses_tokenizer("en", escape=False)("Isn't it 3.5|4?") == "Isn 't it 3.5 | 4 ?"
    assert moses_tokenizer("en", dashes=True)("well-known") == "well @-@ known"
    assert moses_tokenizer("de")("z.B. Dr. Maier.") == "z.B. Dr. Maier ."
    assert moses_tokenizer("en")("one\u2028line\r\n") == "one line"


def test_normalized_first() -> None:
    text = "„So“ – sagte er : ‚1 000‘…"
    wanted = moses_tokenizer("de")(MosesPunctNormalizer(lang="de").normalize(text))
    assert moses_tokenizer("de", normalize=True)(text) == wanted != moses_tokenizer("de")(text)


def test_undone_by_detokenizing() -> None:
    text = 'He said: "Isn\'t it well-known (in the U.S.), Dr. Smith & Co.?" No. 5 costs $3,000.50.'
    assert moses_detokenizer("none", "en")(moses_tokenizer("en", dashes=True)(text)) == text


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(MissingPackageError, match=r"sacremoses.*'fairseq-ssl\[fairseq\]'"):
        moses_tokenizer("en")
