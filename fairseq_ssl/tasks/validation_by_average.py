"""Validation with the moving average of the weights that fairseq keeps."""

from typing import Any


class ValidationByAverage:
    """With --store-ema a task of this kind validates, and so chooses, the averaged weights.

    fairseq by itself only stores them. To be put before fairseq's task among the base classes.
    """

    uses_ema = True
    """Tells fairseq's trainer to hand the averaged model on."""

    def train_step(self, *args: Any, ema_model: Any = None, **options: Any) -> Any:
        """Train as ever."""
        return super().train_step(*args, **options)  # type: ignore[misc]

    def valid_step(
        self, sample: Any, model: Any, criterion: Any, ema_model: Any = None, **options: Any
    ) -> Any:
        """Validate the averaged model where there is one."""
        chosen = model if ema_model is None else ema_model
        return super().valid_step(sample, chosen, criterion, **options)  # type: ignore[misc]
