"""Installation checks for `fairseq-ssl doctor`: packages, devices, safety, registration."""

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
from fairseq_ssl.plugin import REGISTERING_MODULES
from fairseq_ssl.text.m2 import SPACY_MODEL

PACKAGES = (
    *("torch", "numpy", "sacrebleu", "sentencepiece", "ctranslate2", "onnxruntime"),
    *("matplotlib", "lemminflect", "rapidfuzz", "symspellpy", "ray", "safetensors", "transformers"),
    *("errant", "spacy", "gensim", "scikit-learn", "subword-nmt", "sacremoses", "rouge-score"),
    *("mecab-python3", "ipadic", "starlette", "uvicorn", "fsspec", "s3fs", "zstandard"),
    "datasketch",
)
MODULES = {package: module for module, package in DISTRIBUTIONS.items()}
"""Module names by PyPI name, for packages whose PyPI name differs from the module name."""
FAIRSEQS = ("fairseq", "fairseq-fixed")
NOT_FOUND = "an unknown folder"
UNSAFE_LOADING = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


@dataclass(frozen=True)
class Finding:
    """Result of one installation check: its subject, the observed fact and a problem, if any."""

    subject: str
    fact: str
    problem: str = ""
    """The problem and how to fix it, or an empty string if there is no problem."""


def examine_installation() -> Iterator[Finding]:
    """Yield findings about packages, devices, checkpoint safety, registration and shadowing."""
    yield Finding("fairseq_ssl", f"{fairseq_ssl.__version__} from {_home('fairseq_ssl')}")
    yield Finding("python", f"{platform.python_version()} on {platform.platform()}")
    is_for_training = any(map(_version, ("torch", *FAIRSEQS)))
    if is_for_training:
        yield _fairseq()
    else:
        yield Finding("fairseq", f"not installed; for training and decoding: {INSTALL_TRAINING}")
    yield from map(_package, PACKAGES)
    yield _spacy_pipeline()
    if is_for_training:
        yield _accelerator()
        yield _safe_loading()
        yield _registration()
    yield from _shadows()


def _home(module: str) -> str:
    """Return the folder of a module without importing it, or `NOT_FOUND` if it is missing."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return NOT_FOUND
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


def _spacy_pipeline() -> Finding:
    if _version(SPACY_MODEL):
        return _package(SPACY_MODEL)
    install = f"python -m spacy download {SPACY_MODEL}"
    return Finding(SPACY_MODEL, f"not installed; for edit types with ERRANT: {install}")


def _fairseq() -> Finding:
    installed = [f"{name} {version}" for name in FAIRSEQS if (version := _version(name))]
    home = _home("fairseq")
    problem = ""
    if home == NOT_FOUND:
        problem = f"install it with: {INSTALL_TRAINING}"
    elif len(installed) > 1:
        problem = "two distributions share a folder: uninstall both, then install one of them"
    return Finding("fairseq", f"{', '.join(installed) or 'no distribution'} from {home}", problem)


def _accelerator() -> Finding:
    try:
        import torch
    except ImportError as error:
        return Finding("devices", "unknown", f"torch cannot be imported: {error}")
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding("devices", ", ".join(names) or f"CPU only, {cpu_count()} usable cores")


def _safe_loading() -> Finding:
    source = Path(_home("fairseq")) / "checkpoint_utils.py"
    version = tuple(int(part) for part in (_version("torch") or "0.0").split(".")[:2])
    problem = ""
    if os.environ.get(UNSAFE_LOADING):
        problem = f"{UNSAFE_LOADING} is set: unset it, because checkpoints load without it"
    elif source.is_file() and "weights_only=False" in source.read_text(encoding="utf-8"):
        problem = "this fairseq sets weights_only=False: install fairseq-fixed 0.12.3.1"
    elif version < (2, 6):
        problem = "torch before 2.6 loads pickles without protection: pip install -U torch"
    fact = "can run code when loaded" if problem else "loaded with weights_only=True"
    return Finding("checkpoints", fact, problem)


def _registration() -> Finding:
    try:
        fairseq_ssl.register()
        from fairseq.criterions import CRITERION_REGISTRY
        from fairseq.models import ARCH_MODEL_REGISTRY
        from fairseq.optim import OPTIMIZER_REGISTRY
        from fairseq.tasks import TASK_REGISTRY
    except Exception as error:  # report any error of fairseq to the user
        return Finding("registration", "failed", f"{type(error).__name__}: {error}")
    registries = (TASK_REGISTRY, ARCH_MODEL_REGISTRY, CRITERION_REGISTRY, OPTIMIZER_REGISTRY)
    modules = [cls.__module__ for registry in registries for cls in registry.values()]
    missing = [module for module in REGISTERING_MODULES if module not in modules]
    problem = f"modules not registered with fairseq: {', '.join(missing)}" if missing else ""
    count = sum(module.startswith("fairseq_ssl.") for module in modules)
    return Finding("registration", f"{count} names", problem)


def _shadows() -> Iterator[Finding]:
    """Yield a finding for each folder in the working folder that shadows an installed package."""
    for name in ("fairseq_ssl", "fairseq"):
        here = Path(name).resolve()
        if here.is_dir() and str(here) != _home(name):
            yield Finding(
                "working folder",
                f"contains a folder {name} that is not the installed package",
                f"change the working folder or rename {here}, which shadows the package",
            )
