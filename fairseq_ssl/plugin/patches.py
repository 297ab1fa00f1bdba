"""Patches for fairseq bugs and for recent PyTorch versions."""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import logging
import queue
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import numpy as np

from fairseq_ssl.errors import DataError, FairseqSslError
from fairseq_ssl.plugin.checkpoint_safety import protect_fairseq

logger = logging.getLogger(__name__)


def apply_patches() -> None:
    """Let fairseq load its checkpoints safely, copy them whole and resume from them exactly.

    And let its moving average of tied weights be what it says, and say where it is kept in half
    precision; and let its data sets that ask numpy for a name it no longer has be built. And let
    a run that is done end as done, and the Transformers of 0.12.2 work with the torch of today.
    """
    from fairseq import checkpoint_utils
    from fairseq.data.iterators import BufferedIterator
    from fairseq.data.legacy import BertDictionary, MaskedLMDictionary
    from fairseq.file_io import PathManager
    from fairseq.models.ema.ema import EMA
    from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
    from fairseq.tasks import FairseqTask
    from fairseq.trainer import Trainer

    protect_fairseq()
    _name_long()
    _replace(checkpoint_utils, "load_checkpoint_to_cpu", _load_checkpoint_safely)
    _replace(checkpoint_utils, "save_checkpoint", _save_each_interval)
    _replace(PathManager, "copy", _copy_whole, wrap=staticmethod)
    _replace(FairseqTask, "get_batch_iterator", _batch_well)
    _replace(BufferedIterator, "_create_consumer", _end_reading)
    for dictionary in (MaskedLMDictionary, BertDictionary):
        _replace(dictionary, "__init__", _accept_special_symbols)
    _replace(TransformerEncoderLayerBase, "__init__", _disable_encoder_fastpath)
    _replace(EMA, "__init__", _warn_of_halves)
    _replace(EMA, "_step_internal", _average_once)
    _replace(Trainer, "load_checkpoint", _forget_average)


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


def _name_long() -> None:
    """Give numpy a name that it dropped in 2.x, and that fairseq calls int by.

    Its language models with --sample-break-mode eos need it.
    """
    if not hasattr(np, "compat"):
        setattr(np, "compat", SimpleNamespace(long=int))  # noqa: B010


def _load_checkpoint_safely(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Report a damaged checkpoint in a line, and let a moving average begin where there is none.

    With --store-ema fairseq fails on a checkpoint without an average, such as most that one
    fine-tunes from: it looks for the weights where it has deleted them.
    """

    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        try:
            state = stock(path, *args, **kwargs)
        except (FairseqSslError, OSError):
            raise
        except Exception as error:  # options or a history that are not as fairseq writes them
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(
                f"{path} cannot be read as a checkpoint of fairseq: {type(error).__name__}: "
                f"{reason}"
            ) from error
        if isinstance(state.get("extra_state"), dict) and "model" in state:
            state["extra_state"].setdefault("ema", state["model"])
        return state

    return load_checkpoint_to_cpu


def _save_each_interval(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Save a checkpoint at each interval of updates, also where the update ends an epoch.

    fairseq saves such an update under the name of its epoch only, so that it is lost with
    --no-epoch-checkpoints, and the last n checkpoints are not those of the last n intervals.
    With epoch checkpoints nothing changes.
    """

    def save_checkpoint(cfg: Any, trainer: Any, epoch_itr: Any, val_loss: Any) -> Any:
        interval = cfg.save_interval_updates
        # In this order: where no interval is set, configurations may lack the other option.
        if interval > 0 and not trainer.get_num_updates() % interval and cfg.no_epoch_checkpoints:
            epoch_itr = _WithinEpoch(epoch_itr)
        return stock(cfg, trainer, epoch_itr, val_loss)

    return save_checkpoint


class _WithinEpoch:
    """An iterator over an epoch that does not report the end of the epoch."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)

    def end_of_epoch(self) -> bool:
        """Return False, wherever the iterator is."""
        return False


def _forget_average(stock: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq-train keeps what this returns until it ends, loaded weights with it."""

    def load_checkpoint(*args: Any, **options: Any) -> Any:
        extra_state = stock(*args, **options)
        if extra_state is not None:
            for name in ("ema", "ema_fp32_params"):
                extra_state.pop(name, None)
        return extra_state

    return load_checkpoint


def _copy_whole(stock: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq copies into checkpoint_last.pt in place: killed there, it can not be resumed."""

    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if "://" in str(dst_path):
            return stock(src_path, dst_path, overwrite=overwrite)
        aside = f"{dst_path}.tmp"
        shutil.copyfile(src_path, aside)
        Path(aside).replace(dst_path)
        return True

    return copy


def _disable_encoder_fastpath(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Outside training 0.12.2 fuses encoder layers, which fails on torch 2 where there is a pad.

    Its message is "Mask Type should be defined". And attention of one's own would be gone round.
    """

    def begin(self: Any, *args: Any, **options: Any) -> None:
        stock(self, *args, **options)
        self.can_use_fastpath = False

    return begin


def _warn_of_halves(stock: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq averages weights in their own precision, and half precision loses small steps."""

    def begin(self: Any, model: Any, config: Any, *args: Any, **options: Any) -> None:
        stock(self, model, config, *args, **options)
        if not config.ema_fp32 and any(each.element_size() < 4 for each in model.parameters()):
            logger.warning(
                "--store-ema averages the weights in half precision, as they are, and an update "
                f"moves the average by {1 - config.ema_decay:g} of its way: most of that is lost "
                "in rounding. Give --ema-fp32 too."
            )

    return begin


def _average_once(stock: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq moves a weight that has three names, as tied embeddings, three times an update."""

    def _step_internal(self: Any, new_model: Any, updates: Any = None) -> Any:
        return stock(self, _EachWeightOnce(new_model), updates)

    return _step_internal


class _EachWeightOnce:
    """A model whose tied weights have but their first names."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name; the others of their names load as they are tied."""
        seen = set()
        found = {}
        for name, weight in self.model.state_dict().items():
            if isinstance(weight, dict):
                continue
            place = (weight.data_ptr(), tuple(weight.shape), weight.stride())
            if not weight.numel() or place not in seen:
                found[name] = weight
            seen.add(place)
        return found


def _batch_well(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Let nothing but training lose sentences, and a resumed training keep its batches.

    fairseq after 0.12.2 drops the last batch of a split where it is no multiple of 8, from
    translations and validation too: only a training, which names its epoch, may do with less
    than all. And it forms batches from the seed plus the epoch. Where it does so once and
    shuffles them in later epochs, a resumed run goes on with other batches: there they are
    formed as epoch 1 forms them, so that an unbroken run is as without this change.
    """
    signature = inspect.signature(stock)
    seeds_by_epoch = "seed + epoch" in inspect.getsource(stock)

    def get_batch_iterator(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        is_epoch = "epoch" in call.arguments
        call.apply_defaults()
        given = call.arguments
        if not (is_epoch and _trains_on(given["self"], given["dataset"])):
            given["required_batch_size_multiple"] = 1
        seed = given["seed"]
        if seeds_by_epoch and _forms_batches_once(given):
            given["seed"] = seed + 1 - given["epoch"]
        iterator = stock(*call.args, **call.kwargs)
        iterator.seed = seed
        if not _serves_all_epochs(given):
            iterator.reuse_dataloader = iterator.persistent_workers = False
        return iterator

    return get_batch_iterator


def _end_reading(stock: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq reads batches ahead in threads that go on while Python ends.

    One that is within torch then ends the process with "terminate called without an active
    exception" and an error code, after all was saved: a run that stops amid an epoch fails at
    random.
    """
    readers: WeakSet[Any] = WeakSet()
    atexit.register(_end, readers)

    def _create_consumer(self: Any) -> None:
        stock(self)
        readers.add(self._consumer)

    return _create_consumer


def _end(readers: Iterable[Any], seconds: float = 10) -> None:
    """Let each thread end after the batch that it is at; wait for it, but not for ever."""
    until = time.monotonic() + seconds
    for reader in readers:
        reader._max_len = 0
    for reader in readers:
        while reader.is_alive() and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):  # room for the batch and the end
                reader._queue.get_nowait()
            reader.join(0.01)


def _accept_special_symbols(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Dictionary.load passes an option after 0.12.2 that fairseq's legacy subclasses lack."""

    def begin(self: Any, *args: Any, add_special_symbols: bool = True, **options: Any) -> None:
        if not add_special_symbols:
            options["add_special_symbols"] = False  # stock always adds them: let it raise
        stock(self, *args, **options)

    return begin


def _trains_on(task: Any, dataset: Any) -> bool:
    """Tell whether `dataset` is one of the splits of `task` to train on."""
    return any(
        dataset is split and name.startswith("train") for name, split in task.datasets.items()
    )


def _forms_batches_once(given: dict[str, Any]) -> bool:
    """Tell whether one iterator, with one set of batches, will serve all epochs."""
    return _serves_all_epochs(given) and not getattr(given["self"].cfg, "rebuild_batches", False)


def _serves_all_epochs(given: dict[str, Any]) -> bool:
    """Tell whether fairseq keeps the iterator for later epochs."""
    renewed = given["disable_iterator_cache"] or given["update_epoch_batch_itr"]
    return not renewed and bool(given["self"].can_reuse_epoch_itr(given["dataset"]))
