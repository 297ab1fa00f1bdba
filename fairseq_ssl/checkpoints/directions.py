"""One direction of a checkpoint that holds two models of translation."""

from __future__ import annotations

from fairseq_ssl.checkpoints.conversion import exported
from fairseq_ssl.checkpoints.reading import State, architecture, task_options, weights_below
from fairseq_ssl.errors import DataError, UsageError

TASK = "reconstruction_translation"
PREFIX = "models."
CRITERION = {"_name": "cross_entropy", "sentence_avg": True}


def is_two_way(state: State) -> bool:
    """Tell whether a checkpoint holds a model for each direction."""
    return bool(task_options(state)["_name"] == TASK)


def one_direction(state: State, source: str | None, target: str | None) -> State:
    """Return a checkpoint of fairseq's own task `translation` with one of the two models."""
    names = {name.removeprefix(PREFIX).partition(".")[0] for name in state["model"]}
    wanted = f"{source}-{target}"
    if wanted not in names:
        ways = " or ".join("-s {} -t {}".format(*name.split("-")) for name in sorted(names))
        raise UsageError(
            f"The checkpoint holds two models, and none for -s {source} -t {target}. Give {ways}."
        )
    prefix = f"{PREFIX}{wanted}."
    model = weights_below(state, prefix)
    if not state.get("cfg"):
        raise DataError(
            "The checkpoint does not say how it was trained: it has no cfg. Expected what "
            "fairseq-train saved, and not weights alone."
        )
    options = {"_name": "translation", "source_lang": source, "target_lang": target}
    task = {**task_options(state), **options}
    alone = {**state, "model": model, "cfg": {**state["cfg"], "criterion": CRITERION}}
    return exported(alone, architecture(state), task)
