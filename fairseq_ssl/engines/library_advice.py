"""What fairseq and its Hydra say to programmers, of no use to who runs a verb."""

from __future__ import annotations

import logging
import warnings

SPEECH = "fairseq.tasks.text_to_speech"
"""Who logs, when it is imported, that a package is missing which no verb needs."""
DEPRECATED = (
    r"hydra\.experimental\.",
    r"\s*The version_base parameter",
    r"In '.*': Usage of deprecated keyword in package header",
    r"\s*'.*' is validated against ConfigStore",
    r"\s*The strict flag in the compose API",
)
"""What Hydra says of the way in which fairseq calls it."""


def hide_library_advice() -> None:
    """Keep it from standing above what a verb says; all else of these libraries is shown."""
    logging.getLogger(SPEECH).addFilter(_is_shown)
    logging.getLogger("hydra").setLevel(logging.INFO)
    for message in DEPRECATED:
        warnings.filterwarnings("ignore", message, UserWarning)


def _is_shown(record: logging.LogRecord) -> bool:
    return "tensorboardX" not in record.getMessage()
