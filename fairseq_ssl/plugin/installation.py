"""What is installed, from where, and whether the plug-in registers with fairseq."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fairseq_ssl
from fairseq_ssl.errors import DISTRIBUTIONS, INSTALL_TRAINING
from fairseq_ssl.io.executors import cpu_count
from fairseq_ssl.papers import PAPERS

PACKAGES = (
    *("torch", "numpy", "sacrebleu", "sentencepiece", "ctranslate2", "matplotlib"),
    *("lemminflect", "rapidfuzz", "symspellpy", "ray", "safetensors", "transformers"),
    *("errant", "spacy", "gensim", "scikit-learn", "subword-nmt", "sacremoses", "rouge-score"),
    *("mecab-python3", "ipadic"),
)
MODULES = {package: module for module, package in DISTRIBUTIONS.items()}
"""Import names that differ from the name of the package."""
FAIRSEQS = ("fairseq", "fairseq-fixed")
UNSAFE_LOADING = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


@dataclass(frozen=True)
class Finding:
    """A fact about the installation, with a problem and what to do about it."""

    subject: str
    fact: str
    problem: str = ""


def examine_installation() -> Iterator[Finding]:
    """Yield the findings, with the packages, the devices and the safety of checkpoints."""
    yield Finding("fairseq_ssl", f"{fairseq_ssl.__version__} from {_home('fairseq_ssl')}")
    yield Finding("python", f"{platform.python_version()} on {platform.platform()}")
    is_for_training = any(map(_version, ("torch", *FAIRSEQS)))
    if is_for_training:
        yield _fairseq()
    else:
        yield Finding("fairseq", f"not installed; for training and decoding: {INSTALL_TRAINING}")
    yield from map(_package, PACKAGES)
    if is_for_training:
        yield _accelerator()
        yield _safe_loading()
        yield _registration()
    yield from _shadows()


def _home(module: str) -> str:
    """Return the folder that a module would be imported from, without importing it."""
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
        problem = f"install it with: {INSTALL_TRAINING}"
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
    """Return True if fairseq switches the protection of torch off, as its main branch does."""
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
    except Exception as error:  # any error of fairseq is what the user has to know
        return Finding("registration", "failed", f"{type(error).__name__}: {error}")
    known = {*TASK_REGISTRY, *ARCH_MODEL_REGISTRY, *CRITERION_REGISTRY, *OPTIMIZER_REGISTRY}
    missing = [name for name in names if name not in known]
    problem = f"fairseq does not know {', '.join(missing)}" if missing else ""
    return Finding("registration", f"{len(names) - len(missing)} of {len(names)} names", problem)


def _shadows() -> Iterator[Finding]:
    """Find a folder here that an import or --user-dir fairseq_ssl would use instead."""
    for name in ("fairseq_ssl", "fairseq"):
        here = Path(name).resolve()
        if here.is_dir() and str(here) != _home(name):
            yield Finding(
                "working folder",
                f"holds a folder {name}, which is not the installed package",
                f"go elsewhere or rename {here}: it hides the package from --user-dir and imports",
            )
