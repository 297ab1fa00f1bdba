"""Packages that only some of the work needs, loaded when it begins."""

from __future__ import annotations

import importlib
from typing import Any

from fairseq_ssl.errors import MissingPackageError

DISTRIBUTIONS = {"yaml": "PyYAML", "sklearn": "scikit-learn", "MeCab": "mecab-python3"}
"""What brings a module, where it is called otherwise."""


def needed(module: str, purpose: str, extra: str) -> Any:
    """Load a module; where its package is missing, say which extra of ours brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        package = DISTRIBUTIONS.get(name, name.replace("_", "-"))
        raise MissingPackageError(
            package, purpose, f"pip install 'fairseq-ssl[{extra}]'"
        ) from error
