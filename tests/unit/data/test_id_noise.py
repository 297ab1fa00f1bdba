"""Noise on ids is noise on the words they stand for."""

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


def laid(lines: list[list[int]]) -> Spans:
    return Spans.of([np.array(line, dtype=np.int64) for line in lines])


def lexicon() -> Lexicon:
    return Lexicon.counted(laid(COUNTED), [], MASK)


def noise(words: str, longest: int = 1000) -> IdNoise:
    return IdNoise.of(parse_id_noise(words), BOUNDARIES, lexicon(), MASK, longest)


def lines_of(noisy: NoisyIds) -> list[list[int]]:
    lines = noisy.lines
    return [lines.ids[s:e].tolist() for s, e in zip(lines.starts, lines.ends, strict=True)]


def written(ids: list[int]) -> str:
    """The words of a line, each as its subwords joined by +, so that none is another's."""
    return " ".join(SYMBOLS[i] for i in ids).replace("@@ ", "+")


@pytest.mark.parametrize("words", [*NOISES, "filtering"])
@given(lines=LINES, seed=st.integers(0, 999))
def test_it_is_the_noise_of_the_words_as_text(
    words: str, lines: list[list[int]], seed: int
) -> None:
    noisy = noise(words)(laid(lines), Random.of((seed,), len(lines)))

    known = lexicon()
    spans = np.split(known.words.ids, np.cumsum(known.words.lengths)[:-1])
    names = np.array([written(span.tolist()) for span in spans], dtype=object)
    unigrams = Unigrams(names, known.unigrams.up_to)
    text = TokenBatch.of_words(map(written, lines))
    as_text = build_noise(parse_id_noise(words), {"unigrams": unigrams})
    expected = as_text(text, Random.of((seed,), len(lines)))
    assert [written(line) for line in lines_of(noisy)] == expected.block.to_lines()
    pieces = [word.count("+") + 1 for word in text.tokens]
    assert noisy.changed.ids.tolist() == np.repeat(expected.changed(text), pieces).tolist()


MARKED = {
    "subword-nmt": ["lo@@", "w@@", "er", "cat"],
    "sentencepiece": ["\u2581lo", "w", "er", "\u2581cat"],
    "none": ["lo", "w", "er", "cat"],
}


@pytest.mark.parametrize(
    ("subwords", "hidden"), [("subword-nmt", 2), ("sentencepiece", 2), ("none", 4)]
)
def test_a_word_is_hidden_whole_by_one_mask_and_all_of_it_is_touched(
    subwords: str, hidden: int
) -> None:
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *MARKED[subwords], "<mask>"]
    boundaries = WordBoundaries.of(symbols, subwords)
    words, _ = boundaries.split_words(laid([[4, 5, 6, 7]]))
    known = Lexicon.counted(words, [], mask=8)
    chosen = IdNoise.of(parse_id_noise("direct:keep=0:mask=1"), boundaries, known, 8, 99)
    noisy = chosen(laid([[4, 5, 6, 7], [7]]), Random.of((1,), 2))
    assert lines_of(noisy) == [[8] * hidden, [8]]
    assert noisy.changed.ids.all()
    assert len(noisy.changed.ids) == 5


@pytest.mark.parametrize("words", NOISES)
def test_a_line_gets_what_it_would_get_alone(words: str) -> None:
    lines = [[4, 5, 6, 7, 8, 8, 9], [], [6, 7], [3, 3, 9, 8]] * 3
    numbers = np.array([7, 3, 20, 1, 0, 2, 4, 5, 6, 8, 9, 11])
    together = noise(words)(laid(lines), Random.of((5, 1), numbers))
    alone = [
        noise(words)(laid([line]), Random.of((5, 1), numbers[place : place + 1]))
        for place, line in enumerate(lines)
    ]
    assert lines_of(together) == [line for one in alone for line in lines_of(one)]
    assert together.changed.ids.tolist() == [t for one in alone for t in one.changed.ids.tolist()]


def test_a_word_that_is_replaced_by_itself_is_not_touched() -> None:
    only_c = Lexicon.counted(laid([[6]]), [])
    replacing = parse_id_noise("filtering:delete=0:replace=1:distance=0")
    on_ids = IdNoise.of(replacing, BOUNDARIES, only_c, None, 1000)
    noisy = on_ids(laid([[6, 4, 5, 6]]), Random.of((1,), 1))
    assert lines_of(noisy) == [[6, 6, 6]]
    assert noisy.changed.ids.tolist() == [False, True, True, False]


def test_what_noise_adds_beyond_the_longest_line_is_cut_off_in_whole_words() -> None:
    def doubled(clean: TokenBatch, draws: Random) -> NoisedBatch:
        origin = np.repeat(np.arange(len(clean.tokens)), 2)
        return NoisedBatch(TokenBatch(clean.tokens[origin], clean.lengths * 2), origin)

    shortened = IdNoise(doubled, BOUNDARIES, lexicon(), max_length=5)
    noisy = shortened(laid([[4, 5, 6], [6, 7], [], [4, 5, 4, 5]]), Random.of((1,), 4))
    assert lines_of(noisy) == [[4, 5, 4, 5, 6], [6, 6, 7, 7], [], [4, 5, 4, 5]]
    # of the last line the second word is gone


def test_noises_that_look_into_words_are_refused_by_name() -> None:
    for kind in WITHIN_WORDS:
        with pytest.raises(ConfigurationError, match=f"'{kind}' needs the spelling") as refused:
            parse_id_noise(f"direct,{kind}")
        assert f"`fairseq-ssl noise --method direct,{kind}`" in str(refused.value)
    with pytest.raises(ConfigurationError, match=r"--noise dinoise: .*Did you mean 'denoise'"):
        parse_id_noise("dinoise")


@pytest.mark.parametrize("kind", [kind for kind in NOISES if kind not in WITHIN_WORDS])
def test_every_other_noise_works_on_ids(kind: str) -> None:
    noisy = noise(kind)(laid([[4, 5, 6, 7, 8, 9]] * 50), Random.of((1,), 50))
    assert set(noisy.lines.ids.tolist()) <= set(range(4, 11))
    assert 0 < noisy.changed.ids.sum() < 300


def test_only_a_noise_that_hides_words_needs_the_mask() -> None:
    assert uses_mask(parse_id_noise("direct"))
    assert uses_mask(parse_id_noise("denoise,direct:keep=0.5"))
    assert not uses_mask(parse_id_noise("denoise,filtering"))
    assert not uses_mask(parse_id_noise("direct:mask=0"))
    unmasked = IdNoise.of(parse_id_noise("direct:mask=0"), BOUNDARIES, lexicon(), None, 99)
    noisy = unmasked(laid([[6, 7, 6]] * 99), Random.of((1,), 99))
    assert MASK not in noisy.lines.ids
