"""Checkpoint patches: safe loading, clear errors for damaged files, and resumable training runs.

`protect_fairseq` applies the patches for loading, and `patches.apply_patches` applies the others.
The rules are in `fairseq_ssl.checkpoints`: `files` loads a checkpoint, `safe_values` lists the
allowed types, and `stored_options` lists the options that are checked or dropped.
"""

from __future__ import annotations

import functools
import logging
import math
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Any

import torch
from omegaconf.errors import OmegaConfBaseException
from torch.multiprocessing.spawn import ProcessRaisedException

from fairseq_ssl.checkpoints.files import check_finite, load_checkpoint
from fairseq_ssl.checkpoints.safe_values import evaluate
from fairseq_ssl.checkpoints.stored_options import check_evaluated, remember_data
from fairseq_ssl.errors import DataError, FairseqSslError, first_line

logger = logging.getLogger(__name__)

PROGRESS = "fairseq_ssl"
"""Key of the counts that `store_progress` saves in a checkpoint's `extra_state`."""

PATIENCE = ("best", "num_runs")
"""Attributes of `fairseq_cli.train.should_stop_early` that store the state of --patience."""


def protect_fairseq() -> None:
    """Restrict unpickling and `eval` in fairseq, and print user errors without a traceback.

    Further calls have no effect.
    """
    import fairseq
    from fairseq import checkpoint_utils, file_utils, options
    from fairseq.dataclass import utils
    from fairseq.distributed import utils as distributed_utils

    if isinstance(checkpoint_utils.torch, _RestrictedTorch):
        return
    checkpoint_utils.torch = _RestrictedTorch()
    distributed_utils.torch = _PeerTorch()
    file_utils.load_archive_file = _existing_folder
    checkpoint_utils.load_model_ensemble_and_task = _check_loaded_models(
        checkpoint_utils.load_model_ensemble_and_task
    )
    options.parse_args_and_arch = _remember_data_folder(options.parse_args_and_arch)
    utils.override_module_args = _check_module_options(utils.override_module_args)
    folders = [Path(fairseq.__file__).resolve().parent]
    folders.append(folders[0].with_name("fairseq_cli"))
    _replace_eval(folders)
    sys.excepthook = _shorten_user_errors(sys.excepthook)


def _existing_folder(path: str) -> str:
    """Return a path passed to `from_pretrained`. Raise DataError if it is not a folder.

    fairseq would download a URL, and unpack an archive to any path that its members name.
    """
    if not Path(path).is_dir():
        raise DataError(
            f"{path} is not a folder. URLs and archives are not supported. Pass a folder."
        )
    return path


class _TorchWrapper(ModuleType):
    """A wrapper around torch for a fairseq module. Subclasses override `load`."""

    def __init__(self) -> None:
        super().__init__("torch")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


class _RestrictedTorch(_TorchWrapper):
    """A wrapper around torch for `fairseq.checkpoint_utils`. Its `load` rejects unsafe pickles."""

    @staticmethod
    def load(file: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """Load a checkpoint from an open file onto the CPU, and check its tensors and options.

        Other arguments of `torch.load` are ignored.
        """
        return load_checkpoint(file, str(getattr(file, "name", "The checkpoint")))


class _PeerTorch(_TorchWrapper):
    """A wrapper around torch for `fairseq.distributed.utils`. Its `load` accepts any object.

    When several processes resume or fine-tune, the first process loads the checkpoint safely and
    sends it to the others. The sent options are configuration objects, which PyTorch 2.6 and
    later would reject.
    """

    @staticmethod
    def load(message: Any, **options: Any) -> Any:
        """Load an object that another process of the same training run sent."""
        return torch.load(message, **options, weights_only=False)


def copy_atomically(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `PathManager.copy` to copy to a temporary file and rename it.

    fairseq overwrites checkpoint_last.pt in place, so a run killed during the copy could not
    resume. Paths with ``://`` are left to fairseq.
    """

    def copy_path(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if "://" in str(dst_path):
            return stock(src_path, dst_path, overwrite=overwrite)
        temporary = f"{dst_path}.tmp"
        shutil.copyfile(src_path, temporary)
        Path(temporary).replace(dst_path)
        return True

    return copy_path


def store_progress(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `Trainer.save_checkpoint` to store the counts for --patience and --lr-patience.

    fairseq does not save the counts, so a resumed run would stop later and use different learning
    rates. `restore_progress` restores them.
    """

    def save_checkpoint(trainer: Any, filename: str, extra_state: dict[str, Any]) -> Any:
        scheduler = getattr(trainer.lr_scheduler, "lr_scheduler", None)
        progress = {"bad_epochs": getattr(scheduler, "num_bad_epochs", 0)}
        counter = _patience_counter()
        if counter is not None and trainer.cfg.checkpoint.patience > 0:
            progress.update({name: getattr(counter, name, None) for name in PATIENCE})
        return stock(trainer, filename, {**extra_state, PROGRESS: progress})

    return save_checkpoint


def restore_progress(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `load_checkpoint` to restore the counts that `store_progress` saved.

    If a run has already reached the limit of --max-update or --patience, it ends without training.
    fairseq checks both limits only after another update, so starting a finished run again would
    change the weights and replace checkpoint_last.pt.
    """
    from fairseq.trainer import Trainer

    def load_checkpoint(cfg: Any, trainer: Any, **options: Any) -> tuple[Any, Any]:
        extra_state, epoch_itr = stock(cfg, trainer, **options)
        if not isinstance(trainer, Trainer):  # programs may pass a different class
            return extra_state, epoch_itr
        limit, updates = trainer.cfg.optimization.max_update, trainer.get_num_updates()
        state = extra_state if extra_state and updates else {}  # no updates: fine-tuning
        if not cfg.reset_lr_scheduler:
            _restore_plateau(trainer, state)
        runs = _restore_patience({} if cfg.reset_meters else state)
        reason = None
        if 0 < limit <= updates:
            reason = f"{updates} updates, and --max-update is {limit}"
        elif 0 < cfg.patience <= runs:
            reason = f"no better result in {runs} validations, and --patience is {cfg.patience}"
        if reason is not None:
            logger.info(f"nothing to train: {reason}")
            epoch_itr = _NoMoreEpochs()
        return extra_state, epoch_itr

    return load_checkpoint


def _restore_patience(state: dict[str, Any]) -> int:
    """Restore and return the --patience count of validations without improvement (default: 0)."""
    progress, counter = state.get(PROGRESS, {}), _patience_counter()
    runs = int(progress.get("num_runs") or 0)
    if counter is not None:
        vars(counter).update(best=progress.get("best"), num_runs=runs)
    return runs


def _patience_counter() -> Any:
    """Return `should_stop_early`, which stores `PATIENCE`, or None outside of fairseq-train."""
    modules = [sys.modules.get(name) for name in ("__main__", "fairseq_cli.train")]
    functions = (getattr(module, "should_stop_early", None) for module in modules)
    return next((counter for counter in functions if isinstance(counter, FunctionType)), None)


def _restore_plateau(trainer: Any, state: dict[str, Any]) -> None:
    """Restore the state of a reduce_lr_on_plateau scheduler. Do nothing for other schedulers.

    If the last epoch is complete, its scheduler step is repeated, because fairseq saves the
    checkpoint before this step.
    """
    from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

    if not state or not isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule):
        return
    bad_epochs = state.get(PROGRESS, {}).get("bad_epochs", 0)
    trainer.lr_scheduler.lr_scheduler.num_bad_epochs = bad_epochs
    iterator, loss = state["train_iterator"], state.get("val_loss")
    if iterator.get("iterations_in_epoch") == 0 and loss is not None:
        trainer.lr_step(iterator["epoch"] - 1, loss)


class _NoMoreEpochs:
    """The epoch iterator of a finished training run, with which fairseq-train ends immediately."""

    next_epoch_idx = math.nan  # not less than any number of epochs


def report_damage(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `load_checkpoint_to_cpu` to report damaged files and add missing averaged weights.

    With --store-ema, fairseq fails for a checkpoint without averaged weights, because it reads the
    weights after deleting them. For such a checkpoint, the wrapper stores the weights as averaged
    weights. It also copies the task state into `extra_state` for `check_loaded_state`.
    """

    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        try:
            state = stock(path, *args, **kwargs)
        except (FairseqSslError, OSError):
            raise
        except Exception as error:  # malformed options or optimizer history
            kind, reason = type(error).__name__, first_line(error)
            raise DataError(
                f"{path} cannot be read as a fairseq checkpoint: {kind}: {reason}. Use another "
                "checkpoint of the run."
            ) from error
        if isinstance(state.get("extra_state"), dict) and "model" in state:
            state["extra_state"].setdefault("ema", state["model"])
            state["extra_state"]["task_state"] = state.get("task_state")
        return state

    return load_checkpoint_to_cpu


def check_loaded_state(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `Trainer.load_checkpoint` to check the task state and remove the averaged weights.

    fairseq-train ignores the task state, so a model could be resumed or fine-tuned with different
    dictionaries. It also keeps the averaged weights in memory for the whole run. If a model rejects
    the weights, the wrapper raises the model's error instead of fairseq's.
    """

    def load_checkpoint(trainer: Any, filename: str, *args: Any, **options: Any) -> Any:
        try:
            extra_state = stock(trainer, filename, *args, **options)
        except Exception as error:
            cause = error.__context__
            if isinstance(cause, FairseqSslError) and not isinstance(error, FairseqSslError):
                raise cause from None
            raise
        if extra_state is not None:
            for name in ("ema", "ema_fp32_params"):
                extra_state.pop(name, None)
            task_state = extra_state.pop("task_state", None)
            if task_state and hasattr(trainer.task, "check_task_state"):
                trainer.task.check_task_state(task_state, filename)
        return extra_state

    return load_checkpoint


def _check_loaded_models(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `load_model_ensemble_and_task` to report non-finite weights and missing data folders.

    The data folder stored in a checkpoint is not used. If the caller passes no folder, fairseq
    fails with an unclear error, which the wrapper replaces. Resuming does not call this function.
    """

    @functools.wraps(stock)
    def load_model_ensemble_and_task(
        filenames: Any, arg_overrides: Any = None, task: Any = None, *args: Any, **options: Any
    ) -> Any:
        try:
            models, *others = stock(filenames, arg_overrides, task, *args, **options)
        except (AttributeError, LookupError, TypeError, OmegaConfBaseException) as error:
            if task is not None or "data" in (arg_overrides or {}):
                raise
            raise DataError(
                f"{', '.join(map(str, filenames))} cannot be loaded, and no data folder was passed."
                " The checkpoint's own is not used. Pass one with: arg_overrides={'data': FOLDER}"
            ) from error
        for filename, model in zip(filenames, models, strict=True):
            check_finite(model.state_dict(), filename)
        return models, *others

    return load_model_ensemble_and_task


def _remember_data_folder(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `parse_args_and_arch` to record the data folder that the user passes.

    Loading a checkpoint drops its data folder, unless the folder was recorded. Programs that load a
    model after training it, and `fairseq_cli.validate.main` in Python, need the stored folder.
    """

    @functools.wraps(stock)
    def parse_args_and_arch(*args: Any, **options: Any) -> Any:
        parsed = stock(*args, **options)
        remember_data(parsed[0] if isinstance(parsed, tuple) else parsed)
        return parsed

    return parse_args_and_arch


def _check_module_options(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `override_module_args` to check the options that fairseq passes to `eval`."""

    @functools.wraps(stock)
    def override_module_args(args: Any) -> Any:
        if args is not None:
            check_evaluated(vars(args))
        return stock(args)

    return override_module_args


def _replace_eval(folders: Sequence[Path]) -> None:
    """Define `eval` as `evaluate` in all modules in `folders`, including modules imported later.

    In a module, a global name takes precedence over a builtin.
    """
    roots = tuple(f"{folder}/" for folder in folders)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and str(Path(file).resolve()).startswith(roots):
            vars(module).setdefault("eval", evaluate)
    sys.meta_path.insert(0, _EvalFinder(roots))


class _EvalFinder(MetaPathFinder):
    """An import hook that defines `eval` as `evaluate` in modules in the folders `roots`."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self.roots = roots

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module in `roots`, with a loader that defines `eval` in the module.

        For other modules, return None or their unchanged spec.
        """
        searched = sys.path[:1] if path is None else path  # --user-dir prepends its folder
        if not any(self._is_inside(folder) for folder in searched):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or not self._is_inside(str(spec.origin)):
            return spec if path is not None else None
        stock = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(module)["eval"] = evaluate
            stock(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _is_inside(self, path: str) -> bool:
        return f"{Path(path).resolve()}/".startswith(self.roots)


def _shorten_user_errors(
    stock: Callable[[type[BaseException], BaseException, TracebackType | None], Any],
) -> Callable[[type[BaseException], BaseException, TracebackType | None], Any]:
    """Wrap `sys.excepthook` to print user errors of fairseq's commands without a traceback."""

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        program = Path(sys.argv[0] if sys.argv else "")
        is_command = program.name.startswith("fairseq-") or program.parent.name == "fairseq_cli"
        message = _user_error(error)
        if is_command and message is not None:
            sys.stderr.write(f"{program.stem}: error: {message}\n")
        else:
            stock(kind, error, trace)

    return excepthook


def _user_error(error: BaseException) -> str | None:
    """Return the message of a user error, even from a spawned process, or None for other errors."""
    if isinstance(error, FairseqSslError):
        return str(error)
    if isinstance(error, ProcessRaisedException):  # the last line is the message of the process
        kind, _, message = str(error).rstrip().rpartition("\n")[2].partition(": ")
        if kind.startswith(f"{FairseqSslError.__module__}."):
            return message
    return None
