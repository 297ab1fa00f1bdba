"""Speed of an edit tagger relative to a Transformer's beam search in fairseq, in sentences/s.

Sentences and weights are random, so no
training is needed. The outputs of the Transformer are as long as the inputs. In all rounds but the
last, a wrapper forces the tagger to edit each sentence, so that every sentence takes all rounds.
--figure plots the times at all --lengths with the lower bounds that follow from arithmetic and
memory bandwidth of the machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import models
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import Transforms, english_suffixes
from fairseq_ssl.generation.edit_generator import EditGenerator
from fairseq_ssl.models.edit_tagger import EditTagger, EditTaggerConfig
from fairseq_ssl.modules.edit_layers import EditLogits

GOALS = {("cpu", 20): 8.0, ("cpu", 50): 10.0, ("cuda", 20): 15.0, ("cuda", 50): 30.0}
TAGGER_WORDS, TRANSFORMER_WORDS = 28_996, 32_000
"""Dictionary sizes: BERT's, and that of the paper's baseline."""
GRAMS = 1000


class ChangedInEachRound(nn.Module):
    """A tagger that replaces the first word in all rounds of a batch but the last."""

    def __init__(self, tagger: Any, rounds: int) -> None:
        super().__init__()
        self.tagger, self.rounds, self.cfg = tagger, rounds, tagger.cfg
        self.subwords, self.max_subwords = tagger.subwords, tagger.max_subwords
        self.calls = 0

    def forward(self, src_tokens: Tensor, src_lengths: Tensor) -> EditLogits:
        """Compute the scores and raise the score of one edit."""
        edits = self.tagger(src_tokens, src_lengths).edits
        edits[:, 0] += 1e4
        self.calls += 1
        if self.calls % self.rounds:
            counts = src_lengths - 1
            edits[counts.cumsum(0) - counts + 1, 2 + GRAMS + self.calls % 7] += 2e4
        return EditLogits(edits, None)


def tagger(args: argparse.Namespace) -> tuple[nn.Module, harness.Run]:
    """Return an edit tagger and a run that corrects with it."""
    words = OovDictionary()
    for number in range(TAGGER_WORDS - len(words)):
        words.add_symbol(f"w{number}")
    grams = tuple((f"w{number}",) for number in range(GRAMS))
    transforms = Transforms.of(english_suffixes())
    edits = EditDictionary(grams, grams, 2, transforms)
    task = argparse.Namespace(source_dictionary=words, target_dictionary=words, edits=edits)
    sizes = argparse.Namespace()
    ARCH_CONFIG_REGISTRY[args.arch](sizes)
    torch.manual_seed(1)
    model = EditTagger.build_model(EditTaggerConfig(**vars(sizes)), task)
    model.to(args.device).eval().prepare_for_inference_(None)
    if args.kind == "bf16":
        model.bfloat16()
    settings = CorrectionSearch(iterations=args.rounds)
    rounds = EditGenerator([ChangedInEachRound(model, args.rounds)], words, edits, settings)
    return model, _run(args, lambda sample: rounds.generate([], sample), words.bos(), TAGGER_WORDS)


def transformer(args: argparse.Namespace) -> tuple[nn.Module, harness.Run]:
    """Return a Transformer and a run of its beam search."""
    task = models.words(TRANSFORMER_WORDS)
    model, _ = models.build(args.against, task)
    model = model.to(args.device).eval()
    generation = argparse.Namespace(beam=args.beam, print_alignment=None)
    model.prepare_for_inference_(argparse.Namespace(generation=generation))
    length = {"max_len_a": 0, "max_len_b": args.length, "min_len": args.length}
    search = SequenceGenerator([model], task.target_dictionary, beam_size=args.beam, **length)
    return model, _run(args, lambda sample: search.generate([], sample), None, TRANSFORMER_WORDS)


def _run(
    args: argparse.Namespace,
    work: Callable[[dict[str, Any]], Any],
    start: int | None,
    vocabulary: int,
) -> harness.Run:
    """Return a run over sentences of --length tokens with </s>, after <s> if the model uses it."""
    torch.manual_seed(1)
    rows = models.sentences(args.sentences, args.length + 1, vocabulary)
    if start is not None:
        rows = torch.cat([torch.full((len(rows), 1), start), rows], dim=1)
    batches = [batch.to(args.device) for batch in rows.split(args.batch)]  # type: ignore[no-untyped-call]

    def run() -> int:
        with torch.inference_mode():
            for batch in batches:
                lengths = torch.full((len(batch),), batch.size(1), device=args.device)
                work({"net_input": {"src_tokens": batch, "src_lengths": lengths}})
        return len(rows)

    return run


def limits(device: str) -> tuple[float, float]:
    """Measure the peak operations/s and bytes/s with large float32 matrices."""
    one, other = (torch.randn(2048, 2048, device=device) for _ in range(2))
    line = torch.randn(2**26, device=device)
    works: tuple[Callable[[], Any], ...] = (lambda: one @ other, line.sum)
    seconds = [min(_seconds(work) for _ in range(5)) for work in works]
    return 2 * 2048**3 / seconds[0], 4 * 2**26 / seconds[1]


def _seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def bound(weights: int, rows: int, times: int, limit: tuple[float, float]) -> float:
    """Return the lower bound in seconds of multiplying `rows` rows by the weights `times` times."""
    return times * max(2.0 * weights * rows / limit[0], 4.0 * weights / limit[1])


def figure(args: argparse.Namespace) -> None:
    """Measure at all lengths, print milliseconds per sentence as JSON and plot them."""
    limit = limits(args.device)
    found: dict[str, list[float]] = {}
    for length in args.lengths:
        args.length = length
        for kind in args.kinds:
            args.kind = kind
            _note(found, f"tagger, {args.rounds} rounds, {kind}", tagger(args)[1], args)
        for args.beam in (4, 12):
            _note(found, f"Transformer, beam {args.beam}", transformer(args)[1], args)
        layers = 12 * (4 * 768**2 + 2 * 768 * 3072)
        rows = 3 * (args.length + 2) * args.batch
        least = bound(layers, rows, args.rounds, limit) / args.batch
        found.setdefault("bound of the tagger in float32", []).append(1000 * least)
        step = 6 * (8 * 1024**2 + 2 * 1024 * 4096) + 1024 * TRANSFORMER_WORDS
        least = bound(step, 4 * args.batch, args.length + 1, limit) / args.batch
        found.setdefault("bound of the Transformer, beam 4", []).append(1000 * least)
    machine = harness.machine(args.device == "cuda")
    report = {"lengths": args.lengths, "milliseconds": found, "machine": machine}
    print(json.dumps({**report, "batch": args.batch, "limits": limit}, indent=2))
    _draw(args.lengths, found, args.figure)


def _note(
    found: dict[str, list[float]], name: str, run: harness.Run, args: argparse.Namespace
) -> None:
    run()
    least = min(_seconds(run) for _ in range(args.pairs))
    found.setdefault(name, []).append(round(1000 * least / args.sentences, 2))


def _draw(lengths: list[int], found: dict[str, list[float]], path: Path) -> None:
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots(figsize=(7, 5))
    for name, times in found.items():
        is_bound = name.startswith("bound")
        axes.plot(lengths, times, "--" if is_bound else "o-", label=name, lw=1 if is_bound else 2)
    axes.set(xlabel="sentence length in words", ylabel="milliseconds per sentence", yscale="log")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.01), ncol=2)
    drawn.tight_layout()
    drawn.savefig(path, dpi=150)


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="edit_tagger_base")
    kinds = ("float32", "bf16")
    options.add_argument("--against", default="transformer_vaswani_wmt_en_de_big")
    options.add_argument("--kind", choices=kinds, default="float32", help="data type of the tagger")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--beam", type=int, default=4)
    options.add_argument("--length", type=int, default=20, help="sentence length in words")
    options.add_argument("--sentences", type=int, default=4)
    options.add_argument("--batch", type=int, default=1, help="sentences in a batch")
    options.add_argument(
        "--figure", type=Path, help="output file of a figure of the times at all --lengths"
    )
    options.add_argument("--lengths", type=int, nargs="+", default=[5, 10, 20, 30, 40, 50, 60])
    options.add_argument("--kinds", nargs="+", choices=kinds, default=["float32", "bf16"])
    args = harness.parse(options, outputs=("figure",))
    if args.figure:
        figure(args)
        return
    names = (f"{args.arch} {args.kind}", f"{args.against}, beam {args.beam}, no plug-in")
    goal = GOALS.get((args.device, args.length), 1.0)
    shown: dict[str, object] = {name: str(value) for name, value in vars(args).items()}
    comparison = harness.Comparison("edit_decoding", *names, "sentences/s", goal, shown)
    harness.compare(comparison, tagger(args)[1], transformer(args)[1], args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
