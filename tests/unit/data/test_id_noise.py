"""Noise on ids is equal to the same noise on words."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.data.id_noise import (
    IdNoise,
    Lexicon,
    NoisyIds,
    WordBoundaries,
    parse_id_noise,
    uses_mask,
)
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.noise.batch import NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.block_noise import WITHIN_WORDS, build_noise
from fairseq_ssl.noise.tokens import Unigrams

SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>", "a@@", "b", "c", "d", "e@@", "f", "<mask>"]
MASK = 10
NOISES = ["direct", "direct:keep=0.6:mask=0.1,denoise", "denoise:mean=0.3:deviation=0.1"]
WORDS = st.sampled_from([[4, 5], [4, 4, 6], [8, 7], [5], [6], [7], [9], [3]])
LINES = st.lists(st.lists(WORDS, max_size=7).map(lambda words: [*chain(*words)]), max_size=6)
COUNTED = [[4, 5], [6], [7], [7], [8, 8, 9], [9]]
BOUNDARIES = WordBoundaries.of(SYMBOLS, "subword-nmt")


def to_spans(lines: list[list[int]]) -> Spans:
    return Spans.of([np.array(line, dtype=np.int64) for line in lines])


def counted(words: Spans, mask: int | None = None) -> Lexicon:
    known = np.ones(len(SYMBOLS), np.bool_)
    return Lexicon.counted(words, np.ones(len(words), np.int64), known, mask)


def lexicon() -> Lexicon:
    return counted(to_spans(COUNTED), MASK)


def noise(words: str, max_length: int = 1000) -> IdNoise:
    return IdNoise.of(parse_id_noise(words), BOUNDARIES, lexicon(), MASK, max_length)


def lines_of(noisy: NoisyIds) -> list[list[int]]:
    lines = noisy.lines
    return [lines.ids[s:e].tolist() for s, e in zip(lines.starts, lines.ends, strict=True)]


def to_words(ids: list[int]) -> str:
    """Return a line of words. Subwords are joined by +, so that each word is unique."""
    return " ".join(SYMBOLS[i] for i in ids).replace("@@ ", "+")


@pytest.mark.parametrize("words", [*NOISES, "filtering"])
@given(lines=LINES, seed=st.integers(0, 999))
def test_equal_to_noise_on_text(words: str, lines: list[list[int]], seed: int) -> None:
    noisy = noise(words)(to_spans(lines), Random.of((seed,), len(lines)))

    known = lexicon()
    spans = np.split(known.words.ids, np.cumsum(known.words.lengths)[:-1])
    names = np.array([to_words(span.tolist()) for span in spans], dtype=object)
    unigrams = Unigrams(names, known.unigrams.up_to)
    text = TokenBatch.of_words(map(to_words, lines))
    as_text = build_noise(parse_id_noise(words), {"unigrams": unigrams})
    expected = as_text(text, Random.of((seed,), len(lines)))
    assert [to_words(line) for line in lines_of(noisy)] == expected.block.to_lines()
    subwords = [word.count("+") + 1 for word in text.tokens]
    assert noisy.changed.ids.tolist() == np.repeat(expected.changed(text), subwords).tolist()


MARKED = {
    "subword-nmt": ["lo@@", "w@@", "er", "cat"],
    "sentencepiece": ["\u2581lo", "w", "er", "\u2581cat"],
    "none": ["lo", "w", "er", "cat"],
}


@pytest.mark.parametrize(
    ("subwords", "masks"), [("subword-nmt", 2), ("sentencepiece", 2), ("none", 4)]
)
def test_one_mask_replaces_all_subwords_of_a_word(subwords: str, masks: int) -> None:
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *MARKED[subwords], "<mask>"]
    boundaries = WordBoundaries.of(symbols, subwords)
    words, _ = boundaries.split_words(to_spans([[4, 5, 6, 7]]))
    known = counted(words, mask=8)
    chosen = IdNoise.of(parse_id_noise("direct:keep=0:mask=1"), boundaries, known, 8, 99)
    noisy = chosen(to_spans([[4, 5, 6, 7], [7]]), Random.of((1,), 2))
    assert lines_of(noisy) == [[8] * masks, [8]]
    assert noisy.changed.ids.all()
    assert len(noisy.changed.ids) == 5


def test_long_noisy_line_is_truncated_at_a_word_boundary() -> None:
    def double_words(clean: TokenBatch, draws: Random) -> NoisedBatch:
        origin = np.repeat(np.arange(len(clean.tokens)), 2)
        return NoisedBatch(TokenBatch(clean.tokens[origin], clean.lengths * 2), origin)

    doubling = IdNoise(double_words, BOUNDARIES, lexicon(), max_length=5)
    noisy = doubling(to_spans([[4, 5, 6], [6, 7], [], [4, 5, 4, 5]]), Random.of((1,), 4))
    assert lines_of(noisy) == [[4, 5, 4, 5, 6], [6, 6, 7, 7], [], [4, 5, 4, 5]]
    # the last line has lost its second word


@pytest.mark.parametrize("kind", [*WITHIN_WORDS, "dinoise"])
def test_noises_within_words_are_rejected(kind: str) -> None:
    with pytest.raises(ConfigurationError, match=kind):
        parse_id_noise(f"direct,{kind}")


def test_only_masking_noise_uses_the_mask() -> None:
    assert uses_mask(parse_id_noise("direct"))
    assert uses_mask(parse_id_noise("denoise,direct:keep=0.5"))
    assert not uses_mask(parse_id_noise("denoise,filtering"))
    assert not uses_mask(parse_id_noise("direct:mask=0"))
    unmasked = IdNoise.of(parse_id_noise("direct:mask=0"), BOUNDARIES, lexicon(), None, 99)
    noisy = unmasked(to_spans([[6, 7, 6]] * 99), Random.of((1,), 99))
    assert MASK not in noisy.lines.ids
