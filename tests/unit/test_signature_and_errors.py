"""The signature beside a file, and words of help in errors."""

from __future__ import annotations

import json
from pathlib import Path

from fairseq_ssl import __version__
from fairseq_ssl.errors import MissingPackageError, nearest
from fairseq_ssl.signature import Signature


def test_the_line_holds_what_is_short_and_the_file_holds_all(tmp_path: Path) -> None:
    signature = Signature("average", {"n": 2, "by": None, "from": ["a.pt", "b.pt"]})
    assert str(signature) == f"average|n:2|version:{__version__}"
    beside = signature.write_beside(tmp_path / "mean.pt")
    assert beside == tmp_path / "mean.pt.json"
    assert json.loads(beside.read_text()) == {
        "method": "average",
        "version": __version__,
        "n": 2,
        "by": None,
        "from": ["a.pt", "b.pt"],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["mean.pt.json"]


def test_the_nearest_word_is_named_and_a_far_one_is_not() -> None:
    assert nearest("averge", ["average", "export"]) == " Did you mean 'average'?"
    assert nearest("xyz", ["average", "export"]) == ""


def test_a_missing_package_comes_with_its_command() -> None:
    message = str(MissingPackageError("ctranslate2", "Export", "pip install ctranslate2"))
    assert (
        message == "Export needs the package ctranslate2. Install it with: pip install ctranslate2"
    )
