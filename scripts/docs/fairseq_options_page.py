"""The page of the options that the plug-in adds to fairseq's commands."""

from __future__ import annotations

import argparse
import inspect
import logging
import re
from collections.abc import Iterator
from typing import Any

from command_pages import code, escape, table
from papers import markdown_table

import fairseq_ssl
from fairseq_ssl.io.executors import silence_library_warnings

INTRODUCTION = """\
# Options of fairseq-train

The names that `--user-dir "$(fairseq-ssl user-dir)"` adds to `fairseq-train`, `fairseq-generate`,
`fairseq-interactive` and `fairseq-validate`, with their options. The page is generated from the
registered classes. Options that a class inherits from fairseq are not repeated.
"""

METAVARS: dict[Any, str] = {int: "N", float: "X"}
"""Placeholder of an option's values, by type."""
FILES = ("checkpoint", "folder")
"""First words of the help of options that are paths, which are also their placeholders."""
SWITCH = {"True": "on", "False": "off"}
"""Values of options without an argument."""


def page() -> str:
    """Return the tables of all registered names, in Markdown."""
    handlers, level = logging.root.handlers[:], logging.root.level
    silence_library_warnings()
    fairseq_ssl.register()
    logging.root.handlers[:] = handlers  # fairseq logs everything to stderr
    logging.root.setLevel(level)
    from fairseq.models import MODEL_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_REGISTRY

    parts = [INTRODUCTION]
    kinds = {
        ("Tasks", "--task"): TASK_REGISTRY,
        ("Criterions", "--criterion"): REGISTRIES["criterion"]["registry"],
        ("Optimizers", "--optimizer"): REGISTRIES["optimizer"]["registry"],
        ("Models", "--arch"): MODEL_REGISTRY,
    }
    for (title, flag), registry in kinds.items():
        parts.append(f"## {title}")
        for name, cls in sorted(registry.items()):
            if is_own(cls):
                parts += section(name, cls, flag)
    parts.append(f"## By paper\n\n{markdown_table()}")
    return "\n\n".join(parts) + "\n"


def is_own(cls: type) -> bool:
    """Return True for a class of this package."""
    return cls.__module__.startswith("fairseq_ssl.")


def section(name: str, cls: Any, flag: str) -> Iterator[str]:
    """Yield the section of a registered class."""
    yield f"### {name}"
    yield prose(inspect.getdoc(cls) or "")
    if flag == "--arch":
        yield from architectures(name, cls)
    else:
        yield f"Select it with `{flag} {name}`."
    stock = next(base for base in cls.__mro__ if not is_own(base))
    inherited = {option for action in actions_of(stock) for option in action.option_strings}
    actions = [action for action in actions_of(cls) if not inherited & {*action.option_strings}]
    actions = [action for action in actions if action.option_strings and not is_hidden(action)]
    if inherited - {"-h", "--help"}:
        yield f"It also has the options of fairseq's `{stock.__name__}`."
    for action in actions:
        word = (action.help or "").partition(" ")[0]
        name = word if word in FILES else action.option_strings[0].rpartition("-")[2]
        action.metavar = action.metavar or METAVARS.get(action.type, name.upper())
    if actions:
        yield table(actions)


def is_hidden(action: argparse.Action) -> bool:
    """Return True for an option that --help does not show."""
    return action.help == argparse.SUPPRESS


def actions_of(cls: Any) -> list[argparse.Action]:
    """Return the arguments that a class declares, those of its dataclass included."""
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    if hasattr(cls, "add_args"):
        cls.add_args(parser)
    return parser._actions


def architectures(model: str, cls: Any) -> Iterator[str]:
    """Yield a table of the architectures of a model, with the values in which they differ."""
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY

    names = [arch for arch, owner in ARCH_MODEL_NAME_REGISTRY.items() if owner == model]
    config: Any = getattr(cls, "__dataclass", None)
    defaults = vars(config()) if config else {}
    values = {}
    for arch in names:
        args = argparse.Namespace()
        ARCH_CONFIG_REGISTRY[arch](args)  # sets only values that differ from the dataclass
        values[arch] = defaults | vars(args)
    if len(names) < 2:
        yield f"Select it with `--arch {model}`."
        return
    keys = [key for key in values[model] if len({str(values[arch][key]) for arch in names}) > 1]
    stored = config.stored() if hasattr(config, "stored") else ()  # fields that are not options
    names.sort(key=lambda arch: arch != model)
    yield f"Architectures: {', '.join(f'`--arch {arch}`' for arch in names)}."
    yield "The defaults in which they differ:"
    heads = [code(arch.removeprefix(model) if arch != model else arch) for arch in names]
    rows = [f"| option | {' | '.join(heads)} |", "| --- |" + " --- |" * len(names)]
    for key in keys:
        flag = code(key if key in stored else f"--{key.replace('_', '-')}")
        words = [str(values[arch][key]) for arch in names]
        rows.append(f"| {flag} | {' | '.join(escape(SWITCH.get(word, word)) for word in words)} |")
    yield "\n".join(rows)


def prose(docstring: str) -> str:
    """Return a docstring as Markdown."""
    text = re.sub(r"``([^`]+)``", r"`\1`", docstring)
    return "\n\n".join(escape(paragraph) for paragraph in text.split("\n\n"))
