"""Every name and option is in fairseq's parsers, which silently drop clashing options."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from papers import PAPERS

import fairseq_ssl

fairseq_ssl.register()
from fairseq import options  # noqa: E402
from fairseq.criterions import CRITERION_REGISTRY  # noqa: E402
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY  # noqa: E402
from fairseq.optim import OPTIMIZER_REGISTRY  # noqa: E402
from fairseq.tasks import TASK_REGISTRY  # noqa: E402

from fairseq_ssl.checkpoints.stored_options import REMOVED, UNUSED  # noqa: E402
from fairseq_ssl.edits.decoding import CorrectionSearch  # noqa: E402
from fairseq_ssl.errors import ConfigurationError, flag  # noqa: E402
from fairseq_ssl.models.bytenet import ByteNetConfig  # noqa: E402
from fairseq_ssl.models.pointer_transformer import PointerOptions  # noqa: E402
from fairseq_ssl.models.shape_transformer import ShapeOptions  # noqa: E402
from fairseq_ssl.options import options_of  # noqa: E402
from tests.plugin.runs import parsed  # noqa: E402
from tests.unit.test_options import wrong_values  # noqa: E402

ARCHS = [arch for paper in PAPERS for arch in paper.archs]
TASKS = ["translation", *(task for paper in PAPERS for task in paper.tasks)]
CRITERIONS = [
    "label_smoothed_cross_entropy",
    *(criterion for paper in PAPERS for criterion in paper.criterions),
]
PAIRS = {
    *((task, arch, CRITERIONS[0]) for task in TASKS for arch in ARCHS),
    *((task, ARCHS[0], criterion) for task in TASKS for criterion in CRITERIONS),
    *((TASKS[0], arch, criterion) for arch in ARCHS for criterion in CRITERIONS),
}
"""Each pair of a task, an architecture and a criterion, since two can have clashing options."""

OPTIONS = {"shape_transformer": ShapeOptions, "pointer_transformer": PointerOptions}
"""Options of models without a dataclass of fairseq."""
SEARCH = {f"edit_{name}" for name in options_of(CorrectionSearch)}
"""Options of edit_labeling that `CorrectionSearch` checks when the generator is built."""


def registered() -> Iterator[tuple[str, Any, str]]:
    """Yield name, class and building method of our models, tasks and criterions."""
    for registry, method in (
        (MODEL_REGISTRY, "build_model"),
        (TASK_REGISTRY, "setup_task"),
        (CRITERION_REGISTRY, "build_criterion"),
    ):
        for name, cls in registry.items():
            if cls.__module__.startswith("fairseq_ssl."):
                yield name, cls, method


def declared_options(name: str, cls: Any) -> dict[str, Any]:
    """Return the options of a class that are declared with `option`, by name."""
    return options_of(OPTIONS.get(name) or getattr(cls, "__dataclass"))


WRONG = [
    pytest.param(getattr(cls, method), option, value, id=f"{name} {flag(option)} {value}")
    for name, cls, method in registered()
    for option, declared in declared_options(name, cls).items()
    for value in (
        *wrong_values(declared),
        *([math.nan] if declared.type is float else []),
        *([math.inf] if declared.type is float and wrong_values(declared) else []),
        *([0.5, None] if declared.type is int else []),
    )
]


def own_options(owner: Any) -> dict[str, str]:
    """Return the help texts of the options of a class that its base in fairseq lacks."""
    (base, *_) = [each for each in owner.__mro__ if each.__module__.startswith("fairseq.")]
    helps = []
    for each in (owner, base):
        parser = argparse.ArgumentParser()
        each.add_args(parser)
        helps.append({action.dest: str(action.help) for action in parser._actions})
    return {name: text for name, text in helps[0].items() if name not in helps[1]}


@pytest.mark.parametrize(("task", "arch", "criterion"), sorted(PAIRS))
def test_own_options_of_each_pair_are_in_the_parser(task: str, arch: str, criterion: str) -> None:
    parser = options.get_training_parser(task)
    words = ["data-bin", "--task", task, "--arch", arch, "--criterion", criterion]
    options.parse_args_and_arch(parser, words)
    shown = {action.dest: action.help for action in parser._actions}
    owners = (TASK_REGISTRY[task], ARCH_MODEL_REGISTRY[arch], CRITERION_REGISTRY[criterion])
    for owner in owners:
        if owner.__module__.startswith("fairseq_ssl."):
            assert own_options(owner).items() <= shown.items()


def test_fields_without_a_help_text_are_stored_but_are_no_options() -> None:
    config = parsed("data-bin", "--arch", "bytenet_v2").model
    assert (config.bytenet_sets, config.bytenet_encoder_kernel) == (6, 3)
    assert set(ByteNetConfig.stored()) <= set(config)
    parser = argparse.ArgumentParser()
    ARCH_MODEL_REGISTRY["bytenet_v2"].add_args(parser)
    names = {action.dest for action in parser._actions}
    assert "bytenet_sets" in names
    assert not set(ByteNetConfig.stored()) & names


@pytest.mark.parametrize(("build", "option", "value"), WRONG)
def test_wrong_values_are_rejected(build: Any, option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{flag(option)} is "):
        build(argparse.Namespace(**{option: value}), None)


def test_papers_name_everything_that_is_registered() -> None:
    registries = ARCH_MODEL_REGISTRY, TASK_REGISTRY, CRITERION_REGISTRY, OPTIMIZER_REGISTRY
    named = {name for paper in PAPERS for name in paper.registered}
    for registry in registries:
        own = {n for n, cls in registry.items() if cls.__module__.startswith("fairseq_ssl.")}
        assert own, "the registry contains our classes"
        assert own <= named


def test_no_option_has_the_name_of_a_removed_option() -> None:
    """The values of such an option would be deleted from checkpoints."""
    configs = [OPTIONS.get(name) or getattr(cls, "__dataclass") for name, cls, _ in registered()]
    names = {field.name for config in configs for field in fields(config)}
    assert len(names) > 50
    assert not names & {*REMOVED, *UNUSED}


@pytest.mark.parametrize(("name", "cls"), [row[:2] for row in registered()])
def test_own_options_are_declared(name: str, cls: Any) -> None:
    assert own_options(cls).keys() - SEARCH <= declared_options(name, cls).keys()
