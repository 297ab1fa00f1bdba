"""Sentences a second: aggressive decoding over fairseq's greedy search, with the same model.

The weights are random, and the scores of the words to write are put in by hand: the source with
one word replaced and one put in, each a third of the way from an end.
"""

from __future__ import annotations

import argparse
from typing import Any

import harness
import models
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_ssl.generation.aggressive_decoding import AggressiveGenerator

WORDS = 30_000


class Dictating:
    """Stands before a decoder's forward, and makes it prefer the words of one target."""

    def __init__(self, decoder: Any, target: list[int]) -> None:
        self.forward = decoder.forward
        self.target = torch.tensor(target)

    def __call__(self, tokens: Tensor, *rest: Any, **options: Any) -> tuple[Tensor, Any]:
        """Add to the scores of the word at each place, whatever was written before it."""
        scores, extra = self.forward(tokens, *rest, **options)
        first = tokens.size(1) - scores.size(1)
        places = torch.arange(scores.size(1), device=scores.device)
        wanted = self.target.to(scores.device)[(first + places).clamp(max=len(self.target) - 1)]
        scores[:, places, wanted] += 1e4
        return scores, extra


def edited(source: list[int]) -> list[int]:
    """Replace a word, and put one in."""
    early, late = len(source) // 3, 2 * len(source) // 3
    return [*source[:early], WORDS - 1, *source[early + 1 : late], WORDS - 2, *source[late:]]


def search(kind: type[SequenceGenerator], args: Any) -> harness.Run:
    """Return a run over --sentences sentences, each alone."""
    task = models.words(WORDS)
    model, _ = models.build(args.arch, task)
    model = model.to(args.device).eval()
    generation = argparse.Namespace(
        beam=1, print_alignment=None, replace_unk=None, no_beamable_mm=False
    )
    model.prepare_for_inference_(argparse.Namespace(generation=generation))
    generator = kind([model], task.target_dictionary, beam_size=1)
    torch.manual_seed(1)
    rows = models.sentences(args.sentences, args.length + 1, WORDS - 2)
    forward = model.decoder.forward

    def run() -> int:
        for row in rows[:, None].to(args.device):
            wanted = [*edited(row[0, :-1].tolist()), 2]
            model.decoder.forward = forward
            model.decoder.forward = Dictating(model.decoder, wanted)
            lengths = torch.full((1,), args.length + 1, device=args.device)
            sample = {"net_input": {"src_tokens": row, "src_lengths": lengths}}
            with torch.inference_mode():
                ((found,),) = generator.generate([], sample)
            assert found["tokens"].tolist() == wanted
        return len(rows)

    return run


def main() -> None:
    """Measure and publish."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="transformer_vaswani_wmt_en_de_big")
    options.add_argument("--length", type=int, default=25, help="words in a sentence")
    options.add_argument("--sentences", type=int, default=4)
    args = harness.parse(options)
    comparison = harness.Comparison(
        *("aggressive_decoding", f"{args.arch}, aggressive", f"{args.arch}, greedy"),
        *("sentences/s", 3.0, vars(args)),
    )
    ours, plain = search(AggressiveGenerator, args), search(SequenceGenerator, args)
    harness.compare(comparison, ours, plain, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
