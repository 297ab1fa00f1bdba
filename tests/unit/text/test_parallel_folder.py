"""Detection of splits and languages in a folder of text."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.text.parallel_folder import TextFolder


def folder_of(folder: Path, names: str) -> Path:
    """Create empty files with these names."""
    for name in names.split():
        (folder / name).touch()
    return folder


def test_splits_are_ordered_train_valid_test(tmp_path: Path) -> None:
    names = "valid.de valid.en test1.en.gz test1.de test.en test.de train.bpe.en train.bpe.de"
    folder = TextFolder(folder_of(tmp_path, f"{names} dict.en.txt notes.txt train.en.json"))
    assert folder.languages == ("de", "en")
    splits = [(split.name, *(path.name for path in split.paths)) for split in folder.splits]
    assert splits == [
        ("train.bpe", "train.bpe.de", "train.bpe.en"),
        ("valid", "valid.de", "valid.en"),
        ("test", "test.de", "test.en"),
        ("test1", "test1.de", "test1.en.gz"),
    ]


@pytest.mark.parametrize(
    ("names", "requested", "languages"),
    [
        ("train.en train.de train.fr", ("fr", "en"), ("en", "fr")),
        ("train.en train.de train.fr", ("de", "fr"), ("de", "fr")),
        ("train.en train.de valid.fr valid.it", ("en", None), ("de", "en")),
        ("train.en train.de valid.fr valid.it", (None, "it"), ("fr", "it")),
    ],
)
def test_requested_language_pair_is_selected(
    names: str, requested: tuple[str | None, str | None], languages: tuple[str, str], tmp_path: Path
) -> None:
    folder = TextFolder(folder_of(tmp_path, names), *requested)
    assert folder.languages == languages
    assert len(folder.splits) == 1


@pytest.mark.parametrize(
    ("names", "requested", "culprit"),
    [
        ("notes.txt", (), "no parallel corpus"),
        ("train.en", (), "train.en"),
        ("train.en train.de test.de.gz", (), "test.en"),
        ("train.en train.en.gz train.de", (), "train.en"),
        ("train.en train.de train.fr", (), "de-en, de-fr, en-fr"),
        ("train.en train.de train.fr", ("fr",), "de-fr, en-fr"),
        ("train.en train.de", ("en", "fr"), "en and fr"),
        ("train.en train.de", ("en", "en"), "source_lang"),
    ],
)
def test_ambiguous_or_missing_files_are_named(
    names: str, requested: tuple[str, ...], culprit: str, tmp_path: Path
) -> None:
    with pytest.raises((DataError, UsageError), match=culprit):
        TextFolder(folder_of(tmp_path, names), *requested)
