"""Options of a checkpoint that are safe to write into another one.

fairseq evaluates some option strings as Python, opens others as files and resolves OmegaConf
interpolations. A checkpoint may come from a stranger, so a new checkpoint gets only the options
that its architecture, task and criterion declare, with values of the declared types.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fairseq_ssl import register
from fairseq_ssl.errors import DataError

Options = dict[str, Any]
Actions = dict[str, argparse.Action]

WORD = re.compile(r"\w[\w.,+-]*|")
"""A name, a language or numbers separated by commas; neither a path nor code."""
LITERAL = re.compile(r"(?!.*\*\*)[\d\s.,()\[\]*+-]{0,10000}")
"""Lists and tuples of numbers, such as fconv's ``[(512, 3)] * 20``."""
FILE = re.compile(r"path|file|folder|dir\b|_dir_|data|_lm\b|config|init|dict$")
"""Options that name a file or a folder: no value of them is written."""
LANGUAGES = ("source_lang", "target_lang", "langs", "lang_pairs")
"""The string options of a task that decoding depends on."""


def inference_config(
    arch: str, model: Mapping[str, Any], task: Mapping[str, Any], criterion: Mapping[str, Any]
) -> Options:
    """Return the ``cfg`` of a checkpoint that is only decoded or fine-tuned.

    Options of training, of the machine and of the command line have fairseq's defaults.

    Args:
        arch: name of the architecture
        model: options of the model; those that `arch` does not declare are dropped
        task: options of the task, with its name under ``_name``
        criterion: the same of the criterion

    Raises:
        DataError: if a declared option has a value of another type
    """
    register()
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.tasks import TASK_REGISTRY
    from omegaconf import OmegaConf

    config: Options = OmegaConf.to_container(
        OmegaConf.structured(FairseqConfig), resolve=True, enum_to_str=True
    )
    if arch not in ARCH_MODEL_REGISTRY:
        raise DataError(
            f"The checkpoint holds a model of the architecture {arch!r}, which neither fairseq nor "
            "this package has."
        )
    config["distributed_training"] |= dict.fromkeys(
        ("distributed_world_size", "distributed_num_procs", "nprocs_per_node"), 1
    )
    named = {"_name": arch, "arch": arch}
    config["model"] = _known("model", ARCH_MODEL_REGISTRY[arch], model, _kept_in_model) | named
    name = _registered(TASK_REGISTRY, task.get("_name"), "translation")
    config["task"] = _known("task", TASK_REGISTRY[name], task, _kept_in_task) | {"_name": name}
    name = _registered(CRITERION_REGISTRY, criterion.get("_name"), "cross_entropy")
    declared = CRITERION_REGISTRY[name]
    config["criterion"] = _known("criterion", declared, criterion, _kept_in_task) | {"_name": name}
    return config


def named_values(options: Any) -> Any:
    """Return the dictionary of a Namespace; anything else as it is."""
    return vars(options) if isinstance(options, argparse.Namespace) else options


def _is_in(registry: Mapping[str, Any], name: Any) -> bool:
    return isinstance(name, str) and name in registry


def _registered(registry: Mapping[str, Any], name: Any, default: str) -> str:
    return str(name) if _is_in(registry, name) else default


def _known(
    group: str, declares: Any, options: Mapping[str, Any], is_kept: Callable[[str], bool]
) -> Options:
    """Return the declared options, each checked against its declared type."""
    kept = {}
    for name, action in _actions(declares).items():
        if name not in options:
            continue
        value = _plain(options[name])
        if isinstance(value, str) and not action.choices and not is_kept(name):
            value = action.default
        elif not _is_of(action, value):
            raise DataError(
                f"The option {group}.{name} of the checkpoint is {str(value)[:60]!r}; expected "
                f"{_noun(action)}. Nothing was exported."
            )
        kept[name] = value
    return kept


def _actions(declares: Any) -> Actions:
    """Return the options of an architecture, task or criterion by their names in a checkpoint."""
    parser = argparse.ArgumentParser(add_help=False)
    declares.add_args(parser)
    return {action.dest: action for action in parser._actions}


def _kept_in_model(name: str) -> bool:
    return not FILE.search(name)


def _kept_in_task(name: str) -> bool:
    return name in LANGUAGES


def _is_of(action: argparse.Action, value: Any) -> bool:
    """Return True if a value is one that an option can have."""
    if action.nargs == 0:
        return isinstance(value, bool)
    if value is None:
        return True
    if action.choices is not None:
        return value in action.choices
    if action.type in (int, float):
        if isinstance(value, float):
            return action.type is float or value.is_integer()
        return isinstance(value, int) and not isinstance(value, bool)
    return _is_literal(value)


def _is_literal(value: Any) -> bool:
    if isinstance(value, str):
        return any(shape.fullmatch(value) for shape in (WORD, LITERAL))
    if isinstance(value, list):
        return all(map(_is_literal, value))
    return value is None or isinstance(value, (bool, int, float))


def _noun(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "True or False"
    if action.choices is not None:
        return f"one of {', '.join(map(str, action.choices))}"
    if action.type in (int, float):
        return "a number"
    return "a name, numbers, or a list of them"


def _plain(value: Any) -> Any:
    """Return `value` in built-in types."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
