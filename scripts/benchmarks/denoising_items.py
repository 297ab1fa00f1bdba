"""Speed of noising and batching by our data set relative to fairseq's, in sentences/s.

--against noising: fairseq's NoisingDataset (shuffle, drop, blank) in a LanguagePairDataset.
--against denoising: fairseq's DenoisingDataset (masks). Each runs in one process on the same
sentences.
"""

from __future__ import annotations

from typing import Any

import harness
import models
import numpy as np
from fairseq.data import LanguagePairDataset, ListDataset, PrependTokenDataset
from fairseq.data.denoising_dataset import DenoisingDataset
from fairseq.data.noising import NoisingDataset, UnsupervisedMTNoising

from fairseq_ssl.data.id_noise import (
    IdNoise,
    Lexicon,
    OnlineDenoisingDataset,
    WordBoundaries,
    parse_id_noise,
    sample_blocks,
)

VOCABULARY = 8000
GOAL = 6.0


def ours(text: Any, words: Any, args: Any) -> OnlineDenoisingDataset:
    """Return the data set of our task denoising_pretraining."""
    mask = words.index("<mask>")
    boundaries = WordBoundaries.of(words.symbols, args.subwords)
    sample, _ = boundaries.split_words(sample_blocks(text, text.sizes))
    known = np.arange(len(words)) >= words.nspecial
    known[mask] = False
    lexicon = Lexicon.counted(sample, np.ones(len(sample), np.int64), known, mask)
    noise = IdNoise.of(parse_id_noise(args.noise), boundaries, lexicon, mask, max_length=1023)
    return OnlineDenoisingDataset(text, text.sizes, words, noise, seed=1, renew=True)


def noising(text: Any, words: Any) -> LanguagePairDataset:
    """Return fairseq's NoisingDataset with the clean sentences as targets."""
    noisy = NoisingDataset(
        text,
        words,
        seed=1,
        noising_class=UnsupervisedMTNoising,
        max_word_shuffle_distance=3,
        word_dropout_prob=0.1,
        word_blanking_prob=0.1,
    )
    return LanguagePairDataset(noisy, text.sizes, words, text, text.sizes, words)


def denoising(text: Any, words: Any) -> DenoisingDataset:
    """Return fairseq's DenoisingDataset, as in its task denoising with --mask 0.3."""
    return DenoisingDataset(
        PrependTokenDataset(text, words.bos()),
        text.sizes + 1,
        words,
        words.index("<mask>"),
        mask_whole_words=None,
        shuffle=True,
        seed=1,
        mask=0.3,
        mask_random=0.1,
        insert=0.0,
        rotate=0.0,
        permute_sentences=0.0,
        bpe="none",
        replace_length=1,
        mask_length="subword",
        poisson_lambda=3.0,
    )


def reader(dataset: Any, args: Any) -> harness.Run:
    """Return a run that collates all batches and returns the number of sentences."""

    def read() -> int:
        for first in range(0, len(dataset), args.sentences):
            last = min(first + args.sentences, len(dataset))
            dataset.collater([dataset[number] for number in range(first, last)])
        return len(dataset)

    return read


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument("--against", choices=("noising", "denoising"), default="noising")
    options.add_argument(
        "--noise", default="shuffle", help="noise, the same as --noise of denoising_pretraining"
    )
    options.add_argument(
        "--subwords",
        default="none",
        help="subwords, the same as --noise-subwords of denoising_pretraining",
    )
    options.add_argument("--sentences", type=int, default=64, help="sentences in a batch")
    options.add_argument("--length", type=int, default=27, help="sentence length in tokens")
    options.add_argument("--batches", type=int, default=30, help="batches in a run")
    args = harness.parse(options)
    words = models.words(VOCABULARY).source_dictionary
    words.add_symbol("<mask>")
    tokens = models.sentences(args.batches * args.sentences, args.length + 1, VOCABULARY)
    text = ListDataset(list(tokens), np.full(len(tokens), args.length + 1))
    second, other = {
        "noising": ("NoisingDataset", noising),
        "denoising": ("DenoisingDataset", denoising),
    }[args.against]
    comparison = harness.Comparison(
        *("denoising_items", f"NoisedDataset {args.noise}", second, "sentences/s"),
        goal=GOAL,
        settings=vars(args),
    )
    runs = reader(ours(text, words, args), args), reader(other(text, words), args)
    harness.compare(comparison, *runs, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
