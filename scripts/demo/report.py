"""Turn the demo's decoded test sets and conversations into a table and a page."""

from __future__ import annotations

import argparse
import base64
import html
import io
import re
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl import __version__

COLOURS = {"absolute": "#b04a2f", "shifted": "#2f6db0"}


@dataclass(frozen=True)
class Decoded:
    """What one model made of the test set, and of what a person typed."""

    name: str
    right: dict[int, float]
    """Share of lines without any mistake, by how many numbers the line holds."""
    conversation: list[tuple[str, str]]


def read_decoded(folder: Path) -> Decoded:
    """Read the outputs of fairseq-generate and fairseq-interactive in `folder`."""
    text = (folder / "generate.txt").read_text(encoding="utf-8")
    references = dict(re.findall(r"^T-(\d+)\t(.*)$", text, re.M))
    answers = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", text, re.M))
    outcomes: dict[int, list[bool]] = {}
    for line, reference in references.items():
        length = len(reference.split())
        outcomes.setdefault(length, []).append(answers.get(line) == reference)
    right = {length: sum(hits) / len(hits) for length, hits in sorted(outcomes.items())}
    typed = (folder / "interactive.txt").read_text(encoding="utf-8")
    asked = re.findall(r"^S-\d+\t(.*)$", typed, re.M)
    answered = re.findall(r"^H-\d+\t\S+\t(.*)$", typed, re.M)
    return Decoded(folder.name, right, list(zip(asked, answered, strict=True)))


def bands(trained: int, longest: int) -> list[tuple[str, range]]:
    """Group lengths for the table: those trained on, then in steps beyond."""
    step = max(1, trained // 4)
    groups = [(f"1 to {trained} (trained on)", range(1, trained + 1))]
    for first in range(trained + 1, longest + 1, step):
        end = min(first + step - 1, longest)
        title = f"{first} to {end}" if end > first else f"{first}"
        groups.append((title, range(first, end + 1)))
    return groups


def table(models: list[Decoded], trained: int) -> list[list[str]]:
    """Return the rows of the table, its head first."""
    longest = max(max(model.right) for model in models)
    rows = [["numbers in the line", *(model.name for model in models)]]
    for title, lengths in bands(trained, longest):
        shares = []
        for model in models:
            known = [model.right[length] for length in lengths if length in model.right]
            shares.append(f"{100 * sum(known) / len(known):.0f} %" if known else "-")
        rows.append([title, *shares])
    return rows


def as_text(rows: list[list[str]]) -> str:
    """Align the table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def figure(models: list[Decoded], trained: int) -> str:
    """Draw accuracy against length and return it as the text of an <img>."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plot, axes = plt.subplots(figsize=(7.5, 3.8), dpi=130)
    axes.axvspan(0.5, trained + 0.5, color="#00000012", lw=0)
    axes.text(trained / 2 + 0.5, 4, "trained on", ha="center", color="#555555")
    for model in models:
        shares = [100 * share for share in model.right.values()]
        colour = COLOURS.get(model.name)
        axes.plot(list(model.right), shares, "o-", ms=4, color=colour, label=model.name)
    axes.set_xlabel("numbers in the line")
    axes.set_ylabel("lines without a mistake, %")
    axes.set_xlim(0.5, max(max(model.right) for model in models) + 0.5)
    axes.set_ylim(0, 104)
    axes.grid(axis="y", color="#dddddd", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title="positions")
    plot.tight_layout()
    picture = io.BytesIO()
    plot.savefig(picture, format="png")
    plt.close(plot)
    return base64.b64encode(picture.getvalue()).decode()


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
       color: #222 }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .9rem; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child { text-align: left }
pre { background: #f5f5f5; padding: .8rem 1rem; overflow-x: auto; font-size: 13px }
img { max-width: 100% }
"""


def page(models: list[Decoded], trained: int, settings: str) -> str:
    """Return the whole report, which needs no other file."""
    head, *rows = table(models, trained)
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    talks = "".join(
        f"<h3>{model.name} positions</h3><pre>"
        + html.escape("\n".join(f"> {asked}\n{answer}" for asked, answer in model.conversation))
        + "</pre>"
        for model in models
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>fairseq_ssl: the demo's report</title>
<style>{STYLE}</style></head><body>
<h1>Longer than anything trained on</h1>
<p>Two small Transformers learned to write spoken lists of numbers in digits, from lists of at most
{trained} numbers. They differ in one thing: one numbers its positions from the start of the line
(<em>absolute</em>, as usual); the other adds a random offset to them while it trains
(<em>shifted</em>, SHAPE). Both then meet longer lists.</p>
<img alt="accuracy against length" src="data:image/png;base64,{figure(models, trained)}">
<p>Share of test lines without any mistake:</p>
<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>
<h2>A conversation</h2>
<p>What each model answers in <code>fairseq-interactive</code>; the last lines are longer than any
in training.</p>
{talks}
<h2>How it was made</h2>
<pre>{html.escape(settings)}</pre>
<p>fairseq_ssl {__version__}. One seed and a toy task: it shows the effect, it does not measure it.
</p></body></html>
"""


def main() -> None:
    """Print the table and write report.html."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("folder", type=Path, help="of the demo, with a folder for each model")
    parser.add_argument("--models", nargs="+", default=["absolute", "shifted"])
    parser.add_argument("--trained-length", type=int, required=True)
    parser.add_argument("--settings", type=Path, required=True, help="file with the commands used")
    args = parser.parse_args()
    models = [read_decoded(args.folder / name) for name in args.models]
    settings = args.settings.read_text(encoding="utf-8")
    print(as_text(table(models, args.trained_length)))
    written = args.folder / "report.html"
    written.write_text(page(models, args.trained_length, settings), encoding="utf-8")


if __name__ == "__main__":
    main()
