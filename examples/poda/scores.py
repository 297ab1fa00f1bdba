"""Print a table of all scores, mean and standard deviation over seeds, as Markdown."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

from fairseq_ssl.metrics.metric import cell

Scores = dict[tuple[str, str, str, str], dict[str, list[float]]]
"""Scores by seed (or all, for the ensemble), by task, set, amount and model."""
SHOWN = ("F_0.5", "GLEU", "ROUGE-1", "ROUGE-2", "ROUGE-L", "ROUGE-Lsum")
ORDER = ("uncorrected", "untuned", "scratch", "decoder_only", "encoder_only", "after", "pretrained")


def collect(runs: Path) -> tuple[Scores, set[str]]:
    """Read RUNS/TASK.AMOUNT.KIND.SEED/SET.json."""
    scores: Scores = defaultdict(dict)
    signatures = set()
    for path in sorted(runs.glob("*.*.*.*/*.json")):
        found = json.loads(path.read_text("utf-8"))
        if "signature" not in found:
            continue
        task, amount, kind, seed = path.parent.name.split(".")
        kind += ", ensemble" if seed == "all" else ""
        values = [found[name] for name in SHOWN if name in found]
        scores[task, path.stem, amount, kind][seed] = values
        signatures.add(f"{task} {path.stem}: {found['signature']}")
    return scores, signatures


def pretraining_updates(kind: str) -> int | None:
    """Return N of the kind afterN, and 0 for scratch."""
    after = kind.removeprefix("after")
    return int(after) if after.isdigit() else {"scratch": 0}.get(kind)


def order(row: tuple[str, str, str, str]) -> tuple[str, str, float, int, int, str]:
    """Return a sort key: by number of pairs, then by result in the paper."""
    task, part, amount, kind = row
    pairs = float("inf") if amount == "all" else float(amount)
    name = kind.partition(",")[0]
    updates = pretraining_updates(name) or 0
    return task, part, pairs, ORDER.index("after" if updates else name), updates, kind


def main() -> None:
    """Print a row for each task, set, amount and kind of model, and the signatures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, help="folder of the runs, WORK/runs")
    scores, signatures = collect(parser.parse_args().runs)
    print("| task | set | pairs | model | score |\n| --- | --- | --- | --- | --- |")
    for row in sorted(scores, key=order):
        columns = zip(*scores[row].values(), strict=True)
        print(f"| {' | '.join(row)} | {' / '.join(map(cell, columns))} |")
    print("\nmean ± sample standard deviation (seeds)")
    for signature in sorted(signatures):
        print(signature)


if __name__ == "__main__":
    main()
