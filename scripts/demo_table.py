"""The table and the page of the demo: a method and its baseline on each toy task.

python scripts/demo_table.py demo/outputs/*.json                          print the table
python scripts/demo_table.py --page demo/report.html demo/outputs/*.json  and write the page
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from itertools import islice
from pathlib import Path

from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.metrics.metric import BootstrapResult
from fairseq_ssl.report import difference_cells, interval_plot, page_html, table_html
from fairseq_ssl.signature import Signature

SIGNIFICANT = 0.05
"""Maximum p of the paired bootstrap at which a claim is called shown."""
MAX_LINES = 5
"""Maximum number of lines of a task on the page."""


@dataclass(frozen=True)
class Method:
    """The systems that are compared, their task, and the paper's claim."""

    baseline: str
    method: str
    claim: str
    task: str
    paper: str
    address: str
    unit: str = "lines"
    """Units of which the correct ones are counted."""


METHODS = {
    "long-lists": Method(
        "absolute positions",
        "shifted positions (SHAPE)",
        "A random shift of all positions in training helps with sequences longer than in training.",
        "Translate number words into digits: up to 6 numbers in training, 8 to 10 in the test.",
        "Kiyono et al., 2021",
        "https://arxiv.org/abs/2109.05644",
    ),
    "back-translation": Method(
        "no back-translations",
        "tagged back-translations",
        "Back-translations of monolingual target text help where pairs are few.",
        "Translate number words into digits, from 150 pairs and 3,000 lines of digits.",
        "Kiyono et al., 2020",
        "https://aclanthology.org/2020.wmt-1.12",
    ),
    "pre-training": Method(
        "no pre-training",
        "denoising pre-training",
        "Pre-training as a denoiser of unlabeled text helps where pairs are few.",
        "Correct sentences with errors, from 100 pairs and 5,000 correct sentences.",
        "Wang et al., 2019",
        "https://arxiv.org/abs/1908.08206",
    ),
    "imitators": Method(
        "classifier",
        "classifier with imitators",
        "Imitators that learn a classifier's labels of unlabeled texts help the classifier.",
        "Label texts of invented words as good or bad, from 200 labels and 4,000 unlabeled texts.",
        "Kiyono et al., 2019",
        "https://arxiv.org/abs/1810.05788",
    ),
    "names": Method(
        "Transformer",
        "pointer-generator",
        "A pointer-generator copies unknown words from the source.",
        "Translate known words, and copy names that are not in the training data.",
        "Wang et al., 2019",
        "https://arxiv.org/abs/1908.08206",
    ),
    "reconstruction": Method(
        "ByteNet",
        "ByteNet with reconstruction",
        "Reconstruction of monolingual source text helps where pairs are few.",
        "Translate number words into digits, from 128 pairs and 512 lines of words.",
        "Madsen, 2017",
        "https://github.com/AndreasMadsen/master-thesis",
        "digits",
    ),
    "late-evidence": Method(
        "Transformer",
        "pseudo-bidirectional decoder",
        "A decoder that attends to the source as its future uses evidence that comes late.",
        "Correct the form of a verb. The last word of the sentence decides it.",
        "Zhou et al., 2020",
        "https://arxiv.org/abs/2001.11694",
    ),
    "revisions": Method(
        "edit tagger, 1 round",
        "edit tagger, 4 rounds",
        "Further rounds of an edit tagger make the edits that depend on previous edits.",
        "Correct agreement, articles and spelling, and complete phrases word by word.",
        "Awasthi et al., 2019",
        "https://arxiv.org/abs/1910.02893",
    ),
}


@dataclass(frozen=True)
class Row:
    """The scores of one task, and the difference between them."""

    task: str
    baseline: float
    method: float
    result: BootstrapResult

    @property
    def verdict(self) -> str:
        """`shown` if the method is significantly better in this run."""
        is_better = self.result.difference > 0 and self.result.p < SIGNIFICANT
        return "shown" if is_better else "not shown"

    def line(self) -> str:
        """Return a line of the table on the terminal."""
        names = METHODS[self.task]
        return (
            f"{self.task:18}{names.baseline:20}{self.baseline:6.1f}  {names.method:28}"
            f"{self.method:6.1f}{self.result.difference:+8.1f}  {self.verdict}"
        )


HEADER = f"{'task':18}{'baseline':20}{'score':>6}  {'method':28}{'score':>6}{'diff.':>8}  claim"
FOOTER = (
    f"Claim shown: the method is better, with p below {SIGNIFICANT} in a paired bootstrap test."
)


def read_row(path: Path) -> Row:
    """Read the scores of `fairseq-ssl score accuracy`, with a paired bootstrap."""
    content = json.loads(path.read_text(encoding="utf-8"))
    scores = {name: one["accuracy"]["seeds"][0] for name, one in content["systems"].items()}
    result = BootstrapResult(**content["against the baseline"]["method"])
    return Row(path.stem, scores["baseline"], scores["method"], result)


def write_page(rows: Sequence[Row], outputs: Path, path: Path) -> None:
    """Write a page with a plot, a table, and lines of each task where the systems differ."""
    sections = [_plot(rows), _table(rows)]
    sections += [_task(row, outputs) for row in rows]
    signature = str(Signature("demo", {"tasks": len(rows)}))
    with atomic_lines(path) as file:
        file.write(page_html("Demo: what each method adds", sections, signature))


def _plot(rows: Sequence[Row]) -> str:
    differences = {
        f'<a href="#{row.task}">{METHODS[row.task].method}</a>'
        f'<div class="faint">against {METHODS[row.task].baseline}</div>': row.result
        for row in rows
    }
    return (
        "<section><p>Each method and its baseline are trained on a toy task that needs what the "
        "method adds. The plot shows the score of the method minus the score of the baseline, in "
        f"percentage points, with 95% intervals. Differences with p below {SIGNIFICANT} are in "
        "color.</p>"
        f"{interval_plot(differences)}</section>"
    )


def _table(rows: Sequence[Row]) -> str:
    header = ["task", "baseline", "score", "method", "score", "difference", "95% interval", "p"]
    cells = [
        [
            f'<a href="#{row.task}">{row.task}</a>',
            f"<td>{METHODS[row.task].baseline}</td>",
            f'<td data-value="{row.baseline}">{row.baseline:.2f}</td>',
            f"<td>{METHODS[row.task].method}</td>",
            f'<td data-value="{row.method}">{row.method:.2f}</td>',
            *difference_cells(row.result),
        ]
        for row in rows
    ]
    return (
        '<section aria-labelledby="scores"><h2 id="scores">Scores</h2>'
        '<p class="faint">Correct lines of the test set in percent; reconstruction: correct '
        "digits. Intervals and p are from paired bootstrap resampling over lines or digits (Koehn, "
        "2004), without correction for multiple comparisons.</p>"
        f"{table_html('Table of scores', header, cells)}"
        "<p>For each method, the page shows lines in which the two outputs differ. Words that only "
        "the output has are <ins>underlined</ins>, and words that only the reference has are "
        "<del>struck through</del>.</p></section>"
    )


def _task(row: Row, outputs: Path) -> str:
    names = METHODS[row.task]
    sides = [
        list(read_lines(outputs / side / f"{row.task}.txt"))
        for side in ("source", "reference", "baseline", "method")
    ]
    lines = list(enumerate(zip(*sides, strict=True), start=1))
    differing = [(number, texts) for number, texts in lines if texts[2] != texts[3]]
    items = [_line(number, texts, names) for number, texts in islice(differing, MAX_LINES)]
    verdict = f"{row.verdict.capitalize()} in this run"
    correct = (
        f"{row.method:.1f}% of {names.unit} correct, {row.baseline:.1f}% with {names.baseline}"
    )
    first = f" The first {len(items)}:" if len(items) < len(differing) else ""
    return (
        f'<section aria-labelledby="{row.task}"><h2 id="{row.task}">{row.task}: {names.method}</h2>'
        f'<p>{names.claim.removesuffix(".")} (<a href="{names.address}">{names.paper}</a>). '
        f"<strong>{verdict}</strong>: {correct} (p = {row.result.p:.3f}).</p><p>Task: {names.task} "
        f"The outputs differ in {len(differing):,} of {len(lines):,} lines.{first}</p>"
        f'<ol class="sentences">{"".join(items)}</ol></section>'
    )


def _line(number: int, texts: tuple[str, ...], names: Method) -> str:
    source, reference, *outputs = texts
    sides = {"source": escape(source), "reference": escape(reference)}
    for name, output in zip((names.baseline, names.method), outputs, strict=True):
        sides[name] = " ".join(_marked_words(reference.split(), output.split()))
    content = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in sides.items())
    return f"<li><h3>Line {number}</h3><dl>{content}</dl></li>"


def _marked_words(reference: list[str], output: list[str]) -> Iterator[str]:
    """Yield the words of an output as HTML, with insertions and deletions marked."""
    matcher = SequenceMatcher(None, reference, output, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        deleted, inserted = (
            escape(" ".join(words)) for words in (reference[start:end], output[first:last])
        )
        if kind == "equal":
            yield inserted
            continue
        if deleted:
            yield f"<del>{deleted}</del>"
        if inserted:
            yield f"<ins>{inserted}</ins>"


def main() -> None:
    """Print the table, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scores", type=Path, nargs="+", help="scores of a task as JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="page to write, such as a.html")
    args = parser.parse_args()
    rows = [read_row(path) for path in args.scores]
    print("", HEADER, *(row.line() for row in rows), "", FOOTER, sep="\n")
    if args.page:
        write_page(rows, args.scores[0].parent, args.page)


if __name__ == "__main__":
    main()
