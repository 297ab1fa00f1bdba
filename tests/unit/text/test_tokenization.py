"""Moses tokenization, detokenization and truecasing, compared with sacremoses."""

# ruff: noqa: RUF001 - the tests normalize Unicode quotes and dashes

from __future__ import annotations

import pickle
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sacremoses import MosesPunctNormalizer, MosesTokenizer, MosesTruecaser

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.text.tokenization import (
    detruecaser,
    moses_detokenizer,
    moses_tokenizer,
    subword_joiner,
    train_truecaser,
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


TEXT = [
    "The cat saw us .",
    "We like the cat . the dog likes us .",
    "In the US the Cat and the dog met US .",
    '" The end , " said us : US .',
    "",
]
CASED = [
    *("The", "the", "THE", "cat", "Cat", "CAT", "us", "US", "ẞtraße", "3", "x|N", "|"),
    *(".", "?", ":", ",", "(", "'", "&quot;", "<b>", "<", "a<b"),
]


def random_lines(count: int) -> list[str]:
    generator = random.Random(2)
    return [" ".join(generator.choices(CASED, k=generator.randrange(12))) for _ in range(count)]


def train(path: Path, lines: Sequence[str]) -> Path:
    train_truecaser(lines, path)
    return path


def test_model_file_is_equal_to_sacremoses(tmp_path: Path) -> None:
    """Marks before the first word of a sentence differ: sacremoses takes them for this word.

    Its training splits only at spaces, whereas Moses splits at < and > as in truecasing.
    """
    marks = re.compile(r"(^|[.?:] )((<b>|[(']|&quot;) )*[.?:]( |$)")
    lines = TEXT + [line for line in random_lines(300) if not marks.search(line)]
    ours = train(tmp_path / "ours", lines)
    MosesTruecaser().train(map(MosesTruecaser.split_xml, lines), save_to=str(tmp_path / "theirs"))
    assert ours.read_bytes() == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        *((f"Really {marks} The end", ["end"]) for marks in (".", "! !", ". . .", ": ? ! .")),
        *((f"{start} What is", ["is"]) for start in ("?", ". . .", "( ?", '<a b="C"> :', "<BT> ?")),
        ('In a <I class="X Y"> Cat </I> x<Y > The<BT>US', ["a", "Cat", "x", "The", "US"]),
    ],
)
def test_words_that_are_counted(line: str, words: list[str], tmp_path: Path) -> None:
    """Worked out by hand. Moses' train-truecaser.perl counts the same words."""
    rows = train(tmp_path / "model", [line]).read_text().splitlines()
    assert rows == [f"{word} (1/1)" for word in words]


def test_truecasing_worked_out_by_hand(tmp_path: Path) -> None:
    """Known forms within a sentence are unchanged. Unknown forms and first words are changed."""
    truecased = truecaser(train(tmp_path / "model", TEXT))
    assert truecased("The Cat and THE DOG met US .") == "the Cat and the dog met US ."
    assert truecased("US met <BT> Us . Cat , UFO") == "us met <BT> us . cat , UFO"
    assert truecased("<BT> The cat") == "<BT> the cat"
    assert truecased("a\u2028b \r") == "a b"
    assert truecased("") == ""
    assert truecased("The 1\u00a0000 cats") == "the 1\u00a0000 cats"


def test_truecasing_is_equal_to_sacremoses(tmp_path: Path) -> None:
    lines = random_lines(300)
    ours = truecaser(train(tmp_path / "model", lines))
    theirs = MosesTruecaser(str(tmp_path / "model"))
    for line in random_lines(600):
        assert ours(line) == theirs.truecase(line, return_str=True, use_known=True)


@pytest.mark.parametrize(
    "rewrite",
    [moses_detokenizer("subword-nmt", "en"), moses_detokenizer("sentencepiece"), detruecaser()],
)
def test_rewriters_are_pickled(rewrite: Callable[[str], str]) -> None:
    line = "the well-known «cat@@ s» , isn't it ?"
    assert pickle.loads(pickle.dumps(rewrite))(line) == rewrite(line)


def test_detruecasing() -> None:
    detruecase = detruecaser()
    assert detruecase("the dog . he said : &quot; yes &quot; no") == (
        "The dog . He said : &quot; Yes &quot; no"
    )
    assert detruecase("über") == "Über"
    assert detruecase("") == ""
    assert detruecase("il y a 1\u00a0000 chats") == "Il y a 1\u00a0000 chats"


def test_round_trip(tmp_path: Path) -> None:
    truecased = truecaser(train(tmp_path / "model", TEXT))
    for line in ["The dog likes us .", "The cat . The dog met US and us .", "<BT>"]:
        assert detruecaser()(truecased(line)) == line
    assert truecased("The dog likes us .") == "the dog likes us ."


@pytest.mark.parametrize(
    ("model", "culprit"),
    [("the (5/5)\ncat (2/3) Cat\n", "model:2"), ("the (5/5)\n\n", "model:2"), ("", "model")],
)
def test_wrong_models_are_named(tmp_path: Path, model: str, culprit: str) -> None:
    (tmp_path / "model").write_text(model, encoding="utf-8")
    with pytest.raises(DataError, match=culprit):
        truecaser(tmp_path / "model")


def test_fractional_counts_of_moses_are_read(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("cat (2.1/3.1) Cat (1)\n", encoding="utf-8")
    assert truecaser(tmp_path / "model")("Cat CAT Cat") == "cat cat Cat"
