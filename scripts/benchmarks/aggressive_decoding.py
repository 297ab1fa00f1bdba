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

from fairseq_ssl.generation.copying_search import AggressiveGenerator

WORDS, END = 30_000, 2


class Dictating:
    """Stands before a decoder, and makes it prefer what follows each word.

    After a word of the target comes the next one of the target, and after a word that the
    target has replaced, what comes after its replacement.
    """

    def __init__(self, decoder: Any) -> None:
        self.decode, self.output = decoder.extract_features, decoder.output_layer
        self.next: dict[int, int] = {}
        self.tokens: list[int] = []
        decoder.extract_features, decoder.output_layer = self.extract_features, self.output_layer

    def dictate(self, source: list[int], target: list[int]) -> None:
        """From now on, prefer what makes `target` of `source`."""
        self.next = dict(zip([END, *target], [*target, END], strict=True))
        self.next[source[len(source) // 3]] = self.next[target[len(source) // 3]]

    def extract_features(self, tokens: Tensor, *rest: Any, **options: Any) -> Any:
        """Remember the words."""
        self.tokens = tokens[0].tolist()
        return self.decode(tokens, *rest, **options)

    def output_layer(self, features: Tensor) -> Tensor:
        """Add to the scores of the words that come next."""
        scores: Tensor = self.output(features)
        for place, token in enumerate(self.tokens[-scores.size(1) :]):
            scores[0, place, self.next[token]] += 1e4
        return scores


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
    dictating = Dictating(model.decoder)

    def run() -> int:
        for row in rows[:, None].to(args.device):
            source = row[0, :-1].tolist()
            wanted = edited(source)
            dictating.dictate(source, wanted)
            lengths = torch.full((1,), args.length + 1, device=args.device)
            sample = {"net_input": {"src_tokens": row, "src_lengths": lengths}}
            with torch.inference_mode():
                ((found,),) = generator.generate([], sample)
            assert found["tokens"].tolist() == [*wanted, END]
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
