"""fairseq-ssl classify: data folders."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils

from fairseq_ssl.cli.main import main
from fairseq_ssl.io import outputs
from fairseq_ssl.text.labeled_text import duplicate_key
from tests.cli.killing import contents, killed
from tests.cli.rewriting import refused

TRAIN = [f"{'good' if number % 2 else 'bad'}\tfilm number {number} is fine" for number in range(40)]
VALID = ["good\tA Fine, film", "bad\tnumber"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "train").write_text("\n".join(TRAIN) + "\n")
    (tmp_path / "valid").write_text("\n".join(VALID) + "\n")
    (tmp_path / "more").write_text("a film unseen\nunseen is this\n\nthis number\n")
    return tmp_path


def prepare(folder: Path, *words: str) -> int:
    return main(command(folder, *words))


def command(folder: Path, *words: str) -> list[str]:
    files = ["--unlabeled", str(folder / "more"), "-o", str(folder / "data")]
    size = ["--subword-vocab-size", "60"]
    return ["classify", "prepare", str(folder / "train"), *files, *size, *words]


def lines(folder: Path, view: str, split: str) -> list[str]:
    words = Dictionary.load(str(folder / view / "dict.txt"))
    found = data_utils.load_indexed_dataset(str(folder / view / split), words, None)
    return [words.string(found[number]) for number in range(len(found))]


def test_prepare_makes_two_views_and_labels(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(text, "--valid", str(text / "valid"), "--test-size", "0.25") == 0
    data = text / "data"
    test = lines(data, "words", "test")
    train = lines(data, "words", "train")
    assert len(train) + len(test) == 40
    assert 3 < len(test) < 18
    assert not set(lines(data, "pieces", "test")) & set(lines(data, "pieces", "train"))
    valid = lines(data, "words", "valid")
    assert valid == ["<unk> <unk> <unk> film", "number"], "A, Fine and the comma are rare"
    assert lines(data, "words", "unlabeled") == [
        "<unk> film unseen",
        "unseen is this",
        "",
        "this number",
    ]
    assert lines(data, "label", "valid") == ["good", "bad"]
    pieces = [
        "".join(one.split()).replace("▁", " ").strip() for one in lines(data, "pieces", "unlabeled")
    ]
    assert pieces == ["a film unseen", "unseen is this", "", "this number"]
    assert (data / "lm/train1.bin").samefile(data / "words/unlabeled.bin")
    told = json.loads((text / "data.json").read_text())
    assert (told["classes"], told["valid"], told["unlabeled"]) == (2, 2, 4)


def test_unlabeled_test_texts_are_rejected_by_default(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (text / "more").open("a") as file:
        file.write("a fine FILM !\n")
    flags = ("--valid", str(text / "valid"))
    assert "1 unlabeled and 0 training" in refused(capsys, 1, *command(text, *flags))
    assert not (text / "data").exists()
    for overlap, count in (("drop", 4), ("keep", 5)):
        assert prepare(text, *flags, "--train-test-overlap", overlap, "--force") == 0
        assert len(lines(text / "data", "words", "unlabeled")) == count


def test_unlabeled_text_is_read_once(text: Path) -> None:
    os.mkfifo(text / "pipe")
    content = (text / "more").read_text() * 3000
    writer = threading.Thread(target=(text / "pipe").write_text, args=(content,))
    writer.start()
    assert prepare(text, "--valid", str(text / "valid"), "--unlabeled", str(text / "pipe")) == 0
    writer.join()
    told = json.loads((text / "data.json").read_text())
    assert told["unlabeled"] == 3000 * 4


def test_labels_can_be_removed(text: Path) -> None:
    """Smaller selections are subsets of larger ones. The other texts become unlabeled."""
    kept: list[set[str]] = []
    for count in (5, 12):
        assert prepare(text, "--train-lines", str(count), "--force", "--min-count", "1") == 0
        kept.append(set(lines(text / "data", "words", "train")))
        assert len(lines(text / "data", "words", "unlabeled")) == 4 + 40 - count
        assert len(lines(text / "data", "label", "train")) == count
    assert kept[0] < kept[1]


def test_both_views_are_lowercased(text: Path) -> None:
    flags = ("--valid", str(text / "valid"), "--lower")
    assert prepare(text, *flags, "--min-count", "1") == 0
    shown = lines(text / "data", "pieces", "valid")[0]
    assert "".join(shown.split()).replace("\u2581", " ").strip() == "a fine<unk> film"
    assert lines(text / "data", "words", "valid")[0] == "a fine <unk> film"
    assert (text / "data/text/valid.tsv").read_text().startswith("good\tA Fine, film")


def test_held_out_sets_have_the_given_sizes(text: Path) -> None:
    assert prepare(text, "--valid-size", "7", "--test-size", "5") == 0
    found = {name: lines(text / "data", "words", name) for name in ("train", "valid", "test")}
    assert {name: len(some) for name, some in found.items()} == {
        **{"train": 28, "valid": 7, "test": 5}
    }


def test_a_share_is_valid_beside_a_number_of_test_texts(text: Path) -> None:
    """Test texts have the lowest hashes. They do not reduce the fraction of validation texts."""
    assert prepare(text, "--valid-size", "0.25", "--test-size", "12") == 0
    labeled = [line.partition("\t")[2] for line in (text / "train").read_text().splitlines()]
    order = sorted(labeled, key=duplicate_key)
    last = int.from_bytes(duplicate_key(order[11])[:8], "big")
    highest = last + 2**62
    expected = [n for n in order[12:] if int.from_bytes(duplicate_key(n)[:8], "big") < highest]
    held = {}
    for name in ("valid", "test"):
        rows = (text / f"data/text/{name}.tsv").read_text().splitlines()
        held[name] = {row.partition("\t")[2] for row in rows}
    assert held == {"test": set(order[:12]), "valid": set(expected)}
    assert len(expected) == 10, "a quarter of 40 texts"


def test_extra_texts_change_neither_vocabularies_nor_the_language_model(text: Path) -> None:
    flags = ("--valid", str(text / "valid"), "--train-test-overlap", "drop")
    assert prepare(text, *flags) == 0
    before = {path.name: path.read_bytes() for path in (text / "data").glob("*/dict.txt")}
    kept = (text / "data/pieces.model").read_bytes()
    (text / "extra").write_text("unseen extra words unseen\nA Fine film!\nthis film\n")
    assert prepare(text, *flags, "--extra-unlabeled", str(text / "extra"), "--force") == 0
    after = {path.name: path.read_bytes() for path in (text / "data").glob("*/dict.txt")}
    assert (after, (text / "data/pieces.model").read_bytes()) == (before, kept)
    found = lines(text / "data", "words", "extra")
    assert found == ["unseen <unk> <unk> unseen", "this film"], "a valid text is left out"
    assert len(lines(text / "data", "pieces", "extra")) == 2
    assert not list((text / "data/lm").glob("*extra*"))
    assert json.loads((text / "data.json").read_text())["extra"] == 2


def test_a_killed_run_leaves_no_signature_next_to_an_older_folder(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepare(text, "--test-size", "0.25") == 0
    older = contents(text / "data")
    monkeypatch.setattr(outputs, "_replace_folder", killed)
    with pytest.raises(GeneratorExit):
        prepare(text, "--test-size", "0.5", "--force")
    assert contents(text / "data") == older
    assert not (text / "data.json").exists()
