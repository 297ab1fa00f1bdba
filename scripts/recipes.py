"""Tables in examples/README.md: claims tested on real data, recipes, and results.

The tables combine the papers in scripts/docs/papers.py with examples/RECIPE/results.json. A record
there compares a method with a baseline. If the comparison tests a claim of the paper, the record
has the claim, and `reproduced` is yes, partly or no. Results on toy data or synthetic errors have
`"data": "synthetic"`. All numbers must also be on the recipe's pages, README.md and RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts/docs"))

from papers import PAPERS, Paper  # noqa: E402

PAGE = ROOT / "examples/README.md"
HEADINGS = {"real": "Real data", "synthetic": "Toy data and synthetic errors"}
BEGIN, END = "<!-- made by: python scripts/recipes.py --write -->\n", "<!-- end -->"


@dataclass(frozen=True)
class Result:
    """A method compared with a baseline."""

    setting: str
    metric: str
    baseline: str
    method: str
    ours: tuple[str, str]
    """Our scores of the baseline and of the method."""
    paper: tuple[str, str] = ("-", "-")
    """The paper's scores, if it reports them."""
    paper_setting: str = ""
    """Setting of the paper's scores, if it differs."""
    claim: str = ""
    """Claim of the paper that the comparison tests."""
    reproduced: str = ""
    data: str = "real"


def tables() -> list[str]:
    """Return the tables as Markdown, in the order of the page."""
    return [claims_table(), recipes_table(), results_tables()]


def claims_table() -> str:
    """Return the claims that were tested on real data, with differences of scores."""
    claims = [
        (paper, result)
        for paper in PAPERS
        for result in results_of(paper.key)
        if result.claim and result.data == "real"
    ]
    count = Counter(result.reproduced for _, result in claims)
    head = (
        *("claim", "recipe", "setting", "metric"),
        *("difference, paper", "difference, ours", "reproduced"),
    )
    rows = [
        (
            *(result.claim, link(paper), result.setting, result.metric),
            *(difference(result.paper), difference(result.ours), result.reproduced),
        )
        for paper, result in claims
    ]
    return (
        f"Of {len(claims)} claims tested on real data, {count['yes']} are reproduced, "
        f"{count['partly']} partly, and {count['no']} are not:\n\n{markdown(head, rows)}"
    )


def recipes_table() -> str:
    """Return the recipes with their papers."""
    head = "recipe", "paper", "method", "steps"
    rows = []
    for paper in PAPERS:
        steps = len(list((ROOT / "examples" / paper.key).glob("[1-9]_*.sh")))
        rows.append(
            (f"[{paper.key}]({paper.key}/README.md)", paper.title, paper.brings, str(steps))
        )
    return markdown(head, rows)


def results_tables() -> str:
    """Return all results: those on real data, and those on toy data and synthetic errors."""
    head = (
        *("recipe", "setting", "metric", "baseline", "method", "baseline, ours", "method, ours"),
        *("baseline, paper", "method, paper", "setting of the paper"),
    )
    parts = []
    for data, heading in HEADINGS.items():
        rows = [
            (
                *(link(paper), result.setting, result.metric, result.baseline, result.method),
                *(*result.ours, *result.paper, paper_setting(result)),
            )
            for paper in PAPERS
            for result in results_of(paper.key)
            if result.data == data
        ]
        parts.append(f"### {heading}\n\n{markdown(head, rows)}")
    return "\n".join(parts)


def paper_setting(result: Result) -> str:
    """Return the cell with the setting of the paper's scores."""
    return "-" if "-" in result.paper else result.paper_setting or "the same"


def link(paper: Paper) -> str:
    """Return a link to the results of a recipe."""
    return f"[{paper.key}]({paper.key}/README.md#results)"


def difference(scores: tuple[str, str]) -> str:
    """Return the method's score minus the baseline's, with its sign."""
    baseline, method = map(Decimal, scores)
    return f"{method - baseline:+}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def results_of(recipe: str) -> list[Result]:
    """Return the results of a recipe."""
    path = ROOT / "examples" / recipe / "results.json"
    return [Result(**record) for record in json.loads(path.read_text("utf-8"))]


def page() -> str:
    """Return examples/README.md with new tables between its markers."""
    new = iter(tables())
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}{next(new)}{END}", PAGE.read_text("utf-8"))


def faults() -> Iterator[str]:
    """Yield numbers that are missing from the pages of their recipe, and outdated tables."""
    for paper in PAPERS:
        pages = "".join((ROOT / name).read_text("utf-8") for name in paper.pages)
        for result in results_of(paper.key):
            for number in {*result.ours, *result.paper} - {"-"}:
                if not re.search(rf"(?<![\d.]){number}(?![\d.]*\d)", pages):
                    yield f"{number} is in examples/{paper.key}/results.json, but not on its pages."
    if page() != PAGE.read_text("utf-8"):
        yield "examples/README.md is outdated. Run: python scripts/recipes.py --write"


def main() -> int:
    """Print, write or check the tables. Return 1 if the check fails."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument(
        "--write", action="store_true", help="write the tables to examples/README.md"
    )
    options.add_argument(
        "--check", action="store_true", help="exit with 1 if examples/README.md is outdated"
    )
    args = options.parse_args()
    if args.write:
        PAGE.write_text(page(), "utf-8")
    if args.check:
        found = list(faults())
        print("\n".join(found), file=sys.stderr)
        return int(bool(found))
    print("\n".join(tables()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
