"""``fairseq-ssl doctor``: what is installed, from where, and whether the plug-in registers."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import fairseq_ssl
from fairseq_ssl.errors import DISTRIBUTIONS
from fairseq_ssl.io.executors import cpu_count
from fairseq_ssl.papers import PAPERS

SUMMARY = "check the installation and print what a bug report should hold"
EXAMPLES = """\
  fairseq-ssl doctor
  fairseq-ssl doctor --format json"""

PACKAGES = (
    *("torch", "numpy", "sacrebleu", "sentencepiece", "ctranslate2", "matplotlib"),
    *("lemminflect", "rapidfuzz", "symspellpy", "ray", "safetensors", "transformers"),
    *("errant", "spacy", "gensim", "scikit-learn", "subword-nmt", "sacremoses", "rouge-score"),
    *("mecab-python3", "ipadic"),
)
MODULES = {package: module for module, package in DISTRIBUTIONS.items()}
"""What a package is imported as, where that is another name."""
FAIRSEQS = ("fairseq", "fairseq-fixed")
UNSAFE_LOADING = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


@dataclass(frozen=True)
class Finding:
    """One line of the report; `problem` says what to do where something is wrong."""

    subject: str
    fact: str
    problem: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the output format."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="how to print the report (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Print all findings; the exit code is 1 when one of them is a problem."""
    findings = list(_examine())
    if args.format == "json":
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        width = max(len(finding.subject) for finding in findings)
        for finding in findings:
            print(f"{finding.subject:{width}}  {finding.fact}")
            if finding.problem:
                print(f"{'':{width}}  PROBLEM: {finding.problem}")
    return int(any(finding.problem for finding in findings))


def _examine() -> Iterator[Finding]:
    yield Finding("fairseq_ssl", f"{fairseq_ssl.__version__} from {_home('fairseq_ssl')}")
    yield Finding("python", f"{platform.python_version()} on {platform.platform()}")
    yield _fairseq()
    yield from map(_package, PACKAGES)
    yield _accelerator()
    yield _safe_loading()
    yield _registration()
    yield from _shadows()


def _home(module: str) -> str:
    """Return the folder a module would be loaded from, without loading it."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return "nowhere"
    return str(Path(spec.origin).parent) if spec.origin else str(spec.submodule_search_locations)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _package(name: str) -> Finding:
    version = _version(name)
    module = MODULES.get(name, name.replace("-", "_"))
    return Finding(name, f"{version} from {_home(module)}" if version else "not installed")


def _fairseq() -> Finding:
    installed = [f"{name} {version}" for name in FAIRSEQS if (version := _version(name))]
    home = _home("fairseq")
    problem = ""
    if home == "nowhere":
        problem = "install it with: bash scripts/setup.sh (see README, Install)"
    elif len(installed) > 1:
        problem = "two distributions share one folder: uninstall both, then install one of them"
    return Finding("fairseq", f"{', '.join(installed) or 'no distribution'} from {home}", problem)


def _accelerator() -> Finding:
    try:
        import torch
    except ImportError as error:
        return Finding("devices", "unknown", f"torch does not load: {error}")
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding("devices", ", ".join(names) or f"CPU only, {cpu_count()} cores to use")


def _safe_loading() -> Finding:
    if os.environ.get(UNSAFE_LOADING):
        problem = f"{UNSAFE_LOADING} is set: unset it, checkpoints load safely without it"
        return Finding("checkpoints", "any code in a checkpoint is run", problem)
    if _fairseq_asks_for_unsafe_loading():
        problem = "this fairseq asks torch for unsafe loading: install fairseq-fixed 0.12.3.1"
        return Finding("checkpoints", "any code in a checkpoint is run", problem)
    version = tuple(int(part) for part in (_version("torch") or "0.0").split(".")[:2])
    if version < (2, 6):
        problem = "torch is before 2.6, which loads them without protection: pip install -U torch"
        return Finding("checkpoints", "any code in a checkpoint is run", problem)
    return Finding("checkpoints", "loaded with weights_only on")


def _fairseq_asks_for_unsafe_loading() -> bool:
    """Tell whether the installed fairseq overrules torch, as its later main branch does."""
    source = Path(_home("fairseq")) / "checkpoint_utils.py"
    return source.is_file() and "weights_only=False" in source.read_text(encoding="utf-8")


def _registration() -> Finding:
    names = [name for paper in PAPERS for name in paper.registered]
    try:
        fairseq_ssl.register()
        from fairseq.criterions import CRITERION_REGISTRY
        from fairseq.models import ARCH_MODEL_REGISTRY
        from fairseq.optim import OPTIMIZER_REGISTRY
        from fairseq.tasks import TASK_REGISTRY
    except Exception as error:  # whatever is wrong with fairseq is what the user wants to read
        return Finding("registration", "failed", f"{type(error).__name__}: {error}")
    known = {*TASK_REGISTRY, *ARCH_MODEL_REGISTRY, *CRITERION_REGISTRY, *OPTIMIZER_REGISTRY}
    missing = [name for name in names if name not in known]
    problem = f"fairseq does not know {', '.join(missing)}" if missing else ""
    return Finding("registration", f"{len(names) - len(missing)} of {len(names)} names", problem)


def _shadows() -> Iterator[Finding]:
    """Name a folder here that --user-dir fairseq_ssl, or an import, would take instead."""
    for name in ("fairseq_ssl", "fairseq"):
        here = Path(name).resolve()
        if here.is_dir() and str(here) != _home(name):
            yield Finding(
                "working folder",
                f"holds a folder {name}, which is not the installed package",
                f"go elsewhere or rename {here}: it hides the package from --user-dir and imports",
            )
