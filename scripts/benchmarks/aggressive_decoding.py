"""Speed of aggressive decoding relative to fairseq's greedy search, in sentences/s, with one model.

The weights are random. A wrapper of the
decoder raises the scores of a fixed target: the source with one word replaced and one word
inserted, each a third of the way from an end.
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
    """A wrapper of a decoder that raises the score of one next word after each word.

    After a word of the target, this is the next word of the target. After a replaced word of the
    source, it is the word after the replacement.
    """

    def __init__(self, decoder: Any) -> None:
        self.decode, self.output = decoder.extract_features, decoder.output_layer
        self.next: dict[int, int] = {}
        self.tokens: list[int] = []
        decoder.extract_features, decoder.output_layer = self.extract_features, self.output_layer

    def dictate(self, source: list[int], target: list[int]) -> None:
        """Set the source and the target of the next search."""
        self.next = dict(zip([END, *target], [*target, END], strict=True))
        self.next[source[len(source) // 3]] = self.next[target[len(source) // 3]]

    def extract_features(self, tokens: Tensor, *rest: Any, **options: Any) -> Any:
        """Store the previous tokens and compute the features."""
        self.tokens = tokens[0].tolist()
        return self.decode(tokens, *rest, **options)

    def output_layer(self, features: Tensor) -> Tensor:
        """Compute the scores and raise the score of the next word of the target."""
        scores: Tensor = self.output(features)
        for place, token in enumerate(self.tokens[-scores.size(1) :]):
            scores[0, place, self.next[token]] += 1e4
        return scores


def edited(source: list[int]) -> list[int]:
    """Return the sentence with one word replaced and one word inserted."""
    early, late = len(source) // 3, 2 * len(source) // 3
    return [*source[:early], WORDS - 1, *source[early + 1 : late], WORDS - 2, *source[late:]]


def search(kind: type[SequenceGenerator], args: Any) -> harness.Run:
    """Return a run that decodes --sentences sentences one at a time."""
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
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="transformer_vaswani_wmt_en_de_big")
    options.add_argument("--length", type=int, default=25, help="sentence length in words")
    options.add_argument("--sentences", type=int, default=4)
    args = harness.parse(options)
    comparison = harness.Comparison(
        *("aggressive_decoding", f"{args.arch}, aggressive", f"{args.arch}, greedy, no plug-in"),
        *("sentences/s", 3.0, vars(args)),
    )
    ours, plain = search(AggressiveGenerator, args), search(SequenceGenerator, args)
    harness.compare(comparison, ours, plain, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
