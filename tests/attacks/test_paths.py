"""File names that look like code or options, links as outputs, and devices as inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.io import text_files
from tests.cli.rewriting import refused, shown

TEXT = b"a b c\nd e\nf g\n" * 3


@pytest.mark.slow
def test_a_folder_that_is_a_link_is_not_emptied(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    words = ("export", models / "t.pt", "--to", "ctranslate2", "--data-dir", models / "data", "-o")
    shown(capsys, *words, tmp_path / "real")
    (tmp_path / "out").symlink_to(tmp_path / "real")
    assert "is a symbolic link" in refused(capsys, 2, *words, tmp_path / "out", "--force")
    assert (tmp_path / "real/model.bin").is_file()


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x1b[31mb", "a\u2028b", "-o", "--force", "$(touch canary)", "a;b|c", "%s{}"]
)
def test_file_names_are_not_interpreted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("tokenize", f"./{name}", "--moses", "en", "-o")
    Path(name).write_bytes(b"\xef\xbb\xbf" + TEXT)
    assert main([*words, f"./{name}.out"]) == 0
    assert Path(f"./{name}.out").read_bytes() == TEXT
    notices = capsys.readouterr().err.splitlines()
    assert len(notices) == 3
    assert all(map(str.isprintable, notices))
    Path(name).write_bytes(b"\xff\n")
    error = refused(capsys, 1, *words, "out").removesuffix("\n")
    assert error.startswith("fairseq-ssl tokenize: error: ")
    assert error.isprintable()
    assert not Path("canary").exists()


@pytest.mark.parametrize(
    "words",
    [
        "tokenize /dev/zero --moses en -o {out}",
        "score bleu /dev/zero --reference /dev/zero",
        "rerank apply /dev/zero --weights /dev/zero -o {out}",
        "filter {text} --config /dev/zero -o {out}",
        "filter /dev/zero --filter clean -o {out} --jobs 1",
        "average /dev/zero -o {out}",
        "export /dev/zero --to fairseq -o {out}",
        "correct {text} --model /dev/urandom --data-dir . -o {out}",
        "subwords encode /dev/zero {text} -o {out}",
    ],
)
def test_endless_inputs_are_rejected(
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(text_files, "MAX_DOCUMENT_BYTES", 2**20)
    (tmp_path / "text").write_bytes(TEXT)
    assert main(words.format(text=tmp_path / "text", out=tmp_path / "out").split()) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "/dev/" in error
    assert "does not exist" not in error
    assert not (tmp_path / "out").exists()


def test_missing_memory_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    (tmp_path / "text").write_bytes(TEXT)
    monkeypatch.setattr(text_files, "read_line", fail)
    assert main(["tokenize", str(tmp_path / "text"), "--moses", "en"]) == 1
    assert capsys.readouterr().err == "fairseq-ssl tokenize: error: Cannot allocate memory.\n"
