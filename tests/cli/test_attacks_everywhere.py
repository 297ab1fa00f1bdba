"""A malicious pickle in place of every file that any verb reads.

The files are from `scripts/fuzz`, which has a target for each verb.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts/fuzz"))
from model_targets import MODEL_TARGETS
from targets import TARGETS

from fairseq_ssl.cli.main import main
from tests.cli.attacks import as_array, as_checkpoint, as_pickle, models

ALL = TARGETS | MODEL_TARGETS
PLACES = [(verb, name) for verb, target in ALL.items() for name in target.files]


FORMS = (as_pickle, as_checkpoint, as_array)


def command(verb: str, attacked: str, attack: bytes, folder: Path) -> list[str]:
    """Write the files of a verb, one of them an attack, and return its command line."""
    target = ALL[verb]
    names = {"out": str(folder / "out"), "models": str(models())}
    for name, sample in target.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = sample if isinstance(sample, bytes) else (models() / sample).read_bytes()
        path.write_bytes(attack if name == attacked else whole)
        names |= {name: str(path), name.partition(".")[0]: str(path)}
        names[name.partition("/")[0]] = str(folder / name.partition("/")[0])
    words = target.words.split()
    for name, place in names.items():
        words = [word.replace(f"{{{name}}}", place) for word in words]
    return words


@pytest.mark.parametrize("verb", ALL)
def test_no_file_of_a_verb_runs_code(
    verb: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    canary = tmp_path / "canary"
    for number, name in enumerate(ALL[verb].files):
        form = FORMS[(PLACES.index((verb, name))) % len(FORMS)]
        folder = tmp_path / str(number)
        folder.mkdir()
        code = ended(command(verb, name, form(canary), folder))
        said = capfdbinary.readouterr().err.decode("utf-8", "replace")
        assert not canary.exists(), name
        assert code in (0, 1, 2), name
        assert "Traceback" not in said, name
        if code:  # a verb that reads it as text may succeed
            errors = [line for line in said.splitlines() if ": error: " in line]
            assert len(errors) == 1, said


def ended(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as exit_:
        return int(exit_.code or 0)
