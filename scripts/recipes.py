"""Tables of recipes in examples/README.md: results in the paper and ours, on real data first.

The rows combine the papers in scripts/docs/papers.py with examples/RECIPE/results.json, where
results on toy data or synthetic errors have `"data": "synthetic"`. Each of our numbers must also be
on the pages of its recipe, README.md and RESULTS.md, with its command.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts/docs"))

from papers import PAPERS  # noqa: E402

PAGE = ROOT / "examples/README.md"
HEADINGS = {"real": "Real data", "synthetic": "Toy data and synthetic errors"}
BEGIN, END = "<!-- made by: python scripts/recipes.py --write -->\n", "<!-- end -->"


def table() -> str:
    """Return the tables as Markdown."""
    return "".join(
        f"### {heading}\n\n" + "".join(f"{row}\n" for row in rows(data)) + "\n"
        for data, heading in HEADINGS.items()
    )


def rows(data: str) -> Iterator[str]:
    """Yield the rows of the table of a kind of data."""
    yield "| paper | recipe | setting and metric | paper | ours |"
    yield "| --- | --- | --- | --- | --- |"
    for paper in PAPERS:
        steps = sorted((ROOT / "examples" / paper.key).glob("[1-9]_*.sh"))
        recipe = f"[`{paper.key}/`]({paper.key}/README.md#results), {len(steps)} steps"
        results = [one for one in results_of(paper.key) if one.get("data", "real") == data]
        for number, found in enumerate(results):
            first = [paper.title, recipe] if number == 0 else ["", ""]
            yield f"| {' | '.join([*first, found['what'], found['paper'], found['ours']])} |"


def results_of(recipe: str) -> list[dict[str, str]]:
    """Return the results of a recipe: description, the paper's number, ours, and the data."""
    path = ROOT / "examples" / recipe / "results.json"
    found: list[dict[str, str]] = json.loads(path.read_text("utf-8")) if path.exists() else []
    return found


def faults() -> Iterator[str]:
    """Yield numbers that are missing from the pages of their recipe, and an outdated table."""
    for paper in PAPERS:
        pages = "".join((ROOT / page).read_text("utf-8") for page in paper.pages)
        for found in results_of(paper.key):
            for number in re.findall(r"\d+\.\d+", found["ours"]):
                if number not in pages:
                    yield f"examples/{paper.key}/results.json has {number}. Its pages do not."
    if table() not in PAGE.read_text("utf-8"):
        yield "examples/README.md is outdated. Run: python scripts/recipes.py --write"


def main() -> int:
    """Print, write or check the table. Return 1 if the check fails."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument(
        "--write", action="store_true", help="write the table to examples/README.md"
    )
    options.add_argument(
        "--check", action="store_true", help="exit with 1 if examples/README.md is outdated"
    )
    args = options.parse_args()
    if args.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], "utf-8")
    if args.check:
        found = list(faults())
        print("\n".join(found), file=sys.stderr)
        return int(bool(found))
    print(table(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
