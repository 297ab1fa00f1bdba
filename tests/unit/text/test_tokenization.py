"""Moses tokenization and detokenization, compared with sacremoses."""

# ruff: noqa: RUF001 - the tests normalize Unicode quotes and dashes

from __future__ import annotations

import copy
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.text.tokenization import (
    CaseCounts,
    detruecaser,
    moses_detokenizer,
    moses_tokenizer,
    subword_joiner,
    truecaser,
)

LETTERS = [*"abABäßÉ猫ア12.,;:'\"-–|&<>[]()/$ \u00a0\u2028\t\r…", *[" "] * 12]
WORDS = ["Dr. ", "No. 5 ", "z.B. ", "etc. ", "U.S. ", "it's ", "l'eau ", "3,000.5 ", "...", "DOT"]


def texts(count: int) -> list[str]:
    """Return random texts of letters and difficult words."""
    generator, parts = random.Random(1), LETTERS + WORDS
    lines = ("".join(generator.choices(parts, k=generator.randrange(30))) for _ in range(count))
    return ["", " ", *lines]


@pytest.mark.parametrize(
    ("language", "dashes"), [("en", False), ("en", True), ("de", True), ("fr", False), ("ja", True)]
)
def test_equal_to_sacremoses(language: str, dashes: bool) -> None:
    ours, theirs = moses_tokenizer(language, dashes), MosesTokenizer(lang=language)
    for text in texts(40):
        plain = theirs.tokenize(text, aggressive_dash_splits=dashes, return_str=True)
        assert ours(text) == plain


def test_tokenization_worked_out_by_hand() -> None:
    assert moses_tokenizer("en")("Isn't it 3.5|4?") == "Isn &apos;t it 3.5 &#124; 4 ?"
    assert moses_tokenizer("en", escape=False)("Isn't it 3.5|4?") == "Isn 't it 3.5 | 4 ?"
    assert moses_tokenizer("en", dashes=True)("well-known") == "well @-@ known"
    assert moses_tokenizer("de")("z.B. Dr. Maier.") == "z.B. Dr. Maier ."
    assert moses_tokenizer("en")("one\u2028line\r\n") == "one line"


def test_punctuation_normalization() -> None:
    text = "„So“ – sagte er : ‚1 000‘…"
    expected = moses_tokenizer("de")(MosesPunctNormalizer(lang="de").normalize(text))
    assert moses_tokenizer("de", normalize=True)(text) == expected != moses_tokenizer("de")(text)


def test_detokenization_inverts_tokenization() -> None:
    text = 'He said: "Isn\'t it well-known (in the U.S.), Dr. Smith & Co.?" No. 5 costs $3,000.50.'
    assert moses_detokenizer("none", "en")(moses_tokenizer("en", dashes=True)(text)) == text


CZECH = [
    ("V roce 1918 bylo 20 lidí a v roce 2012 .", "V roce 1918 bylo 20 lidí a v roce 2012."),
    ("Cena 3 , 5 Kč vzrostla o 1 . 20 % .", "Cena 3,5 Kč vzrostla o 1.20%."),
    ("Čísla 1 , 2 , 3 a 4", "Čísla 1,2,3 a 4"),
    ("Je - li to e - mail , ne – LI ?", "Je-li to e-mail, ne–LI?"),
    ("ano - ne , d&apos; - li x , zda - li", "ano - ne, d' - li x, zda - li"),
    ("Máš „ knihu “ a ( snad ) „", "Máš „knihu“ a (snad) „"),
]
"""Czech lines, and the output of detokenizer.perl -l cs of Moses."""


@pytest.mark.parametrize(("line", "expected"), CZECH)
def test_czech_detokenization_follows_moses(line: str, expected: str) -> None:
    assert moses_detokenizer("none", "cs")(line) == expected


@pytest.mark.parametrize("language", ["cs", "en", "fr"])
def test_no_break_spaces_are_kept_as_in_moses(language: str) -> None:
    detokenize = moses_detokenizer("none", language)
    assert detokenize("10\u00a0000 ,\u202fa ( 5\u2007% )") == "10\u00a0000 ,\u202fa (5\u2007%)"
    assert detokenize("\u00a0 a\tb \u00a0") == "\u00a0 a b \u00a0"
    assert detokenize("") == ""


def test_text_with_other_subwords_is_rejected() -> None:
    join = subword_joiner("subword-nmt")
    assert [join(line) for line in ("a@@ b", "▁ c@@ d")] == ["ab", "▁ cd"]
    for kind, line in (("subword-nmt", "▁a b"), (None, "a b")):
        with pytest.raises(DataError, match=f"'{line}'"):
            subword_joiner(kind)(line)
    assert subword_joiner("sentencepiece")("a b") == "ab"


@pytest.mark.parametrize("language", ["english", "EN", "en_US", "en-us", ""])
def test_names_and_locales_are_rejected(language: str) -> None:
    """sacremoses would split don't into three tokens, as for a language without apostrophes."""
    for build in (moses_tokenizer, lambda name: moses_detokenizer("none", name)):
        with pytest.raises(UsageError, match=f"'{language}'"):
            build(language)
    assert moses_tokenizer("yue")("a.") == "a ."


def test_rewriters_are_pickled_and_need_a_line(tmp_path: Path) -> None:
    counts = CaseCounts()
    counts.add("so The cat saw The cat")
    counts.write(tmp_path / "cased")
    rewriters: list[Any] = [
        moses_tokenizer("en", dashes=True, escape=False, normalize=True),
        moses_detokenizer("subword-nmt", "en"),
        moses_detokenizer("sentencepiece"),
        truecaser(tmp_path / "cased"),
        detruecaser(),
    ]
    line = "the well-known «cat@@ s» , isn't it ?"
    for rewrite in rewriters:
        expected = rewrite(line)
        assert pickle.loads(pickle.dumps(rewrite))(line) == expected
        assert copy.deepcopy(rewrite)(line) == expected
        with pytest.raises(TypeError, match="Expected a line, not"):
            rewrite(["a", "b"])
