"""Patches of fairseq by which a checkpoint cannot run code.

Each is done once, in `protect_fairseq`; see `checkpoints.options` for the rule they enforce.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import torch
from omegaconf.errors import OmegaConfBaseException

from fairseq_ssl.checkpoints.files import load_checkpoint
from fairseq_ssl.checkpoints.options import check_evaluated, remember_data
from fairseq_ssl.checkpoints.safe_eval import evaluate
from fairseq_ssl.checkpoints.safe_pickle import allow_plain_globals
from fairseq_ssl.errors import DataError, FairseqSslError


def protect_fairseq() -> None:
    """Patch fairseq, unless it is patched: evaluation, unpickling, and its commands' errors."""
    import fairseq
    from fairseq import checkpoint_utils, options
    from fairseq.dataclass import utils

    allow_plain_globals()
    if isinstance(checkpoint_utils.torch, _RestrictedTorch):
        return
    checkpoint_utils.torch = _RestrictedTorch()
    checkpoint_utils.load_model_ensemble_and_task = _with_data(
        checkpoint_utils.load_model_ensemble_and_task
    )
    options.parse_args_and_arch = _with_memory(options.parse_args_and_arch)
    utils.override_module_args = _with_check(utils.override_module_args)
    folders = [Path(fairseq.__file__).resolve().parent]
    folders.append(folders[0].with_name("fairseq_cli"))
    _replace_eval(folders)
    sys.excepthook = _with_short_errors(sys.excepthook)


class _RestrictedTorch(ModuleType):
    """torch as `fairseq.checkpoint_utils` sees it: `load_checkpoint` reads plain values only."""

    def __init__(self) -> None:
        super().__init__("torch")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(file: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """Read a checkpoint from an open file, on the CPU, and check its options."""
        return load_checkpoint(file, str(getattr(file, "name", "The checkpoint")))


def _with_data(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Ask for the data folder where a caller leaves it to the checkpoint, whose own is dropped."""

    @functools.wraps(stock)
    def load_model_ensemble_and_task(
        filenames: Any, arg_overrides: Any = None, task: Any = None, *args: Any, **options: Any
    ) -> Any:
        try:
            return stock(filenames, arg_overrides, task, *args, **options)
        except (AttributeError, LookupError, TypeError, OmegaConfBaseException) as error:
            if task is not None or "data" in (arg_overrides or {}):
                raise
            raise DataError(
                f"{', '.join(map(str, filenames))}: pass the data folder, arg_overrides="
                "{'data': FOLDER}. The folder that a checkpoint names is not read."
            ) from error

    return load_model_ensemble_and_task


def _with_memory(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Remember the data folder on a command line.

    fairseq_cli.validate.main, called from Python, takes it from the checkpoint, and so does code
    that loads a model it has just trained.
    """

    @functools.wraps(stock)
    def parse_args_and_arch(*args: Any, **options: Any) -> Any:
        parsed = stock(*args, **options)
        remember_data(parsed[0] if isinstance(parsed, tuple) else parsed)
        return parsed

    return parse_args_and_arch


def _with_check(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Name the option whose string cannot be evaluated, before a model is built from it."""

    @functools.wraps(stock)
    def override_module_args(args: Any) -> Any:
        if args is not None:
            check_evaluated(vars(args))
        return stock(args)

    return override_module_args


def _replace_eval(folders: Sequence[Path]) -> None:
    """Let `eval` be `evaluate` in all modules of these folders, those imported later too.

    A name in a module hides the builtin of that name.
    """
    roots = tuple(f"{folder}/" for folder in folders)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and str(Path(file).resolve()).startswith(roots):
            vars(module).setdefault("eval", evaluate)
    sys.meta_path.insert(0, _EvalFinder(roots))


class _EvalFinder(MetaPathFinder):
    """Finds modules in some folders, and gives them `evaluate` before they are run."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self.roots = roots

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module of these folders; None for every other one."""
        searched = sys.path[:1] if path is None else path  # --user-dir puts its folder first
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


def _with_short_errors(
    stock: Callable[[type[BaseException], BaseException, TracebackType | None], Any],
) -> Callable[[type[BaseException], BaseException, TracebackType | None], Any]:
    """Let fairseq's commands end with a line, not a traceback, where the user can fix it."""

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        program = Path(sys.argv[0] if sys.argv else "")
        is_command = program.name.startswith("fairseq-") or program.parent.name == "fairseq_cli"
        if is_command and isinstance(error, FairseqSslError):
            sys.stderr.write(f"{program.stem}: error: {error}\n")
        else:
            stock(kind, error, trace)

    return excepthook
