"""Every command uses the readers of `test_readers`, and no file of a command runs code."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.contents import Scene, as_array, as_checkpoint, as_pickle
from tests.conftest import PACKAGE, ROOT

sys.path.insert(0, str(ROOT / "scripts/fuzz"))
import fuzz
from model_targets import MODEL_TARGETS
from targets import TARGETS

from fairseq_ssl.cli.main import COMMANDS, command_parser, main

ALL = TARGETS | MODEL_TARGETS
"""Commands of the fuzzer, with valid samples of their files."""
WITHOUT_FILES = {"completion", "doctor", "user-dir"}
SAME_FILES = {"serve": "correct"}
"""Commands that read the files of another command."""
PICKLES = {".pt": as_checkpoint, ".npz": as_array}
"""Contents with a pickle by suffix, for readers that read a bare pickle as a damaged file."""

READS = re.compile(
    r"\b(open|read_text|read_bytes|fromfile|memmap|mmap|genfromtxt|loadtxt|from_pretrained"
    r"|from_file|from_str|load_facebook_vectors|load_indexed_dataset|load_file|safe_open"
    r"|SentencePieceProcessor|InferenceSession|Translator|GzipFile|ZipFile|Dictionary\.load"
    r"|(torch|np|numpy|json|yaml|pickle|spacy|onnx)\.\w*(load|loads|parse))\("
)
"""Calls that read a file or parse its content."""
MODULES = {
    "checkpoints/ensembles": "the first two bytes",
    "checkpoints/files": "test_readers, tests/plugin/test_hostile_checkpoints.py",
    "checkpoints/gector": "tests/unit/checkpoints/test_gector.py",
    "checkpoints/model_folder": "tests/unit/inference/test_onnx_folder.py",
    "checkpoints/onnx_folder": "tests/unit/inference/test_onnx_folder.py",
    "checkpoints/stored_options": "tests/unit/checkpoints/test_stored_options.py",
    "checkpoints/pretrained": "tests/unit/checkpoints/test_untrusted_folder.py",
    "checkpoints/token_classifier": "tokenizers, tests/unit/checkpoints",
    "cli/console": "/dev/null",
    "cli/options": "a device that is an output",
    "data/binarized": "test_readers and below",
    "data/teacher_labels": "test_readers",
    "edits/subwords": "tokenizers, tests/unit/edits/test_subwords.py",
    "filters/chain": "test_readers",
    "filters/key_files": "test_readers",
    "inference/onnx_tagger": "tests/unit/inference/test_onnx_folder.py",
    "inference/correction": "a method of that name",
    "inference/decoders": "CTranslate2 folders, below",
    "inference/server": "requests, tests/cli/test_serve.py",
    "io/executors": "errors of worker processes",
    "io/fingerprints": "checksums",
    "io/parts": "digests of parts",
    "io/remote": "bytes for the readers, tests/unit/io/test_remote.py",
    "io/outputs": "journals and signatures next to an output, tests/unit/io",
    "io/text_files": "test_readers",
    "learned_filter/classifier": "test_readers",
    "learned_filter/learned_filter_job": "scores as numbers, in the folder of the job",
    "models/bert_classifier": "tests/unit/checkpoints/test_stored_options.py",
    "models/encoder_classifier": "options of checkpoints",
    "models/imitators": "options of checkpoints",
    "models/text_classifier": "options of checkpoints",
    "noise/noise_job": "counts that a killed job left, compared as bytes",
    "plugin/checkpoint_safety": "fairseq's loader, tests/plugin/test_hostile_checkpoints.py",
    "plugin/installation": "source code of fairseq",
    "report/page": "files of the package, and figures as base64",
    "rerank/word_vectors": "test_readers",
    "tasks/edit_labeling": "indexes of fairseq-train, test_readers",
    "tasks/reconstruction_translation": "indexes of fairseq-train, test_readers",
    "tasks/semi_supervised_classification": "indexes of fairseq-train, test_readers",
    "tasks/tagged_translation": "indexes of fairseq-train, test_readers",
    "tasks/translation_mixins": "an option of fairseq-train",
    "text/position_data": "a signature next to an output, searched for a text",
    "text/subwords/sentencepiece_model": "test_readers",
}
"""Modules that use them, with what they read or where the attacks are tested."""


def commands(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Yield the names of the commands without subcommands, and of the subcommands."""
    subcommands = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for action in subcommands:
        for subcommand, child in action.choices.items():
            yield from commands(child, f"{name} {subcommand}")
    if not subcommands:
        yield name


def test_every_command_has_a_target() -> None:
    found = {name for command in COMMANDS for name in commands(command_parser(command), command)}
    attacked = {
        name
        for name in found
        for target in ALL.values()
        if target.words.split()[: len(name.split())] == name.split()
    }
    assert set(SAME_FILES.values()) <= attacked
    assert found == attacked | WITHOUT_FILES | SAME_FILES.keys()


def test_files_are_read_in_reviewed_modules_only() -> None:
    found = {
        path.relative_to(PACKAGE).with_suffix("").as_posix()
        for path in PACKAGE.rglob("*.py")
        if READS.search(path.read_text("utf-8"))
    }
    assert found
    assert not found - MODULES.keys(), "use a reader of `test_readers`, or test attacks on it"


@pytest.mark.parametrize("target", ALL)
def test_no_file_of_a_command_runs_code(
    target: str,
    scene: Scene,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setattr(fuzz, "models", lambda: scene.models)
    # One index and one .bin file are enough, since all of them have the same reader.
    names = {
        Path(name).suffix if name.endswith((".bin", ".idx")) else name: name
        for name in ALL[target].files
    }
    for number, name in enumerate(names.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = fuzz.words_of(ALL[target], folder, None)
        attack = PICKLES.get(Path(name).suffix, as_pickle)
        (folder / name).write_bytes(attack(scene))
        code = main(words)
        shown = capfdbinary.readouterr().err.decode("utf-8", "replace")
        assert not scene.canary.exists(), name
        assert code in (0, 1, 2), name
        assert "Traceback" not in shown, name
        if code:  # a command that reads the file as text may succeed
            errors = [line for line in shown.splitlines() if ": error: " in line]
            assert len(errors) == 1, shown
