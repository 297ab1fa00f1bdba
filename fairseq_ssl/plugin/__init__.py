"""Registration of models, criterions, optimizers and tasks with fairseq, and fairseq patches."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from fairseq_ssl.errors import needs_torch
from fairseq_ssl.io.executors import silence_library_warnings

__all__ = ["REGISTERING_MODULES", "register_all"]

REGISTERING_MODULES = (
    "fairseq_ssl.models.shape_transformer",
    "fairseq_ssl.models.edit_tagger",
    "fairseq_ssl.models.pseudo_bidirectional_transformer",
    "fairseq_ssl.models.pointer_transformer",
    "fairseq_ssl.models.bytenet",
    "fairseq_ssl.models.recurrent_models",
    "fairseq_ssl.models.encoder_classifier",
    "fairseq_ssl.models.bert_classifier",
    "fairseq_ssl.models.imitators",
    "fairseq_ssl.criterions.classification_cross_entropy",
    "fairseq_ssl.criterions.edit_cross_entropy",
    "fairseq_ssl.criterions.denoising_cross_entropy",
    "fairseq_ssl.criterions.reconstruction_loss",
    "fairseq_ssl.optim.adam",
    "fairseq_ssl.tasks.edit_labeling",
    "fairseq_ssl.tasks.copying_translation",
    "fairseq_ssl.tasks.denoising_pretraining",
    "fairseq_ssl.tasks.local_transduction",
    "fairseq_ssl.tasks.reconstruction_translation",
    "fairseq_ssl.tasks.semi_supervised_classification",
    "fairseq_ssl.tasks.tagged_translation",
)
"""Modules that use fairseq's ``register_*`` decorators. Add new modules here."""

STATISTICS = ("sklearn", "sklearn.metrics", "scipy.stats")
"""Modules that fairseq uses only in the validation of GLUE and speech classifiers. Importing them
takes a second of CPU time (``scripts/benchmarks/start_up.py``)."""


def register_all() -> None:
    """Patch fairseq and import `REGISTERING_MODULES`. Further calls have no effect."""
    silence_library_warnings()
    with needs_torch("Training and decoding"), deferred_statistics(), unchanged_logging():
        import fairseq  # noqa: F401

    from fairseq_ssl.data.binarized import check_datasets
    from fairseq_ssl.plugin.patches import apply_patches

    apply_patches()
    check_datasets()
    for module in REGISTERING_MODULES:
        importlib.import_module(module)


class _DeferredModule(ModuleType):
    """A module placeholder. Calling one of its functions imports the real module."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # without it, find_spec raises an error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **options: getattr(importlib.import_module(self.__name__), name)(
            *args, **options
        )


@contextmanager
def deferred_statistics() -> Iterator[None]:
    """Replace modules in `STATISTICS` with placeholders in the block, unless they are imported."""
    modules = {name: _DeferredModule(name) for name in STATISTICS if name not in sys.modules}
    if "sklearn" in modules:
        vars(modules["sklearn"])["metrics"] = modules["sklearn.metrics"]
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)


@contextmanager
def unchanged_logging() -> Iterator[None]:
    """Keep the root logger's level within the block. A fairseq module would set it to DEBUG.

    The module calls `logging.basicConfig`, which does nothing if a handler exists. The temporary
    handler prints the same messages as a logger without handlers.
    """
    handler = logging.lastResort
    if logging.root.handlers or handler is None:
        yield
        return
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
