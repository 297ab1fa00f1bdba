"""Text tools and the base install: nothing imports torch or fairseq until a command needs them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import COMMANDS
from tests.conftest import ROOT, Run

BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "fairseq", "fairseq_cli", "omegaconf", "hydra"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""
COMMAND = f"{BLOCKED}\nfrom fairseq_ssl.cli.main import main\nsys.exit(main(sys.argv[1:]))"
NEEDS_TORCH = {
    "average": ("average", "text", "-o", "model.pt"),
    "classify predict": ("classify", "predict", "text", "--model", "text", "--data-dir", "."),
}


def test_every_command_has_help_without_torch(run: Run, tmp_path: Path) -> None:
    script = f"""{BLOCKED}
from fairseq_ssl.cli.main import COMMANDS, main
for command in COMMANDS:
    try:
        main([command, "--help"])
    except SystemExit as end:
        assert end.code == 0, command
"""
    shown = run(sys.executable, "-c", script, cwd=tmp_path).stdout
    assert all(f"usage: fairseq-ssl {command}" in shown for command in COMMANDS)


def test_text_commands_run_without_torch(run: Run, tmp_path: Path) -> None:
    lines = [f"the small dog number {number} walks in the old park ." for number in range(30)]
    (tmp_path / "corpus").mkdir()
    for name in ("text", "corpus/train.en", "corpus/train.de"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    script = f"""{BLOCKED}
from fairseq_ssl.cli.main import main
for line in '''
noise text --method direct -o noisy
filter noisy text --filter clean -o kept.src kept.trg
score bleu noisy --reference text
score gleu noisy --source noisy --reference text
edits dictionary noisy text -o edits
edits label noisy text --dictionary edits -o labels
edits vote noisy text noisy -o voted
tokenize text --moses en -o tokens
tokenize text --train-truecase cases
subwords train text -o bpe --size 40
tag <BT> text -o tagged
learner-errors noisy text -o errors --min-count 1
position-data vanilla corpus positions
report a=noisy b=voted -o page.html --source noisy --reference text
'''.strip().splitlines():
    assert main(line.split()) == 0, line
"""
    run(sys.executable, "-c", script, cwd=tmp_path)
    assert (tmp_path / "page.html").stat().st_size


@pytest.mark.parametrize("command", NEEDS_TORCH)
def test_a_command_that_needs_torch_names_the_extra_to_install(
    run: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "text").write_text("a b\n")
    shown = run(sys.executable, "-c", COMMAND, *NEEDS_TORCH[command], cwd=tmp_path, code=1).stderr
    expected = rf"fairseq-ssl {command}: error: .* needs the package (torch|fairseq)\. "
    assert re.fullmatch(rf"{expected}Install it with: pip install 'fairseq-ssl\[train\]'\n", shown)


def test_a_missing_corrector_is_reported(run: Run, tmp_path: Path) -> None:
    code = f"""{BLOCKED}
from fairseq_ssl.errors import DataError
from fairseq_ssl.inference import Corrector
try:
    Corrector.from_pretrained("missing")
except DataError as error:
    print(error)
"""
    shown = run(sys.executable, "-c", code, cwd=tmp_path).stdout
    assert shown.startswith("missing does not exist. Expected a checkpoint, a folder in ONNX")


def test_doctor_accepts_an_installation_of_the_text_tools(run: Run, tmp_path: Path) -> None:
    script = f"""{BLOCKED}
import fairseq_ssl.plugin.installation as installation
from fairseq_ssl.cli.main import main
found = installation._version
missing = ("torch", "fairseq-fixed", "fairseq")
installation._version = lambda name: None if name in missing else found(name)
sys.exit(main(["doctor"]))
"""
    shown = run(sys.executable, "-c", script, cwd=tmp_path).stdout
    assert "not installed; for training and decoding: pip install 'fairseq-ssl[train]'" in shown
    assert "PROBLEM" not in shown


def test_the_base_install_has_neither_torch_nor_fairseq() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    base = re.search(r"^dependencies = \[(.*?)^\]", text, re.M | re.S)
    assert base
    assert "numpy" in base[1]
    assert not re.search("torch|fairseq", base[1])
