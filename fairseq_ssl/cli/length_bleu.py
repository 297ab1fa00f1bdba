"""``fairseq-ssl length-bleu``: BLEU of short and long sentences, against the first checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.cli import analysis_options as options
from fairseq_ssl.cli.console import print_table, progress
from fairseq_ssl.cli.options import one_device, one_writer
from fairseq_ssl.metrics.bleu import Bucket, buckets
from fairseq_ssl.signature import Signature

SUMMARY = "BLEU by the length of the source, and its gain over the first checkpoint"
EXAMPLES = """\
  fairseq-ssl length-bleu data-bin/extrapolate -o lengths --subset valid,test \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt -c relative=runs/relative.pt
  fairseq-ssl length-bleu data-bin/interpolate -o lengths --ends 100,150,200,250 \\
      -c absolute=runs/absolute.pt -c shifted=runs/shifted.pt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare checkpoints and the ends of the lengths."""
    options.add_checkpoints(parser, subset="valid", several=True)
    parser.add_argument(
        "--ends",
        type=options.numbers,
        default="10,20,30,40,50,60,70",
        metavar="N,N,...",
        help="last length of each bucket, in source tokens without </s>; one more bucket holds "
        "what is longer (default: %(default)s)",
    )
    parser.add_argument(
        "--separator",
        default="<sep>",
        help="a token to leave out of outputs and references (default: %(default)s)",
    )
    options.add_decoding(parser)


@one_writer
def run(args: argparse.Namespace) -> int:
    """Translate with every checkpoint, score each bucket and compare with the first name."""
    options.check_ends("--ends", args.ends)
    options.splits(args)
    named = options.checkpoints(args)
    device = one_device(args.device)
    fairseq_ssl.register()
    within = buckets(args.ends)
    runs = {
        name: [_one(path, device, args, within) for path in paths] for name, paths in named.items()
    }
    models = {name: _summary(of_name) for name, of_name in runs.items()}
    baseline = next(iter(models))
    parameters = {
        "subset": args.subset,
        "beam": args.beam,
        "sacrebleu": runs[baseline][0]["sacrebleu"],
    }
    results = {
        "buckets": [str(bucket) for bucket in within],
        "training_pairs": _training_lengths(named[baseline][0], device, args, within),
        "baseline": baseline,
        "models": models,
        "gains": {
            name: list(map(_gain, model["by_length"], models[baseline]["by_length"]))
            for name, model in models.items()
        },
    }
    _draw(args, results)
    _print(results)
    options.publish(args, Signature("length-bleu", parameters), results)
    return 0


def _one(
    path: Path, device: str, args: argparse.Namespace, within: Sequence[Bucket]
) -> dict[str, Any]:
    """Translate with one checkpoint; score all lines, and those of each bucket."""
    from fairseq_ssl.analysis.trained_models import TrainedModels, reference_lines, translate
    from fairseq_ssl.metrics.bleu import bleu, bleu_by_length
    from fairseq_ssl.text.tokenization import moses_detokenizer

    trained = TrainedModels.load(path, args.data, device)
    datasets = [trained.pairs(split) for split in options.splits(args)]
    join = moses_detokenizer(args.subwords, args.moses)

    def plain(line: str) -> str:
        return join(" ".join(token for token in line.split() if token != args.separator))

    done = progress(str(path), "sentences", sum(map(len, datasets)))
    found: list[str] = []
    wanted: list[str] = []
    lengths: list[int] = []
    for dataset in datasets:
        found += map(plain, translate(trained, dataset, options.search(args), done))
        wanted += map(plain, reference_lines(trained, dataset))
        lengths += (dataset.src_sizes - 1).tolist()
    whole = bleu(found, wanted, args.tokenize)
    by_length = bleu_by_length(found, wanted, lengths, within, args.tokenize)
    return {
        "checkpoint": str(path),
        "bleu": round(whole.score, 2),
        "by_length": [None if score is None else round(score, 2) for score in by_length],
        "sacrebleu": whole.signature,
    }


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means and deviations over the repetitions of one name."""
    columns = zip(*(run["by_length"] for run in runs), strict=True)
    means = [
        None if scores[0] is None else options.mean_and_deviation(scores) for scores in columns
    ]
    whole = options.mean_and_deviation(run["bleu"] for run in runs)
    return {"bleu": whole, "by_length": means, "runs": runs}


def _gain(ours: dict[str, float] | None, baseline: dict[str, float] | None) -> float | None:
    return None if ours is None or baseline is None else round(ours["mean"] - baseline["mean"], 2)


def _training_lengths(
    path: Path, device: str, args: argparse.Namespace, within: Sequence[Bucket]
) -> list[int]:
    """Count the training pairs whose source falls in each bucket."""
    from fairseq_ssl.analysis.trained_models import TrainedModels

    lengths = TrainedModels.load(path, args.data, device).split("train").src_sizes - 1
    return [sum(int(length) in bucket for length in lengths) for bucket in within]


def _draw(args: argparse.Namespace, results: dict[str, Any]) -> None:
    """Draw the gains, on grey where nothing was trained on, as figure 6.4 does."""
    from fairseq_ssl.analysis import figures

    gains = {name: g for name, g in results["gains"].items() if name != results["baseline"]}
    with figures.figure(options.figure_path(args), width=7) as (ax,):
        figures.grouped_bars(ax, results["buckets"], gains)
        for place, pairs in enumerate(results["training_pairs"]):
            if pairs == 0:
                ax.axvspan(place - 0.5, place + 0.5, color=figures.SHADE, zorder=0)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set_xlabel("tokens in the source (grey: none such in training)")
        ax.set_ylabel(f"BLEU above {results['baseline']}")


def _print(results: dict[str, Any]) -> None:
    def shown(score: dict[str, float] | None) -> str:
        return "n/a" if score is None else f"{score['mean']:.2f} ± {score['sd']:.2f}"

    names = list(results["models"])
    rows = [["all", "", *(shown(results["models"][name]["bleu"]) for name in names)]]
    for place, bucket in enumerate(results["buckets"]):
        scores = [shown(results["models"][name]["by_length"][place]) for name in names]
        rows.append([bucket, str(results["training_pairs"][place]), *scores])
    print_table(["source tokens", "training pairs", *names], rows)
