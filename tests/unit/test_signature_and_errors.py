"""The signature beside a file, and words of help in errors."""

from __future__ import annotations

import json
import pickle
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl import __version__
from fairseq_ssl.errors import DataError, FairseqSslError, MissingPackageError, import_optional
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.outputs import write_signature
from fairseq_ssl.signature import Signature


def test_the_line_holds_the_parameters_and_the_file_holds_all(tmp_path: Path) -> None:
    signature = Signature("average", {"n": 2, "by": None, "ema": False}, {"from": ["a.pt"]})
    assert str(signature) == f"average|n:2|ema:False|version:{__version__}"
    beside = write_signature(signature, tmp_path / "mean.pt")
    assert beside == tmp_path / "mean.pt.json"
    assert json.loads(beside.read_text()) == {
        "method": "average",
        "version": __version__,
        "n": 2,
        "by": None,
        "ema": False,
        "from": ["a.pt"],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["mean.pt.json"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("direct:keep=0.2:mask=0.3", "|x:direct:keep=0.2:mask=0.3"),
        ("a" * 63, f"|x:{'a' * 63}"),
        (0.0, "|x:0.0"),
        ("", ""),
        ([], ""),
        # printf '["a.pt", "b.pt"]' | sha256sum
        (["a.pt", "b.pt"], "|x:647e9c08"),
        # printf '%s' '{"a": 1, "b": [2.5]}' | sha256sum
        ({"b": [2.5], "a": 1}, "|x:85aab50d"),
    ],
)
def test_lists_and_mappings_are_shown_as_a_digest(value: Any, shown: str) -> None:
    assert str(Signature("m", {"x": value}, version="1")) == f"m{shown}|version:1"


def test_long_strings_and_strings_with_a_separator_differ() -> None:
    values = ["a" * 64, f"{'a' * 64}b", "a|x:1", "a|x:2", "a"]
    assert len({str(Signature("m", {"x": value})) for value in values}) == len(values)
    assert all(str(Signature("m", {"x": value})).count("|") == 2 for value in values)


def test_digests_are_of_the_contents_of_files_and_folders(tmp_path: Path) -> None:
    for name, text in {"one/b": "b", "one/a": "a", "two/a": "ab", "three/x/a": "a"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    digest = sha256(b"ab").hexdigest()[:16]
    assert content_digest(tmp_path / "one") == content_digest(tmp_path / "two" / "a") == digest
    assert content_digest(tmp_path / "one" / "a") != digest
    assert content_digest("/dev/null") == ""
    with pytest.raises(DataError, match="gone"):
        content_digest(tmp_path / "gone")


def kinds_of_errors(base: type[Exception] = FairseqSslError) -> list[type[Exception]]:
    return [base, *(kind for one in base.__subclasses__() for kind in kinds_of_errors(one))]


@pytest.mark.parametrize("kind", kinds_of_errors())
def test_errors_of_worker_processes_keep_their_message(kind: type[Exception]) -> None:
    error = kind(*["a", "b", "c"] if kind is MissingPackageError else ["a"])
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (kind, str(error))


def test_the_reason_is_shown_if_an_installed_package_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("from os import other")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingPackageError, match=r"broken \(cannot import name 'other' from 'os'"):
        import_optional("broken", "The test")
