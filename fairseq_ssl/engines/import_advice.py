"""What fairseq logs when it is imported that is of no use to who runs a verb."""

from __future__ import annotations

import logging

SPEECH = "fairseq.tasks.text_to_speech"
"""Who logs it: that a package is missing, which no verb needs."""


def hide_import_advice() -> None:
    """Keep it from standing above what a verb says; all else of that logger is shown."""
    logging.getLogger(SPEECH).addFilter(_is_shown)


def _is_shown(record: logging.LogRecord) -> bool:
    return "tensorboardX" not in record.getMessage()
