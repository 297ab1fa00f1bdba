"""Print a table of character error rates, mean and standard deviation over seeds, as Markdown."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

from fairseq_ssl.metrics.metric import cell

BYTENET = {
    **{("64", "0", "0"): 0.4195, ("128", "0", "0"): 0.2914, ("256", "0", "0"): 0.1634},
    **{("64", "512", "0.01"): 0.4188, ("64", "512", "0.1"): 0.3689, ("64", "512", "0.2"): 0.3562},
    **{("64", "1024", "0.01"): 0.4102, ("64", "1024", "0.1"): 0.3736},
    **{("64", "1024", "0.2"): 0.3481, ("128", "512", "0.01"): 0.2683},
    **{("128", "512", "0.1"): 0.2375, ("128", "512", "0.2"): 0.2086},
    **{("128", "1024", "0.01"): 0.2545, ("128", "1024", "0.1"): 0.2235},
    **{("128", "1024", "0.2"): 0.2071, ("256", "512", "0.01"): 0.1420},
    **{("256", "512", "0.1"): 0.1030, ("256", "512", "0.2"): 0.0959},
    **{("256", "1024", "0.01"): 0.1338, ("256", "1024", "0.1"): 0.1038},
    **{("256", "1024", "0.2"): 0.0949},
}
"""Author's results by labeled, unlabeled and lambda: 5 runs each, on `final`."""

ATTENTION = {"64": 0.5552, "128": 0.5102, "256": 0.3318}
"""Author's recurrent model with attention, by labeled: one run each, on `test` of seed 1."""

Setting = tuple[str, str, str, str]
"""Architecture, number of labeled pairs, number of unlabeled strings, lambda."""


def collect(runs: Path, name: str) -> dict[Setting, list[float]]:
    """Read RUNS/ARCH-LABELED-UNLABELED-LAMBDA-SEED/NAME.json."""
    found: dict[Setting, list[float]] = defaultdict(list)
    for path in sorted(runs.glob(f"*/{name}.json")):
        arch, labeled, unlabeled, weight, _ = path.parent.name.rsplit("-", 4)
        score = json.loads(path.read_text(encoding="utf-8"))["misclassification"]
        found[arch, labeled, unlabeled, weight].append(score)
    return found


def published(setting: Setting) -> str:
    """Return the author's result of the same model, if available."""
    arch, labeled, unlabeled, weight = setting
    found = None
    if arch == "bytenet_digits":
        found = BYTENET.get((labeled, unlabeled, weight))
    elif arch.startswith("lstm") and unlabeled == "0":
        found = ATTENTION.get(labeled)
    return "" if found is None else f"{found:.4f}"


def main() -> None:
    """Print a row for each setting with a score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("runs", type=Path, help="folder of the runs, WORK/runs/digits")
    parser.add_argument("--sets", nargs="+", required=True)
    args = parser.parse_args()
    scores = {name: collect(args.runs, name) for name in args.sets}
    settings = {setting for found in scores.values() for setting in found}
    heads = ["model", "labeled", "unlabeled", "lambda", "the author's", *args.sets]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for setting in sorted(settings, key=lambda one: (one[0], *map(float, one[1:]))):
        shown = [cell(scores[name].get(setting, []), 3) for name in args.sets]
        print(f"| {' | '.join([*setting, published(setting), *shown])} |")
    print("\ncharacter error rate, mean ± sample standard deviation (seeds)")
    print("author's results: ByteNet, 5 runs on final; attention, one run on test of seed 1")


if __name__ == "__main__":
    main()
