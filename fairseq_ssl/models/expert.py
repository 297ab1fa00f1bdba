"""Experts from the checkpoints they were trained into, whatever their architecture."""

import json
from pathlib import Path
from typing import Any

from fairseq import models
from omegaconf import OmegaConf

from fairseq_ssl.checkpoints.files import model_options, read_checkpoint
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.text_classifier import TextClassifier

STARTS = (
    "classifier_lm",
    "classifier_lm_dict",
    "classifier_bert",
    "classifier_encoder",
    "classifier_encoder_dict",
)
"""Options that tell what a model starts from; its checkpoint does without them."""


def options_of(path: Path) -> str:
    """Return the options of the model in a checkpoint, as JSON."""
    options = model_options(read_checkpoint(path))
    return json.dumps({name: value for name, value in options.items() if name not in STARTS})


def built_expert(options: str, task: Any, origin: str) -> TextClassifier:
    """Make a classifier of such options, at random."""
    cfg = json.loads(options)
    model = models.build_model(OmegaConf.create(cfg), task, from_checkpoint=True)
    if not isinstance(model, TextClassifier):
        raise ConfigurationError(
            f"{origin} holds a {cfg.get('_name')}; expected a classifier, trained with "
            "--classification-stage supervised."
        )
    return model


def loaded_expert(path: Path, task: Any) -> TextClassifier:
    """Return the classifier that a checkpoint holds; its vocabulary must be the task's."""
    expert = built_expert(options_of(path), task, str(path))
    expert.load_state_dict(checked_state(path, task)["model"])
    return expert


def checked_state(path: Path, task: Any) -> dict[str, Any]:
    """Read a checkpoint; refuse one of other vocabularies than the task's."""
    state = read_checkpoint(path)
    task.check_vocabularies(state.get("task_state") or {}, str(path))
    return state
