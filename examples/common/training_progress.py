"""Print one line about a training run: epoch, update, best validation score and remaining time.

Recipes print it from time to time while fairseq-train writes to a log (`quietly` in recipe.sh).
Arguments: the log, the folder to which the name of the training run is relative, and the time when
the training run was started or resumed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

MESSAGE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \| INFO \| (\S+) \| (.*)")


@dataclass
class TrainingRun:
    """State of the last process of fairseq-train that wrote to a log."""

    config: str
    """All options, as fairseq-train logs them."""
    best: float | None
    """Best validation score, including those of earlier processes that this process resumes."""
    loaded: datetime
    """Time when the process logged its options."""
    epoch: int = 0
    epochs: float = 0.0
    """Number of complete epochs, and the fraction of the current one."""
    updates: int = 0
    start: tuple[datetime, int] | None = None
    """Time and number of updates when this process began to train."""
    last: datetime | None = None
    """Time of the last line with a number of updates."""

    def option(self, name: str) -> str:
        """Return the value of an option of fairseq-train."""
        found = re.search(rf"'{name}': (?:'([^']*)'|([^,}}]+))", self.config)
        return (found[1] or found[2]) if found else ""

    def read(self, time: datetime, logger: str, message: str) -> None:
        """Read the next message of the log."""
        if "No existing checkpoint found" in message:
            self.best = None
        elif found := re.search(r"Loaded checkpoint .* @ (\d+) updates", message):
            self.updates = int(found[1])
        elif found := re.match(r"begin training epoch (\d+)", message):
            self.epoch = int(found[1])
            self.start = self.start or (time, self.updates)
        elif logger in ("train", "train_inner"):
            self._read_statistics(message)
            self.last = time
        elif logger == self.option("valid_subset").split(",")[0]:
            self._read_scores(message)

    def _read_statistics(self, message: str) -> None:
        if found := re.search(r"num_updates\W+(\d+)", message):
            self.updates = int(found[1])
        self.epochs = self.epoch
        if found := re.match(r"epoch \d+:\s+(\d+) / (\d+)", message):
            self.epochs += int(found[1]) / int(found[2]) - 1

    def _read_scores(self, message: str) -> None:
        metric = re.escape(self.option("best_checkpoint_metric"))
        scores = [float(score) for score in re.findall(rf" (?:best_)?{metric} (\S+)", message)]
        better = max if self.option("maximize_best_checkpoint_metric") == "True" else min
        if self.best is not None:
            scores.append(self.best)
        self.best = better(scores, default=None)

    @property
    def max_update(self) -> int:
        """Number of updates after which the training run ends, 0 for no limit."""
        return int(self.option("max_update") or 0)

    @property
    def max_epoch(self) -> int:
        """Number of epochs after which the training run ends, 0 for no limit."""
        return int(self.option("max_epoch") or 0)

    def last_update(self) -> int:
        """Estimate the number of updates of the complete training run, 0 if it has no end."""
        limits = [self.max_update] if self.max_update else []
        if self.max_epoch and self.epochs:
            limits.append(round(self.updates * self.max_epoch / self.epochs))
        return min(limits, default=0)

    def remaining(self, now: datetime) -> timedelta | None:
        """Estimate the remaining time from the updates of this process, if it has made some."""
        end = self.last_update()
        if not (self.start and self.last and end) or self.updates <= self.start[1]:
            return None
        per_update = (self.last - self.start[0]) / (self.updates - self.start[1])
        return max(self.last + per_update * (end - self.updates) - now, timedelta())


def read_log(lines: Iterable[str]) -> TrainingRun | None:
    """Return the training run of the last process that wrote to a log, if it has begun."""
    run = None
    for line in lines:
        if (parts := MESSAGE.match(line)) is None:
            continue
        time, logger, message = datetime.fromisoformat(parts[1]), parts[2], parts[3]
        if logger == "fairseq_cli.train" and message.startswith("{"):
            run = TrainingRun(message, run.best if run else None, time)
        elif run is not None:
            run.read(time, logger, message)
    return run


def progress_line(run: TrainingRun, work: Path, log: Path, now: datetime) -> str:
    """Describe a training run in one line."""
    folder = Path(run.option("save_dir"))
    name = folder.relative_to(work) if folder.is_relative_to(work) else folder
    words = [f"epoch {run.epoch}", f"update {run.updates:,}"]
    if not run.epoch:
        words = ["loading data"]
    elif end := run.last_update():
        words[1] += f" of {'' if end == run.max_update else 'about '}{end:,}"
    if run.epoch and run.max_epoch:
        words[0] += f" of {run.max_epoch}"
    if run.best is not None:
        metric, subset = run.option("best_checkpoint_metric"), run.option("valid_subset")
        words.append(f"best {subset.split(',')[0]} {metric} {run.best:g}")
    if (remaining := run.remaining(now)) is not None:
        words.append(f"ends in {duration(remaining)}")
    return f"{name}: {', '.join(words)} (log: {log})"


def duration(time: timedelta) -> str:
    """Format a duration in days, hours and minutes."""
    hours, minutes = divmod(round(time.total_seconds() / 60), 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes or 1} min"


def main(log: Path, work: Path, start: datetime) -> None:
    """Print the line, or nothing if the process started then has not logged its options yet."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        run = read_log(lines)
    if run is not None and run.loaded >= start:
        print(progress_line(run, work, log, datetime.now()), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), datetime.fromisoformat(sys.argv[3]))
