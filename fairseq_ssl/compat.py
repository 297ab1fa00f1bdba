"""What fairseq leaves undone with today's torch, mended in one place.

Each function changes one thing in fairseq, says why, and does nothing the second time.
"""

from __future__ import annotations

import functools
import os
import pickle
import shutil
from collections.abc import Callable
from typing import Any

from fairseq_ssl.checkpoints.reading import allow_harmless_globals, refusal


def harden_checkpoints() -> None:
    """Let fairseq load its own checkpoints safely, refuse others clearly and copy them whole."""
    from fairseq import checkpoint_utils
    from fairseq.file_io import PathManager

    allow_harmless_globals()
    _replace(checkpoint_utils, "load_checkpoint_to_cpu", _refuse_clearly)
    _replace(PathManager, "copy", _copy_whole, wrap=staticmethod)


def _replace(
    owner: Any,
    name: str,
    around: Callable[[Callable[..., Any]], Callable[..., Any]],
    wrap: Callable[[Any], Any] = lambda function: function,
) -> None:
    """Put `around(stock)` in the place of `owner.name`, unless it stands there already."""
    stock = getattr(owner, name)
    if getattr(stock, "mended_by", None) != __name__:
        mended = functools.wraps(stock)(around(stock))
        mended.mended_by = __name__  # type: ignore[attr-defined]
        setattr(owner, name, wrap(mended))


def _refuse_clearly(stock: Callable[..., Any]) -> Callable[..., Any]:
    """torch's own refusal advises to switch the protection off; ours names the file and why."""

    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return stock(path, *args, **kwargs)
        except pickle.UnpicklingError as error:
            raise refusal(path, error) from None

    return load_checkpoint_to_cpu


def _copy_whole(stock: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq copies into checkpoint_last.pt in place: killed there, it can not be resumed."""

    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if "://" in str(dst_path):
            return stock(src_path, dst_path, overwrite=overwrite)
        aside = f"{dst_path}.tmp"
        shutil.copyfile(src_path, aside)
        os.replace(aside, dst_path)
        return True

    return copy
