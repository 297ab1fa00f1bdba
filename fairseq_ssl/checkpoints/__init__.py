"""Reading, averaging and conversion of fairseq checkpoints, and reading of pretrained models.

Code in a checkpoint is never run.

>>> from fairseq_ssl.checkpoints import CheckpointSelection, average, write_checkpoint
>>> paths = CheckpointSelection(last=5).paths(["checkpoints"])  # doctest: +SKIP
>>> write_checkpoint(average(paths), "averaged.pt")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairseq_ssl.lazy_names import lazy_names

if TYPE_CHECKING:
    from fairseq_ssl.checkpoints.averaging import average as average
    from fairseq_ssl.checkpoints.files import read_checkpoint as read_checkpoint
    from fairseq_ssl.checkpoints.files import write_checkpoint as write_checkpoint
    from fairseq_ssl.checkpoints.selection import CheckpointSelection as CheckpointSelection
    from fairseq_ssl.checkpoints.selection import check_average_output as check_average_output

MODULES = {
    "averaging": ("average",),
    "files": ("read_checkpoint", "write_checkpoint"),
    "selection": ("CheckpointSelection", "check_average_output"),
}
"""Public names by module. A module is imported on first use, since some modules import torch."""

__all__ = [name for names in MODULES.values() for name in names]
__getattr__ = lazy_names(__name__, MODULES)
