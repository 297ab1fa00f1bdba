"""Conversion of checkpoints to fairseq's own architectures, and extraction of one direction.

Stock fairseq can load its own architectures, and CTranslate2 can convert its Transformers.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fairseq_ssl.checkpoints.files import (
    State,
    architecture,
    group_options,
    model_options,
    task_options,
    update_count,
    weights_below,
)
from fairseq_ssl.errors import ConfigurationError, DataError, UsageError, flag

OptionValues = dict[str, Any]
Actions = dict[str, argparse.Action]

OPTION_WORD = re.compile(r"\w[\w.,+@-]*|")
"""Pattern of names, language codes and comma-separated numbers. Paths and code do not match."""
LITERAL = re.compile(r"(?!.*\*\*)[\d\s.,()\[\]*+-]{0,10000}")
"""Pattern of lists and tuples of numbers, such as fconv's ``[(512, 3)] * 20``."""
FILE = re.compile(r"path|file|folder|dir\b|_dir_|data|_lm\b|config|init|dict$")
"""Pattern for names of file and folder options, whose values are never exported."""
LANGUAGES = ("source_lang", "target_lang", "langs", "lang_pairs")
"""String options of a task that are needed for decoding."""


def inference_config(
    arch: str, model: Mapping[str, Any], task: Mapping[str, Any], criterion: Mapping[str, Any]
) -> OptionValues:
    """Return the ``cfg`` of a checkpoint for decoding and fine-tuning.

    Options for the training run, the machine and the command line get fairseq's defaults.

    Args:
        arch: name of the architecture.
        model: options of the model. Options that `arch` does not declare are dropped.
        task: options of the task. Its name is in ``_name`` (default: ``translation``).
        criterion: options of the criterion. Its name is in ``_name`` (default: ``cross_entropy``).

    Raises:
        DataError: if `arch` is not registered or a value does not have the declared type.
    """
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.models import (
        ARCH_MODEL_NAME_REGISTRY,
        ARCH_MODEL_REGISTRY,
        MODEL_DATACLASS_REGISTRY,
    )
    from fairseq.tasks import TASK_REGISTRY
    from omegaconf import OmegaConf

    config: OptionValues = OmegaConf.to_container(
        OmegaConf.structured(FairseqConfig), resolve=True, enum_to_str=True
    )
    if arch not in ARCH_MODEL_REGISTRY:
        raise DataError(
            f"The checkpoint's architecture is {arch!r}, which is not registered with fairseq. "
            "Expected an architecture of fairseq or fairseq-ssl."
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
    # fairseq's recurrent models read the name of the criterion from their own options.
    if "criterion" in model and ARCH_MODEL_NAME_REGISTRY[arch] not in MODEL_DATACLASS_REGISTRY:
        config["model"]["criterion"] = name
    return config


def _registered(registry: Mapping[str, Any], name: Any, default: str) -> str:
    return name if isinstance(name, str) and name in registry else default


def _known(
    group: str, declares: Any, options: Mapping[str, Any], is_kept: Callable[[str], bool]
) -> OptionValues:
    """Return the values of the options that a model, task or criterion class declares.

    A string option without choices is reset to its default if `is_kept` returns False for its name.
    Raise DataError if a value does not have the declared type.
    """
    kept = {}
    for name, action in _actions(declares).items():
        if name not in options:
            continue
        value = _plain(options[name])
        if isinstance(value, str) and not action.choices and not is_kept(name):
            value = action.default
        elif not _is_of(action, value):
            raise DataError(
                f"The checkpoint's option {group}.{name} is {str(value)[:60]!r}, which is not a "
                "valid value. Nothing was exported. Use a different checkpoint."
            )
        kept[name] = value
    return kept


def _actions(declares: Any) -> Actions:
    """Return argparse actions for the options of a model, task or criterion class, by name.

    Stored fields that are not options (`models.common.StoredConfig`) also get actions.
    """
    parser = argparse.ArgumentParser(add_help=False)
    declares.add_args(parser)
    config: Any = getattr(declares, "__dataclass", None)
    for name, value in config.stored().items() if hasattr(config, "stored") else ():
        kind = {"action": "store_true"} if value is False else {"type": type(value)}
        parser.add_argument(flag(name), default=value, **kind)
    return {action.dest: action for action in parser._actions}


def _kept_in_model(name: str) -> bool:
    return not FILE.search(name)


def _kept_in_task(name: str) -> bool:
    return name in LANGUAGES


def _is_of(action: argparse.Action, value: Any) -> bool:
    """Return True if an option's value is one of its choices or has its type.

    None is valid unless the option is a flag. A string must match `OPTION_WORD` or `LITERAL`.
    """
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
        return any(shape.fullmatch(value) for shape in (OPTION_WORD, LITERAL))
    if isinstance(value, list):
        return all(map(_is_literal, value))
    return value is None or isinstance(value, (bool, int, float))


def _plain(value: Any) -> Any:
    """Convert numpy scalars to Python numbers, and tuples to lists."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


STOCK_COUNTERPART = {
    "shape_transformer": "transformer",
    "shape_transformer_tiny": "transformer_tiny",
    "shape_transformer_iwslt_de_en": "transformer_iwslt_de_en",
    "shape_transformer_wmt_en_de": "transformer_wmt_en_de",
    "shape_transformer_big": "transformer_vaswani_wmt_en_de_big",
}
"""fairseq architectures with the same outputs in inference, by this package's architecture."""


def to_stock(state: State) -> State:
    """Convert a checkpoint to fairseq's own architecture, task and criterion, with equal outputs.

    Raises:
        ConfigurationError: if the model decodes from right to left.
        DataError: if fairseq has no equivalent architecture, or an option value is invalid.
    """
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    arch, task = _stock_architecture(state), task_options(state)
    criterion = group_options(state, "criterion")
    if task.get("right_to_left"):
        raise ConfigurationError(
            "The checkpoint decodes from right to left. Without the plug-in, its translations "
            "would be reversed. Use the checkpoint itself with the engine fairseq."
        )
    if not _is_stock(TASK_REGISTRY, task):
        task = {**task, "_name": "translation"}
    if not _is_stock(CRITERION_REGISTRY, criterion):
        criterion = {"_name": "cross_entropy"}
    return exported(state, arch, task, criterion)


def _is_stock(registry: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    name = options.get("_name")
    declared = registry.get(name) if isinstance(name, str) else None
    return declared is not None and declared.__module__.startswith("fairseq.")


def exported(
    state: State, arch: str, task: Mapping[str, Any], criterion: Mapping[str, Any]
) -> State:
    """Return an inference checkpoint with the weights of `state` and only declared options.

    The checkpoint consists of tensors and plain values without paths, so `torch.load` accepts it
    with `weights_only`. If `arch` is part of fairseq, stock fairseq can load it with a data folder.

    Args:
        state: checkpoint with the weights and the model options.
        arch: architecture of the new checkpoint.
        task: task options of the new checkpoint.
        criterion: criterion options of the new checkpoint.
    """
    return {
        "args": None,
        "cfg": inference_config(
            arch,
            model_options(state),
            {**task, "data": None},
            criterion,
        ),
        "model": dict(state["model"]),
        "optimizer_history": [_history(state)],
        "task_state": {},
        "extra_state": {
            "train_iterator": {"epoch": 1, "iterations_in_epoch": 0},
            "val_loss": None,
        },
        "last_optimizer_state": None,
    }


def _history(state: State) -> dict[str, Any]:
    """Return a minimal optimizer history. fairseq reads the number of updates from it."""
    return {
        "num_updates": update_count(state),
        "criterion_name": "",
        "optimizer_name": "",
        "lr_scheduler_state": {},
    }


def _stock_architecture(state: State) -> str:
    arch = architecture(state)
    stock = STOCK_COUNTERPART.get(arch, arch)
    if not stock.startswith("transformer") or stock.startswith("transformer_lm"):
        raise DataError(
            f"A checkpoint of the architecture {arch!r} cannot be exported to fairseq or "
            f"CTranslate2. Expected one of {', '.join(STOCK_COUNTERPART)}, or fairseq's "
            "transformer or transformer_* for translation."
        )
    _check_positions(model_options(state))
    return stock


def _check_positions(options: dict[str, Any]) -> None:
    """Raise DataError for positions that fairseq's own Transformer does not support."""
    if options.get("shape_positions") == "relative":
        raise DataError(
            "A checkpoint with relative positions cannot be exported: fairseq's own Transformer "
            "does not support them. Use the checkpoint itself with the engine fairseq."
        )
    if options.get("shape_eval_offset"):
        raise DataError(
            f"The checkpoint has the option shape_eval_offset={options['shape_eval_offset']} and "
            "cannot be exported: the first position of fairseq's own Transformer is always 0. Use "
            "the checkpoint itself with the engine fairseq."
        )


DIRECTION_PREFIX = "models."
TWO_WAY_CRITERION = {"_name": "cross_entropy", "sentence_avg": True}


def is_two_way(state: State) -> bool:
    """Return True if a checkpoint contains one model per translation direction."""
    names = state["model"]
    return bool(names) and all(name.startswith(DIRECTION_PREFIX) for name in names)


def one_direction(state: State, source: str | None, target: str | None) -> State:
    """Return a checkpoint of fairseq's translation task with the model of one direction.

    Raise UsageError if the checkpoint does not contain the direction from `source` to `target`.
    Raise DataError if the checkpoint contains no options.
    """
    names = {name.removeprefix(DIRECTION_PREFIX).partition(".")[0] for name in state["model"]}
    direction = f"{source}-{target}"
    if direction not in names:
        lacks = f"no direction {direction}" if source and target else "several directions"
        raise UsageError(
            f"The checkpoint contains {lacks}. Set `source_lang` and `target_lang` to the "
            f"languages of one direction: {' or '.join(sorted(names))}."
        )
    prefix = f"{DIRECTION_PREFIX}{direction}."
    model = weights_below(state, prefix)
    if not state.get("cfg"):
        raise DataError(
            "The checkpoint contains weights but no options (cfg). Expected a checkpoint of "
            "fairseq-train."
        )
    options = {"_name": "translation", "source_lang": source, "target_lang": target}
    task = {**task_options(state), **options}
    return exported({**state, "model": model}, architecture(state), task, TWO_WAY_CRITERION)
