"""What a classifier asks of the task it is built for."""

from typing import Any

from fairseq_ssl.errors import ConfigurationError

TASK = "semi_supervised_classification"


def require_task(task: Any, arch: str) -> None:
    """Refuse a task without classes."""
    if getattr(task, "classes", None) is None:
        raise ConfigurationError(f"A model {arch} classifies texts. Use it with --task {TASK}.")
