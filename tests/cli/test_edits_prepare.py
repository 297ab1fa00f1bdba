"""fairseq-ssl edits prepare writes what edits dictionary, label and fairseq-preprocess write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fairseq.data import Dictionary, indexed_dataset

from fairseq_ssl.cli.main import main
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.io import outputs
from tests.cli.killing import contents, killed
from tests.learning.learner_sentences import write
from tests.plugin.edit_corpus import binarize


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "train", 60, seed=1)
    write(tmp_path, "valid", 20, seed=2)
    with Path("valid.src").open("a") as source, Path("valid.trg").open("a") as target:
        source.write("a zebra see it .\n")
        target.write("a zebra sees it .\n")
    return tmp_path


PREPARE = ("edits", "prepare", "train.src", "train.trg", "-o", "made", "--jobs", "1")


def prepare(*words: str) -> int:
    return main([*PREPARE, *words])


def sentences(folder: str, name: str, language: str) -> list[str]:
    dictionary = Dictionary.load(f"{folder}/dict.{language}.txt")
    dataset = indexed_dataset.make_dataset(f"{folder}/{name}", "mmap")
    assert all(one[-1] == dictionary.eos() for one in dataset)
    return [dictionary.string(one) for one in dataset]


def test_the_folder_equals_that_of_several_commands(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare("--valid", "valid.src", "valid.trg") == 0
    shown = capsys.readouterr().err
    assert "disable-validation" not in shown
    assert "train: 60 pairs" in shown
    assert "valid: 21 pairs" in shown
    binarize(folder, "--groups", "all")
    assert Path("made/edits.txt").read_text() == Path("bin/edits.txt").read_text()
    labels = Path("made/dict.edits.txt").read_text()
    assert labels == Path("bin/dict.edits.txt").read_text()
    for split in ("train", "valid"):
        for language in ("src", "trg"):
            name = f"{split}.src-trg.{language}"
            lines = Path(f"{split}.{language}").read_text().splitlines()
            text = [" ".join(line.split()) for line in lines]
            assert sentences("made", name, language) == text
            if split == "train":
                assert sentences("bin", name, language) == text
        name = f"{split}.edits-None.edits"
        assert sentences("made", name, "edits") == sentences("bin", name, "edits")
    signature = json.loads(Path("made.json").read_text())
    assert (signature["train"], signature["valid"]) == (60, 21)


def test_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--groups", "none", "--size", "3", "--max-ngram", "1", "--transforms", "none")
    assert prepare(*words, "--test", "valid.src", "valid.trg") == 0
    assert "No --valid pairs are prepared. fairseq-train needs them" in capsys.readouterr().err
    assert len(EditDictionary.read(Path("made/edits.txt")).labels) == 2 + 3 + 3
    names = {path.name for path in Path("made").iterdir()}
    assert {"test.src-trg.trg.idx", "dict.src.txt", "train.edits-None.edits.bin"} <= names


def test_an_existing_folder_is_replaced_only_with_force(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare() == 0
    assert prepare() == 2
    assert "made exists" in capsys.readouterr().err
    assert prepare("--force", "--size", "2") == 0
    assert len(EditDictionary.read(Path("made/edits.txt")).appends) == 2


def test_a_killed_run_leaves_no_signature_next_to_an_older_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepare() == 0
    older = contents(Path("made"))
    monkeypatch.setattr(outputs, "_replace_folder", killed)
    with pytest.raises(GeneratorExit):
        prepare("--force", "--size", "2")
    assert contents(Path("made")) == older
    assert not Path("made.json").exists()
