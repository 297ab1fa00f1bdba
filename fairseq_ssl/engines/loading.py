"""Models and their task, from checkpoints of fairseq-train."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, FairseqSslError


def load_models(paths: Sequence[Path], **options: Any) -> tuple[list[Any], Any, Any]:
    """Return the models, what the first was trained with, and their task.

    Args:
        paths: of the checkpoints
        options: of the task that are other now; `data` is the folder of its data
    """
    import fairseq_ssl

    fairseq_ssl.register()
    from fairseq import checkpoint_utils

    for path in paths:
        if not path.is_file():
            raise DataError(f"{path} does not exist. Expected a checkpoint of fairseq-train.")
    names = [str(path) for path in paths]
    shown = ", ".join(names)
    data = options.get("data", "their data")
    try:
        models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(names, options)
    except FairseqSslError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{data} is not the data of {shown}: {error}") from error
    except Exception as error:  # what fairseq and torch trip over, in a checkpoint or in a dict.txt
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"{shown} can not be loaded with {data}; was it trained with another dictionary? "
            f"{told[-1].strip()}"
        ) from error
    return list(models), cfg, task
