"""Compare corrections by `fairseq-ssl correct` to those by GECToR's code, with the same models.

    /path/to/gector-environment/bin/python oracle.py reference models/* --text dev.src \
        -o out
    python oracle.py compare models/* --text dev.src -o out

`reference` needs an environment with the packages gector 1.2, transformers 4.57 and torch. It
writes the corrections of each model with three settings of the two thresholds. `compare` runs
`fairseq-ssl correct` on the same text, counts the equal sentences, and lists the different ones in
results.jsonl in the output folder. It counts two kinds of sentences apart: close ones, in which a
decision depends on less than 1e-5, and long ones, which GECToR truncates.

The folder of a model also has verb-form-vocab.txt and, if its encoder is not public, the folder
encoder. `reference.py` describes the folder of a file `.th`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

CLOSE = 1e-5
MAX_LENGTH = 80
SETTINGS = ((0.0, 0.0), (0.2, 0.5), (0.0, 0.6))
"""Keep confidence and min error probability: none, as published for RoBERTa, and one alone."""
COLUMNS = (
    "model | keep | error | sentences | changed | clear | equal | close | equal | long | equal"
)


def output_path(args: argparse.Namespace, model: Path, setting: tuple[float, float]) -> Path:
    """Return the path of the reference corrections."""
    folder: Path = args.output
    return folder / f"{model.name}.{setting[0]:g}-{setting[1]:g}.jsonl"


def read_sentences(args: argparse.Namespace) -> list[str]:
    """Return the sentences to correct, without surplus spaces, which are empty words for GECToR."""
    lines = args.text.read_text(encoding="utf-8").rstrip().split("\n")
    return [" ".join(filter(None, line.split(" "))) for line in lines[: args.sentences]]


def reference(args: argparse.Namespace) -> None:
    """Write the corrections by GECToR's code."""
    import torch
    from reference import Gector

    torch.set_num_threads(1)
    sentences = read_sentences(args)
    args.output.mkdir(parents=True, exist_ok=True)
    for model in args.models:
        gector = Gector(model)
        for setting in SETTINGS:
            corrections = gector.correct(sentences, *setting)
            lines = [json.dumps(row._asdict(), ensure_ascii=False) for row in corrections]
            path = output_path(args, model, setting)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            changed = sum(map(str.__ne__, sentences, (row.text for row in corrections)))
            print(f"{path}: {changed} of {len(sentences)} sentences are changed", flush=True)


def correct(
    sentences: Sequence[str], model: Path, setting: tuple[float, float], options: Sequence[str]
) -> list[str]:
    """Return our corrections."""
    keep, error = map(str, setting)
    command = [sys.executable, "-m", "fairseq_ssl", "correct", "--model", str(model)]
    command += ["--tokenizer", "none", "--iterations", "5", "--keep-bias", keep]
    command += ["--min-confidence", error, "--min-sentence-confidence", error, *options]
    if (model / "encoder").is_dir():
        command += ["--encoder", str(model / "encoder")]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("text", "corrected")]
        paths[0].write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
        subprocess.run([*command, str(paths[0]), "-o", str(paths[1])], check=True)
        return paths[1].read_text(encoding="utf-8").split("\n")[:-1]


def compare(args: argparse.Namespace) -> None:
    """Print a table of equal sentences, and list the different ones in results.jsonl."""
    sentences = read_sentences(args)
    print(f"| {COLUMNS} |\n|{' --- |' * len(COLUMNS.split(' | '))}")
    with (args.output / "results.jsonl").open("w", encoding="utf-8") as results:
        for model, setting in product(args.models, SETTINGS):
            lines = output_path(args, model, setting).read_text(encoding="utf-8").splitlines()
            rows = [json.loads(line) for line in lines][: len(sentences)]
            sources = sentences[: len(rows)]
            ours = correct(sources, model, setting, args.options)
            counts: dict[str, list[bool]] = {"clear": [], "close": [], "long": []}
            for source, row, text in zip(sources, rows, ours, strict=True):
                kind = kind_of(row)
                counts[kind].append(row["text"] == text)
                if row["text"] != text:
                    name = {"model": model.name, "setting": setting, "kind": kind}
                    different = {**name, "source": source, "ours": text, **row}
                    results.write(json.dumps(different, ensure_ascii=False) + "\n")
            texts = [row["text"] for row in rows]
            table = [model.name, *setting, len(rows), sum(map(str.__ne__, sources, texts))]
            for results_of_kind in counts.values():
                table += [len(results_of_kind), sum(results_of_kind)]
            print(f"| {' | '.join(map(str, table))} |", flush=True)


def kind_of(row: dict[str, Any]) -> str:
    """Return `long`, `close` or `clear`."""
    if row["length"] > MAX_LENGTH:
        return "long"
    return "close" if row["margin"] < CLOSE else "clear"


def main() -> None:
    """Run a step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    steps = parser.add_subparsers(required=True, metavar="STEP")
    for step in (reference, compare):
        options = steps.add_parser(step.__name__, help=(step.__doc__ or "").lower())
        options.set_defaults(step=step)
        options.add_argument("models", type=Path, nargs="+", help="folders of models")
        options.add_argument("--text", type=Path, required=True, help="tokenized sentences")
        options.add_argument("--sentences", type=int, help="max number of sentences")
        options.add_argument("-o", "--output", type=Path, required=True, help="folder")
        if step is compare:
            options.add_argument("--options", nargs="*", default=(), help="for fairseq-ssl correct")
    args = parser.parse_args()
    args.step(args)


if __name__ == "__main__":
    main()
