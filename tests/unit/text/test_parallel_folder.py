"""Which files of a folder are taken for a parallel corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError, FairseqSslError, UsageError
from fairseq_ssl.text.parallel_folder import TextFolder


def folder_of(folder: Path, names: str) -> Path:
    """Make these files, empty."""
    for name in names.split():
        (folder / name).touch()
    return folder


def test_splits_in_the_order_of_training(tmp_path: Path) -> None:
    names = "valid.de valid.en test1.en.gz test1.de test.en test.de train.bpe.en train.bpe.de"
    folder = TextFolder(folder_of(tmp_path, f"{names} dict.en.txt notes.txt train.en.json"))
    assert folder.languages == ("de", "en")
    found = [(split.name, *(path.name for path in split.paths)) for split in folder.splits]
    assert found == [
        ("train.bpe", "train.bpe.de", "train.bpe.en"),
        ("valid", "valid.de", "valid.en"),
        ("test", "test.de", "test.en"),
        ("test1", "test1.de", "test1.en.gz"),
    ]


@pytest.mark.parametrize(
    ("names", "asked", "languages"),
    [
        ("train.en train.de train.fr", ("fr", "en"), ("en", "fr")),
        ("train.en train.de train.fr", ("de", "fr"), ("de", "fr")),
        ("train.en train.de valid.fr valid.it", ("en", None), ("de", "en")),
        ("train.en train.de valid.fr valid.it", (None, "it"), ("fr", "it")),
    ],
)
def test_one_pair_of_several_is_taken(
    names: str, asked: tuple[str | None, str | None], languages: tuple[str, str], tmp_path: Path
) -> None:
    folder = TextFolder(folder_of(tmp_path, names), *asked)
    assert folder.languages == languages
    assert len(folder.splits) == 1


@pytest.mark.parametrize(
    ("names", "asked", "error", "message"),
    [
        ("", (), DataError, "holds no parallel corpus. Expected text, as train.en and train.de"),
        ("notes.txt", (), DataError, "holds no parallel corpus"),
        ("train.en", (), DataError, "train.en has no partner"),
        ("train.en train.de test.en", (), DataError, "test.de is missing: test.en has no partner"),
        ("train.en train.de test.de.gz", (), DataError, "test.en is missing: test.de.gz has no"),
        ("train.en train.en.gz train.de", (), DataError, "Keep one of them"),
        ("train.en train.de train.fr", (), UsageError, "holds de-en, de-fr, en-fr: say which with"),
        ("train.en train.de train.fr", ("fr",), UsageError, "holds de-fr, en-fr: say which with"),
        ("train.en train.de", ("en", "fr"), UsageError, "no pair of en and fr, only de-en"),
        ("train.en train.de", ("en", "en"), UsageError, "-s and -t are both en"),
    ],
)
def test_what_can_not_be_recognised_is_explained(
    names: str,
    asked: tuple[str, ...],
    error: type[FairseqSslError],
    message: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=message):
        TextFolder(folder_of(tmp_path, names), *asked)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing is not a folder"):
        TextFolder(tmp_path / "missing")
