"""Truecasing, compared with sacremoses and with an example worked out by hand."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from sacremoses import MosesTruecaser

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.tokenization import CaseCounts, detruecaser, truecaser

TEXT = [
    "The cat saw us .",
    "We like the cat . the dog likes us .",
    "In the US the Cat and the dog met US .",
    '" The end , " said us : US .',
    "",
]
WORDS = [
    *("The", "the", "THE", "cat", "Cat", "CAT", "us", "US", "ẞtraße", "3", "x|N", "|"),
    *(".", "?", ":", ",", "(", "'", "&quot;", "<b>", "<", "a<b"),
]
MODEL = """\
cat (2/3) Cat (1)
saw (1/1)
us (3/5) US (2)
like (1/1)
the (4/4)
dog (2/2)
likes (1/1)
and (1/1)
met (1/1)
end (1/1)
said (1/1)
"""


def random_lines(count: int) -> list[str]:
    generator = random.Random(2)
    return [" ".join(generator.choices(WORDS, k=generator.randrange(12))) for _ in range(count)]


def train(path: Path, lines: Sequence[str]) -> Path:
    counts = CaseCounts()
    for line in lines:
        counts.add(line)
    counts.write(path)
    return path


def test_model_worked_out_by_hand(tmp_path: Path) -> None:
    assert train(tmp_path / "model", TEXT).read_text(encoding="utf-8") == MODEL


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
def test_words_that_are_counted(line: str, words: list[str]) -> None:
    """Worked out by hand. Moses' train-truecaser.perl counts the same words."""
    counts = CaseCounts()
    counts.add(line)
    assert counts.counts == dict.fromkeys(words, 1)


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
