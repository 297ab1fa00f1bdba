"""Noise on ids is equal to the same noise on words; word boundaries, and words to insert."""

from __future__ import annotations

from collections import Counter
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
    sample_blocks,
    sequence_keys,
    uses_mask,
)
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.noise.batch import NoisedBatch, Random, TokenBatch
from fairseq_ssl.noise.block_noise import WITHIN_WORDS, build_noise
from fairseq_ssl.noise.byte_words import WordTable
from fairseq_ssl.noise.tokens import Unigrams
from fairseq_ssl.text.spans import Spans
from tests.unit.data.in_memory import Rows
from tests.unit.models.tiny_models import EOS, UNK

SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>", "a@@", "b", "c", "d", "e@@", "f", "<mask>"]
A, B, C, D, MASK = 4, 5, 6, 7, 10
NOISES = ["direct", "direct:keep=0.6:mask=0.1,shuffle", "shuffle:mean=0.3:std=0.1"]
WORDS = st.sampled_from([[4, 5], [4, 4, 6], [8, 7], [5], [6], [7], [9], [3]])
LINES = st.lists(st.lists(WORDS, max_size=7).map(lambda words: [*chain(*words)]), max_size=6)
COUNTED = [[4, 5], [6], [7], [7], [8, 8, 9], [9]]
BOUNDARIES = WordBoundaries.of(SYMBOLS, "subword-nmt")


def to_spans(lines: list[list[int]]) -> Spans:
    return Spans.of([np.array(line, dtype=np.int64) for line in lines])


def to_lists(spans: Spans) -> list[list[int]]:
    return [row.tolist() for row in np.split(spans.ids, spans.starts[1:])][: len(spans)]


MARKED = ["<s>", "<pad>", "</s>", "<unk>", "\u2581the", "\u2581", "cat", ".", "lo@@", "w@@", "er"]
THE, MARK, CAT, DOT, LO, W, ER = range(4, 11)


def split_words(subwords: str, lines: list[list[int]]) -> list[list[list[int]]]:
    """Return the words of each line, as lists of ids."""
    words, counts = WordBoundaries.of(MARKED, subwords).split_words(to_spans(lines))
    each = iter(to_lists(words))
    split_lines = [[next(each) for _ in range(count)] for count in counts]
    assert not list(each)
    return split_lines


def test_word_boundaries_by_hand() -> None:
    # "cat" has no mark but is the first token of the second line
    lines = [[THE, CAT, DOT, MARK, CAT], [CAT, THE], [], [MARK]]
    expected = [[[THE, CAT, DOT], [MARK, CAT]], [[CAT], [THE]], [], [[MARK]]]
    assert split_words("sentencepiece", lines) == expected
    # the second line ends within a word, which does not continue in the next line
    lines = [[LO, W, ER, CAT, W, ER], [CAT, LO], [ER]]
    expected = [[[LO, W, ER], [CAT], [W, ER]], [[CAT], [LO]], [[ER]]]
    assert split_words("subword-nmt", lines) == expected


@given(lines=st.lists(st.lists(st.integers(3, 10), max_size=8), max_size=5))
def test_words_are_equal_to_a_loop_over_subwords(lines: list[list[int]]) -> None:
    for subwords in ("sentencepiece", "subword-nmt", "none"):
        for line, words in zip(lines, split_words(subwords, lines), strict=True):
            assert words == split_words_in_a_loop(subwords, line)


def split_words_in_a_loop(subwords: str, line: list[int]) -> list[list[int]]:
    words: list[list[int]] = []
    for before, i in zip([None, *line], line, strict=False):
        continues = {
            "none": False,
            "sentencepiece": not MARKED[i].startswith("\u2581"),
            "subword-nmt": before is not None and MARKED[before].endswith("@@"),
        }[subwords]
        if words and continues:
            words[-1].append(i)
        else:
            words.append([i])
    return words


@pytest.mark.parametrize("subwords", ["sentencepiece", "subword-nmt"])
def test_a_dictionary_without_marks_is_rejected(subwords: str) -> None:
    with pytest.raises(ConfigurationError, match="--noise-subwords"):
        WordBoundaries.of(["<s>", "</s>", "the", "cat"], subwords)


def text(*lines: list[int]) -> Rows:
    return Rows([*line, EOS] for line in lines)


def counted(words: Spans, known: tuple[int, ...] = (), mask: int | None = None) -> Lexicon:
    is_known = np.isin(np.arange(len(SYMBOLS)), known or np.arange(len(SYMBOLS)))
    return Lexicon.counted(words, np.ones(len(words), np.int64), is_known, mask)


def read_lexicon(*lines: list[int], mask: int | None = None) -> Lexicon:
    """Count the words of a text with subwords."""
    rows = text(*lines)
    words, _ = BOUNDARIES.split_words(sample_blocks(rows, rows.sizes))
    return counted(words, (A, B, C, D), mask)


def counts(lexicon: Lexicon) -> dict[tuple[int, ...], int]:
    return dict(zip(map(tuple, to_lists(lexicon.words)), lexicon.counts.tolist(), strict=True))


def test_words_are_counted_and_the_mask_is_never_sampled() -> None:
    lines = [[A, B, C, A, B], [B, UNK, C], [A, UNK, MASK], [], [D]]
    lexicon = read_lexicon(*lines, mask=MASK)
    # "a@@ <unk>" is not counted, since it contains <unk>
    expected = {(A, B): 2, (C,): 2, (B,): 1, (D,): 1}
    assert counts(lexicon) == {**expected, (MASK,): 0}
    assert (np.diff(lexicon.keys.astype(object)) > 0).all()

    samples = lexicon.unigrams.at((np.arange(6000) + 0.5) / 6000)
    seen = Counter(map(tuple, to_lists(lexicon.of_keys(samples))))
    assert seen == {word: 1000 * count for word, count in expected.items()}
    assert lexicon.of_keys(sequence_keys(Spans.of([np.array([MASK])]))).ids.tolist() == [MASK]


def test_symbols_of_a_dictionary_are_drawn_by_their_counts() -> None:
    words = Spans(np.arange(9), np.ones(9, np.int64))
    known = np.isin(np.arange(9), [A, B, D])  # c is beyond the vocabulary
    lexicon = Lexicon.counted(words, np.array([9, 9, 9, 9, 2, 0, 5, 1, 9]), known)
    assert counts(lexicon) == {(A,): 2, (D,): 1}, "b has no count"


def test_evenly_spaced_lines_of_a_large_text_are_sampled() -> None:
    rows = text(*([i] * 9 for i in range(1000)))
    lines = sample_blocks(rows, rows.sizes, tokens=1000)
    assert lines.lengths.tolist() == [9] * 100
    assert lines.ids[::9].tolist() == list(range(0, 1000, 10))
    lines = sample_blocks(rows, rows.sizes, tokens=7500)
    assert lines.lengths.sum() + len(lines) == 7500
    assert set(np.diff(lines.ids[::9])) == {1, 2}
    assert len(sample_blocks(rows, rows.sizes, tokens=10_001)) == 1000
    assert len(sample_blocks(rows, rows.sizes).ids) == 9000


@pytest.mark.parametrize("lines", [[[UNK, UNK], []], [[]], []])
def test_text_without_words_is_rejected(lines: list[list[int]]) -> None:
    with pytest.raises(DataError, match="no words"):
        read_lexicon(*lines)


def lexicon() -> Lexicon:
    return counted(to_spans(COUNTED), mask=MASK)


def noise(words: str) -> IdNoise:
    return IdNoise.of(parse_id_noise(words), BOUNDARIES, lexicon(), MASK, 1000)


def lines_of(noisy: NoisyIds) -> list[list[int]]:
    return to_lists(noisy.lines)


def to_words(ids: list[int]) -> str:
    """Return a line of words. Subwords are joined by +, so that each word is unique."""
    return " ".join(SYMBOLS[i] for i in ids).replace("@@ ", "+")


@pytest.mark.parametrize("words", [*NOISES, "negatives"])
@given(lines=LINES, seed=st.integers(0, 999))
def test_equal_to_noise_on_text(words: str, lines: list[list[int]], seed: int) -> None:
    noisy = noise(words)(to_spans(lines), Random.of((seed,), len(lines)))

    known = lexicon()
    names = list(map(to_words, to_lists(known.words)))
    table = WordTable([*names, "<mask>"])
    resources = {"unigrams": Unigrams(known.unigrams.up_to), "mask_token": len(names)}
    clean = table.start_lines(map(to_words, lines))
    expected = build_noise(parse_id_noise(words), resources)(clean, Random.of((seed,), len(lines)))
    assert [to_words(line) for line in lines_of(noisy)] == table.to_lines(expected.block)
    subwords = [word.count("+") + 1 for word in table.strings(clean.tokens)]
    changed = expected.changed(clean, table.words.same)
    assert noisy.changed.ids.tolist() == np.repeat(changed, subwords).tolist()


@pytest.mark.parametrize(
    ("subwords", "marked", "masks"),
    [
        ("subword-nmt", ["lo@@", "w@@", "er", "cat"], 2),
        ("sentencepiece", ["\u2581lo", "w", "er", "\u2581cat"], 2),
        ("none", ["lo", "w", "er", "cat"], 4),
    ],
)
def test_one_mask_replaces_all_subwords_of_a_word(
    subwords: str, marked: list[str], masks: int
) -> None:
    boundaries = WordBoundaries.of([*SYMBOLS[:4], *marked, "<mask>"], subwords)
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
    assert uses_mask(parse_id_noise("shuffle,direct:keep=0.5"))
    assert not uses_mask(parse_id_noise("shuffle,negatives"))
    assert not uses_mask(parse_id_noise("direct:mask=0"))
    unmasked = IdNoise.of(parse_id_noise("direct:mask=0"), BOUNDARIES, lexicon(), None, 99)
    noisy = unmasked(to_spans([[6, 7, 6]] * 99), Random.of((1,), 99))
    assert MASK not in noisy.lines.ids


@given(words=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=30))
def test_keys_are_equal_if_and_only_if_the_sequences_are_equal(words: list[list[int]]) -> None:
    keys = sequence_keys(to_spans(words)).tolist()
    for word, key in zip(words, keys, strict=True):
        for other, other_key in zip(words, keys, strict=True):
            assert (word == other) == (key == other_key)


def test_no_collision_among_a_hundred_thousand_words_of_ten_ids() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(10)] * 5), -1).reshape(-1)
    words = Spans(grid, np.full(100_000, 5))
    assert len(np.unique(sequence_keys(words))) == 100_000
    joined = words.concat(Spans(np.arange(200_000), np.ones(200_000, np.int64)))
    assert len(np.unique(sequence_keys(joined))) == 300_000
