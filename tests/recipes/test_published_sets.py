"""Published data sets become the folders of the recipe of MEIN, without held-out texts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_command
from tests.recipes.recipe import lines, put

SCRIPT = ROOT / "examples/mein/published_sets.py"
Run = Callable[..., str]


@pytest.fixture
def convert(tmp_path: Path) -> Run:
    """Run the script in a temporary folder. Return its output."""

    def run(*words: str, code: int = 0) -> str:
        done = run_command("python", SCRIPT, *words, cwd=tmp_path, code=code)
        return done.stdout or done.stderr

    return run


@pytest.fixture
def imdb(tmp_path: Path) -> Path:
    """A folder like aclImdb, with reviews at both sides of the first one of dev."""
    folder = tmp_path / "aclImdb"
    for side, start in (("pos", 10621), ("neg", 10625)):
        for number in (9, start - 1, start, 12499):
            put(folder / f"train/{side}/{number}_8.txt", f"Seen {side} {number}.<br /><br />Well")
        put(folder / f"test/{side}/0_8.txt", f"A {side} film &amp; music")
    put(folder / "train/neg/10_1.txt", "a POS film, music!")  # also in test
    unsup = ("Seen neg 12499! Well...", "The pos film & music", "A new one. It is good.")
    for number, text in enumerate(unsup):
        put(folder / f"train/unsup/{number}_0.txt", text)
    return folder


def test_imdb_has_the_split_of_the_thesis(imdb: Path, convert: Run, tmp_path: Path) -> None:
    shown = convert("imdb", "aclImdb", "data")
    found = {name: lines(tmp_path / f"data/{name}.tsv") for name in ("train", "dev", "test")}
    assert found == {
        "train": [
            *("1\tSeen pos 9. Well", "1\tSeen pos 10620. Well", "0\tSeen neg 9. Well"),
            *("0\ta POS film, music!", "0\tSeen neg 10624. Well"),
        ],
        "dev": [
            *("1\tSeen pos 10621. Well", "1\tSeen pos 12499. Well"),
            *("0\tSeen neg 10625. Well", "0\tSeen neg 12499. Well"),
        ],
        "test": ["1\tA pos film & music", "0\tA neg film & music"],
    }
    assert lines(tmp_path / "data/unlabelled.txt") == [
        *("The pos film & music", "A new one. It is good."),
    ]
    for count in ("train texts that are also in test: 1", "removed because they are in dev: 1"):
        assert count in shown
    assert "exists. Delete it" in convert("imdb", "aclImdb", "data", code=2)


def test_stop_words_are_not_compared(imdb: Path, convert: Run, tmp_path: Path) -> None:
    """Footnote 5 of Kiyono (2022)."""
    put(tmp_path / "stop.txt", "the", "A")
    put(imdb / "train/neg/11_1.txt", "The POS film, music!")  # differs from test in a stop word
    shown = convert("imdb", "aclImdb", "data", "--stop-words", "stop.txt")
    assert lines(tmp_path / "data/unlabelled.txt") == ["A new one. It is good."]
    assert "unlabeled texts removed because they are in test: 1" in shown
    assert "train texts that are also in test: 2" in shown


def test_sentences_of_reviews_are_text_without_held_out_ones(
    imdb: Path, convert: Run, tmp_path: Path
) -> None:
    put(imdb / "train/unsup/7_0.txt", 'Held out it is! "Then this." (Not now) He left.<br />Bad')
    put(imdb / "train/unsup/8_0.txt", 'He said "a new thing." Then he left.')
    put(tmp_path / "dev.tsv", "1\theld out it is")
    convert("sentences", "aclImdb", "-o", "text.txt", "--held-out", "dev.tsv")
    found = lines(tmp_path / "text.txt")
    assert found[:3] == ["Seen pos 9.", "Seen pos 10620.", "Seen pos 10621."]
    assert found[-7:] == [
        *("The pos film & music", "A new one.", "It is good.", "(Not now) He left."),
        *('He said "a new thing."', "Then he left.", "A neg film & music"),
    ]
    assert "a POS film, music!" in found, "the first of two equal sentences"
    assert "A pos film & music" not in found


def test_elec_has_texts_labels_and_unlabeled_parts(convert: Run, tmp_path: Path) -> None:
    folder = tmp_path / "elec"
    put(folder / "elec-25k-train.txt.tok", "works well", "broke")
    put(folder / "elec-25k-train.cat", "2", "1")
    put(folder / "elec-test.txt.tok", "it is fine", "no")
    put(folder / "elec-test.cat", "2", "1")
    put(folder / "elec-25k-unlab00.txt.tok", "first", "It is fine .")
    put(folder / "elec-25k-unlab01.txt.tok", "second", "")
    assert "train 2, test 2, unlabeled 2" in convert("elec", "elec", "data")
    assert lines(tmp_path / "data/train.tsv") == ["2\tworks well", "1\tbroke"]
    assert lines(tmp_path / "data/unlabelled.txt") == ["first", "second"]
    put(folder / "elec-test.cat", "2")
    assert "has 2 lines but elec/elec-test.cat has 1" in convert("elec", "elec", "new", code=1)


def test_rcv1_has_documents_with_one_topic_of_the_second_level(
    convert: Run, tmp_path: Path
) -> None:
    """Documents 1 to 3 are of the file for training, 10 to 17 of those for tests."""
    folder = tmp_path / "rcv1"
    put(
        folder / "rcv1.topics.hier.orig",
        *(
            f"parent: {parent} child: {child} child-description: SOME {child}"
            for parent, child in (
                *(("None", "Root"), ("Root", "CCAT"), ("Root", "GCAT"), ("CCAT", "C1")),
                *(("CCAT", "C2"), ("C2", "C21"), ("GCAT", "GPOL")),
            )
        ),
    )
    topics = {1: "CCAT C1", 2: "CCAT C1 C2 C21", 3: "GCAT", 10: "CCAT C2 C21", 11: "GCAT GPOL"}
    topics |= {12: "CCAT", 13: "CCAT C1"}
    rows = [f"{one} {name} 1\n" for name, found in topics.items() for one in found.split()]
    (folder / "rcv1-v2.topics.qrels.gz").write_bytes(gzip.compress("".join(rows).encode()))

    def document(name: int) -> list[str]:
        return [f".I {name}", ".W", f"text {name}", "more words", ""]

    put(folder / "lyrl2004_tokens_train.dat", *document(1), *document(2), *document(3))
    for part in range(4):
        first = 10 + 2 * part
        put(folder / f"lyrl2004_tokens_test_pt{part}.dat", *document(first), *document(first + 1))
    shown = convert("rcv1", "rcv1", "data", "--test-size", "3")
    assert "train 1, test 3, unlabeled 7" in shown
    assert lines(tmp_path / "data/train.tsv") == ["C1\ttext 1 more words"]
    assert lines(tmp_path / "data/test.tsv") == [
        *("C2\ttext 10 more words", "GPOL\ttext 11 more words", "C1\ttext 13 more words"),
    ]
    rest = lines(tmp_path / "data/unlabelled.txt")
    assert rest == [f"text {name} more words" for name in (2, 3, 12, 14, 15, 16, 17)]
    convert("rcv1", "rcv1", "small", "--test-size", "1")
    assert len(lines(tmp_path / "small/test.tsv")) == 1
    assert len(lines(tmp_path / "small/unlabelled.txt")) == 9, "other labeled ones are unlabeled"
    assert "--test-size is 4" in convert("rcv1", "rcv1", "large", "--test-size", "4", code=1)
    (folder / "rcv1-v2.topics.qrels.gz").write_bytes(gzip.compress(b"C1 1 1\nC1 2\n"))
    assert "qrels.gz:2" in convert("rcv1", "rcv1", "new", code=1)


def test_amazon_reviews_have_two_formats(convert: Run, tmp_path: Path) -> None:
    reviews = [
        {"overall": 5.0, "reviewText": "It&#34;s fine.<br />Really"},
        {"rating": 1, "text": "Also\nin test"},
        {"rating": 1, "text": "its fine"},
        {"asin": "no text"},
        {"text": "It's fine, really"},
        {"text": 'IT"S FINE really'},
    ]
    content = "".join(json.dumps(one) + "\n" for one in reviews)
    (tmp_path / "new.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    put(tmp_path / "old.txt", "product/productId: B1", "review/text: An old: one", "")
    put(tmp_path / "test.tsv", "1\talso in test!")
    shown = convert(
        *("amazon", "new.jsonl.gz", "old.txt", "-o", "extra.txt", "--held-out", "test.tsv")
    )
    assert lines(tmp_path / "extra.txt") == ['It"s fine. Really', "its fine", "An old: one"]
    assert shown == "wrote extra.txt: 3 texts; held-out texts removed: 1\n"
    put(tmp_path / "wrong.txt", "{'reviewText': 'one'}")
    assert "wrong.txt:1" in convert("amazon", "wrong.txt", "-o", "o", code=1)
