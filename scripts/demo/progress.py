"""One progress bar over the trainings that write the given fairseq logs; ends on SIGTERM."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import threading
from pathlib import Path

from tqdm import tqdm

UPDATES = re.compile(rb"num_updates=(\d+)")
LOSS = re.compile(rb"train_inner .*? loss=([\d.]+)")


def last_match(pattern: re.Pattern[bytes], log: Path) -> str:
    """Return what the last match in a log caught, or an empty string."""
    found = pattern.findall(log.read_bytes()) if log.exists() else []
    return found[-1].decode() if found else ""


def state(logs: list[Path]) -> tuple[int, dict[str, str]]:
    """Return the mean number of updates so far, and each training's loss."""
    updates = [int(last_match(UPDATES, log) or 0) for log in logs]
    return sum(updates) // len(updates), {log.stem: last_match(LOSS, log) or "-" for log in logs}


def watch_as_bar(logs: list[Path], total: int, stop: threading.Event) -> None:
    """Show a bar on a terminal, moved once a second."""
    with tqdm(total=total, unit="update", desc="training") as bar:
        ended = False
        while not ended:
            ended = stop.wait(1)
            updates, losses = state(logs)
            bar.set_postfix(losses, refresh=False)
            bar.update(updates - bar.n)


def watch_as_lines(logs: list[Path], total: int, stop: threading.Event) -> None:
    """Print a line every 30 s where there is no terminal, and one at the end."""
    ended = False
    while not ended:
        ended = stop.wait(30)
        updates, losses = state(logs)
        shown = ", ".join(f"{name} {loss}" for name, loss in losses.items())
        print(f"training: {updates} of {total} updates, loss {shown}", file=sys.stderr, flush=True)


def main() -> None:
    """Watch the logs until told to stop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--updates", type=int, required=True, help="of each training")
    args = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    watch = watch_as_bar if sys.stderr.isatty() else watch_as_lines
    watch(args.logs, args.updates, stop)


if __name__ == "__main__":
    main()
