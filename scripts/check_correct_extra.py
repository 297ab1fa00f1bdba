"""Check the size, the start and the memory of a corrector without torch.

Builds a new environment with the extra `correct`, and corrects a sentence with a folder of
`export --to onnx`. Exits with 1 if a limit is exceeded or if a package of training is imported.
Needs an index of packages; half a minute. The environment has the Python that runs the script:

    python3.12 scripts/check_correct_extra.py ONNX_FOLDER
    python3.12 scripts/check_correct_extra.py ONNX_FOLDER --environment DIR
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MAX_SIZE, MAX_SECONDS, MAX_MEMORY = 250, 1.0, 300
"""Limits: MB of files without the installers, seconds to the first sentence, MB of memory."""
INSTALLERS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
UNWANTED = ("torch", "fairseq", "transformers", "spacy", "onnx")
SENTENCE = "She go to school every days."
RUNS = 3
"""The fastest run counts, because other processes can only slow a run down."""
PROGRAM = """
import atexit, json, os, sys
from fairseq_ssl.cli.main import main

def write_report():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    report = {"kib": int(status["VmHWM"].split()[0]), "modules": list(sys.modules)}
    with open(os.environ["REPORT"], "w") as file:
        json.dump(report, file)

atexit.register(write_report)
sys.exit(main())
"""
"""`fairseq-ssl`, which writes its peak memory and its modules at the end."""


class Run(NamedTuple):
    """A corrected sentence and its cost."""

    text: str
    seconds: float
    megabytes: float
    unwanted: list[str]


def build_environment(folder: Path) -> None:
    """Install the package of this checkout with the extra into a new environment."""
    venv.create(folder, with_pip=True)
    with tempfile.TemporaryDirectory() as temporary:
        # setuptools would write its build folder into the checkout
        no_caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "fairseq_ssl", Path(temporary, "fairseq_ssl"), ignore=no_caches)
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, temporary)
        install = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
        pins = ["--constraint", str(ROOT / "scripts/constraints.txt")]
        subprocess.run([*install, *pins, f"{temporary}[correct]"], check=True)


def package_sizes(folder: Path) -> Counter[str]:
    """Return the bytes of each package of an environment, without the installers."""
    (site,) = folder.glob("lib/python3*/site-packages")
    sizes: Counter[str] = Counter()
    for file in site.rglob("*"):
        name = file.relative_to(site).parts[0].partition("-")[0].partition(".")[0]
        if file.is_file() and name not in INSTALLERS:
            sizes[name] += file.stat().st_size
    return sizes


def correct(folder: Path, model: Path) -> Run:
    """Correct the sentence in a new process."""
    with tempfile.TemporaryDirectory() as temporary:
        report, log = Path(temporary, "report.json"), Path(temporary, "log")
        options = ["--model", str(model), "--jobs", "1"]
        begun = time.monotonic()
        with (
            log.open("w", encoding="utf-8") as errors,
            subprocess.Popen(
                [str(folder / "bin/python"), "-I", "-c", PROGRAM, "correct", *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "REPORT": str(report)},
                cwd=temporary,
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{SENTENCE}\n")
            process.stdin.close()
            text = process.stdout.readline().strip()
            seconds = time.monotonic() - begun
        if process.returncode or not text:
            sys.exit(f"check_correct_extra: {log.read_text(encoding='utf-8').strip()}")
        found = json.loads(report.read_text(encoding="utf-8"))
    unwanted = sorted(set(UNWANTED) & set(found["modules"]))
    return Run(text, seconds, found["kib"] * 1024 / 1e6, unwanted)


def measure(folder: Path, model: Path) -> Iterator[tuple[str, bool]]:
    """Yield lines with measurements, and whether each is within its limit."""
    sizes = package_sizes(folder)
    size = sizes.total() / 1e6
    largest = ", ".join(f"{name} {bytes_ / 1e6:.0f}" for name, bytes_ in sizes.most_common(6))
    yield f"environment: {size:.0f} MB of {MAX_SIZE} MB ({largest})", size <= MAX_SIZE
    runs = [correct(folder, model) for _ in range(RUNS)]
    seconds = min(run.seconds for run in runs)
    yield f"first sentence: {seconds:.2f} s of {MAX_SECONDS} s", seconds <= MAX_SECONDS
    memory = max(run.megabytes for run in runs)
    yield f"peak memory: {memory:.0f} MB of {MAX_MEMORY} MB", memory <= MAX_MEMORY
    unwanted = runs[0].unwanted
    yield f"imported packages of training: {', '.join(unwanted) or 'none'}", not unwanted
    yield f"{SENTENCE} => {runs[0].text}", True


def main() -> None:
    """Print the measurements, and exit with 1 if one is not within its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, metavar="ONNX_FOLDER", help="model to correct with")
    parser.add_argument(
        "--environment",
        type=Path,
        metavar="DIR",
        help="environment to keep: built if it does not exist, used if it does",
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.environment or Path(temporary, "venv")).absolute()
        if not folder.exists():
            build_environment(folder)
        is_good = True
        for line, is_within in measure(folder, args.model.absolute()):
            print(line if is_within else f"{line}: FAILED", flush=True)
            is_good &= is_within
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
