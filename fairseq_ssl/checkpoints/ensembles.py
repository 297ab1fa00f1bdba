"""Loading of fairseq models and ensembles from checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import ConfigurationError, DataError, FairseqSslError
from fairseq_ssl.io.text_files import require_file


def check_registered() -> None:
    """Raise ConfigurationError if the plug-in is not registered with fairseq."""
    from fairseq import checkpoint_utils

    if not hasattr(checkpoint_utils.load_checkpoint_to_cpu, "patched_by"):
        raise ConfigurationError(
            "The plug-in is not registered with fairseq. Call fairseq_ssl.register() first."
        )


@contextmanager
def keep_torch_state() -> Iterator[None]:
    """Restore torch's CPU random state and its handling of denormal numbers after the block.

    Loading a model changes both: fairseq initializes weights randomly before it reads them, and
    classifiers and LSTMs flush denormal numbers to zero, which only training needs.
    """
    import torch

    flushes = not torch.tensor(1e-310, dtype=torch.float64).mul(0.5).item()
    try:
        with torch.random.fork_rng([]):
            yield
    finally:
        torch.set_flush_denormal(flushes)


def is_checkpoint(path: str | Path) -> bool:
    """Return True if a file starts like a zip archive or a pickle, the formats of `torch.save`."""
    with Path(path).open("rb") as file:
        return file.read(2).startswith((b"PK", b"\x80"))


def require_checkpoints(paths: Sequence[str | Path]) -> None:
    """Raise DataError if a file does not exist or is not a checkpoint (see `is_checkpoint`)."""
    for path in paths:
        require_file(path, "a checkpoint of fairseq-train")
        if not is_checkpoint(path):
            raise DataError(f"{path} is not a checkpoint. Expected a checkpoint of fairseq-train.")


def load_models(
    paths: Sequence[str | Path], task_config: Any = None, **options: Any
) -> tuple[list[Any], Any, Any]:
    """Load models from checkpoints. Return the models, the last checkpoint's config and the task.

    Call `fairseq_ssl.register` first.

    Args:
        paths: checkpoints, one for each model.
        task_config: configuration of the task (default: from the first checkpoint).
        options: values that override stored options, such as `data`, the data folder.
    """
    from fairseq import checkpoint_utils, tasks

    check_registered()
    require_checkpoints(paths)
    names = [str(path) for path in paths]
    listed = ", ".join(names)
    data = options.get("data", getattr(task_config, "data", "their data"))
    try:
        with keep_torch_state():
            task = None if task_config is None else tasks.setup_task(task_config)
            models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(names, options, task)
    except FairseqSslError:
        raise
    except FileNotFoundError as error:
        if not data:
            raise DataError(
                f"{listed} cannot be loaded without a data folder. Set `data_dir` to the folder "
                "with the model's dictionaries. Only word-level edit taggers do not need it."
            ) from error
        raise DataError(
            f"{listed} cannot be loaded with the data folder {data}: {error}. Expected the folder "
            "with the dictionaries of the model."
        ) from error
    except Exception as error:  # fairseq and torch raise many exception types for a damaged file
        _check_architectures(paths)
        raise _loading_error(listed, data or "no data folder", error) from error
    return list(models), cfg, task


def _check_architectures(paths: Sequence[str | Path]) -> None:
    """Raise DataError if a checkpoint's architecture is not registered with fairseq."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    from fairseq_ssl.checkpoints.files import architecture, read_checkpoint

    for path in paths:
        name = architecture(read_checkpoint(path))
        if name not in ARCH_MODEL_REGISTRY:
            raise DataError(
                f"{path} has the architecture {name!r}, which is not registered with fairseq. "
                "Import the module that registers it."
            )


def _loading_error(models: str, data: object, error: Exception) -> DataError:
    """Return the error for models that do not match a data folder or that cannot be built."""
    line = (str(error).strip().splitlines() or [""])[-1].strip(" .")
    if "state_dict" in str(error):  # weights that are missing or of other sizes
        return DataError(
            f"The weights of {models} do not match {data}: {line}. Expected the dictionaries of "
            "the training data."
        )
    return DataError(
        f"fairseq cannot load {models} with {data} ({type(error).__name__}: {line}). Expected the "
        "dictionaries of the training data, or use another checkpoint."
    )
