"""Reading, averaging and conversion of checkpoints of fairseq, Hugging Face and CTranslate2.

Code in a checkpoint is never run.

>>> from fairseq_ssl.checkpoints import CheckpointSelection, average, write_checkpoint
>>> paths = CheckpointSelection(last=5).paths(["checkpoints"])  # doctest: +SKIP
>>> write_checkpoint(average(paths), "averaged.pt")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairseq_ssl.checkpoints.averaging import average as average
    from fairseq_ssl.checkpoints.files import read_checkpoint as read_checkpoint
    from fairseq_ssl.checkpoints.files import write_checkpoint as write_checkpoint
    from fairseq_ssl.checkpoints.selection import CheckpointSelection as CheckpointSelection
    from fairseq_ssl.checkpoints.selection import check_average_output as check_average_output

MODULES = {
    "CheckpointSelection": "selection",
    "average": "averaging",
    "check_average_output": "selection",
    "read_checkpoint": "files",
    "write_checkpoint": "files",
}
"""Module of each public name. Modules are imported on use, since some import torch."""

__all__ = list(MODULES)


def __getattr__(name: str) -> Any:
    """Return the object of a public name. Its module is imported on first use."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
