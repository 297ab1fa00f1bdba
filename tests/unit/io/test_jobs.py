"""Path checks for jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.jobs import check_beside, check_distinct, check_outside


def test_outputs_next_to_inputs(tmp_path: Path) -> None:
    out, other = tmp_path / "out.gz", tmp_path / "folder" / "out.gz.json"
    check_distinct([tmp_path / "in", tmp_path / "in", None, other], [out, tmp_path / "b"])
    for inputs, outputs in (([out], [out]), ([], [out, out])):
        with pytest.raises(UsageError, match="must be different"):
            check_distinct(inputs, outputs)
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(UsageError, match="must be different"):
        check_distinct([tmp_path / "link"], [out])
    with pytest.raises(UsageError, match=r"out\.gz is an input"):
        check_beside(out, [out])
    names = ("out.gz.tmp", "out.gz.json", "out.gz.progress", "out.gz.lock", "out.tmp.gz")
    for name in names:
        for inputs, outputs in (([tmp_path / name], [out]), ([], [out, tmp_path / name])):
            with pytest.raises(UsageError, match=f"{name} would be overwritten, since out.gz"):
                check_distinct(inputs, outputs)


def test_folders_that_contain_an_input(tmp_path: Path) -> None:
    check_outside(tmp_path / "a", [tmp_path / "ab", None, str(tmp_path / "b" / "a")])
    for name in ("a", "a/b/c", "a.tmp/b", "a.tmp.old/b"):
        with pytest.raises(UsageError, match="a would replace the input"):
            check_outside(tmp_path / "a", [tmp_path / name])
