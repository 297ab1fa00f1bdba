"""Atomic folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.outputs import atomic_folder

SIGNATURE = '{"method": "export"}'


def contents(folder: Path) -> dict[str, str]:
    """Return all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_other_folders_are_replaced_at_the_end(tmp_path: Path) -> None:
    parent = tmp_path / "deep"
    for name in ("out", "out.tmp", "out.tmp.old"):
        (parent / name).mkdir(parents=True)
        (parent / name / "old").write_text("old")
    with atomic_folder(parent / "out") as aside:
        assert not list(aside.iterdir())
        (aside / "file").write_text("new")
        assert contents(parent / "out") == {"old": "old"}
    assert contents(parent) == {"out/file": "new"}


def fail_halfway(output: Path, error: type[BaseException]) -> None:
    """Write a file, then fail."""
    with atomic_folder(output) as aside:
        (aside / "file").write_text("half")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, DataError])
def test_a_failure_keeps_the_existing_folder(error: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    (tmp_path / "out.json").write_text(SIGNATURE)
    with pytest.raises(error):
        fail_halfway(tmp_path / "out", error)
    assert contents(tmp_path) == {"out/old": "old", "out.json": SIGNATURE}


def test_the_signature_of_a_replaced_folder_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out.json").write_text(SIGNATURE)
    with atomic_folder(tmp_path / "out") as aside:
        (aside / "file").write_text("new")
    assert contents(tmp_path) == {"out/file": "new"}  # its writer may be killed before it signs


def test_a_failed_rename_keeps_both_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "out.tmp":
            raise PermissionError("refused")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with (
        pytest.raises(DataError, match="refused"),
        atomic_folder(tmp_path / "out") as aside,
    ):
        (aside / "file").write_text("new")
    assert contents(tmp_path) == {"out.tmp.old/old": "old"}


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    for text in ("first", "second"):
        with atomic_folder(tmp_path / "out") as aside:
            (aside / "file").write_text(text)
        assert (tmp_path / "out").readlink() == Path("disk")
        assert contents(tmp_path / "disk") == {"file": text}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "out"]


@pytest.mark.parametrize("name", ["out", "out/deep"])
def test_a_file_is_not_replaced_by_a_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("file")
    with pytest.raises(DataError, match=f"{name} could not"), atomic_folder(tmp_path / name):
        pytest.fail("there is no folder to write to")
    assert contents(tmp_path) == {"out": "file"}
