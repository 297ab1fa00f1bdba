"""``fairseq-ssl score``: how good finished text is, with what the number was made by."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.signature import Signature

SUMMARY = "score finished text against references"
EXAMPLES = """\
  fairseq-ssl score gleu corrected.txt --source dev.src --reference dev.ref0 --reference dev.ref1
  fairseq-ssl score rouge summaries.txt --reference test.trg --stem --sentence-mark '<q>'
  fairseq-ssl detokenise test.generate --field H --subwords none \\
      | fairseq-ssl score rouge - --reference test.trg --format json"""

METRICS: dict[str, dict[str, Any]] = {
    "gleu": {"source": ..., "samples": 500},
    "rouge": {"stem": False, "sentence_mark": None},
}
"""The options of each metric and their defaults; those that are needed have none."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the metric, the files, and the options of some metrics."""
    parser.add_argument(
        "metric",
        choices=METRICS,
        metavar="METRIC",
        help="gleu: of corrected sentences (Napoles et al., 2016), tokenised; rouge: F1 of "
        "summaries: ROUGE-1, ROUGE-2, ROUGE-L (a summary as one sentence) and ROUGE-Lsum (sentence "
        "by sentence, as the papers on CNN/Daily Mail have it)",
    )
    parser.add_argument(
        "output", metavar="OUTPUT", help="what is scored, one in a line; - for stdin"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="what it should be, line by line; may be repeated",
    )
    parser.add_argument(
        "--source", type=Path, metavar="FILE", help="gleu: what the output was made of"
    )
    parser.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="gleu: how many times a reference is drawn for each sentence, where there are "
        f"several; 1 or more (default: {METRICS['gleu']['samples']})",
    )
    parser.add_argument(
        "--stem", action="store_true", default=None, help="rouge: compare stems (Porter's)"
    )
    parser.add_argument(
        "--sentence-mark",
        metavar="TOKEN",
        help="rouge: what stands between the sentences of a summary (default: nothing, so that "
        "ROUGE-Lsum is ROUGE-L)",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="(default: text)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, score and print."""
    settings = _settings(args)
    outputs = _read(args.output)
    references = [_beside(path, len(outputs), args.output) for path in args.reference]
    if not outputs:
        raise DataError(f"{args.output} is empty. Expected a line or more.")
    score = _gleu if args.metric == "gleu" else _rouge
    values, signature = score(outputs, references, settings, args.output)
    if args.format == "json":
        print(json.dumps({**values, "signature": str(signature)}, indent=2))
    else:
        for name, value in values.items():
            print(f"{name}\t{value:.2f}")
        print(signature)
    return 0


def _gleu(
    outputs: list[str], references: list[list[str]], settings: dict[str, Any], name: str
) -> tuple[dict[str, float], Signature]:
    from fairseq_ssl.scoring.gleu import gleu

    sources = _beside(settings["source"], len(outputs), name)
    found = gleu(outputs, sources, references, settings["samples"])
    values = {"GLEU": found.score}
    parameters: dict[str, Any] = {"lines": len(outputs), "references": len(references)}
    if len(references) > 1:
        values["deviation of samples"] = found.deviation
        values["mean of single references"] = sum(found.by_reference) / len(references)
        parameters["samples"] = settings["samples"]
    return values, Signature("gleu", parameters)


def _rouge(
    outputs: list[str], references: list[list[str]], settings: dict[str, Any], name: str
) -> tuple[dict[str, float], Signature]:
    from fairseq_ssl.scoring.rouge import package, rouge

    found = rouge(outputs, references, settings["stem"], settings["sentence_mark"])
    parameters = {
        "lines": len(outputs),
        "references": len(references),
        "stem": settings["stem"],
        "mark": settings["sentence_mark"] or "none",
        "by": package(),
    }
    values = {f"ROUGE-{variant}": value for variant, value in found.items()}
    return values, Signature("rouge", parameters)


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the metric's options; refuse those of the other, and values out of range."""
    settings = dict(METRICS[args.metric])
    for metric, options in METRICS.items():
        for name in options:
            value = getattr(args, name)
            if value is None:
                continue
            if name not in settings:
                raise UsageError(f"{_flag(name)} goes with {metric}, not with {args.metric}.")
            settings[name] = value
    missing = [name for name, value in settings.items() if value is ...]
    if missing:
        raise UsageError(f"score {args.metric} needs {_flag(missing[0])}.")
    if settings.get("samples", 1) < 1:
        raise UsageError(f"--samples is {settings['samples']}; expected 1 or more.")
    return settings


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _read(name: str) -> list[str]:
    from fairseq_ssl.text.lines import decoded_lines, read_lines

    if name == "-":
        return list(decoded_lines(sys.stdin.buffer, "stdin"))
    return list(read_lines(Path(name)))


def _beside(path: Path, lines: int, output: str) -> list[str]:
    """Read a file that must have as many lines as the output."""
    from fairseq_ssl.text.lines import read_lines

    found = list(read_lines(path))
    if len(found) != lines:
        raise DataError(
            f"{path} has {len(found)} lines and {output} {lines}. Parallel files must have equally "
            "many lines."
        )
    return found
