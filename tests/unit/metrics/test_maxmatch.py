"""MaxMatch: examples, and comparison with a slow reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.maxmatch import scores as maxmatch
from fairseq_ssl.metrics.maxmatch.lattice import TooWideError, lattice
from fairseq_ssl.metrics.maxmatch.merged_arcs import merged_arcs
from fairseq_ssl.metrics.maxmatch.scores import MaxMatch, choose_gold, count_matches
from fairseq_ssl.metrics.maxmatch.wide_lattice import WidePaths
from fairseq_ssl.metrics.metric import f_scores
from fairseq_ssl.text.m2 import M2Edit, M2Sentence, parse_m2
from tests.unit.metrics import direct_maxmatch

README = """\
S The cat sat at mat .
A 3 4|||Prep|||on|||REQUIRED|||-NONE-|||0
A 4 4|||ArtOrDet|||the||a|||REQUIRED|||-NONE-|||0

S The dog .
A 1 2|||NN|||dogs|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

S Giant otters is an apex predator .
A 2 3|||SVA|||are|||REQUIRED|||-NONE-|||0
A 3 4|||ArtOrDet|||-NONE-|||REQUIRED|||-NONE-|||0
A 5 6|||NN|||predators|||REQUIRED|||-NONE-|||0
A 1 2|||NN|||otter|||REQUIRED|||-NONE-|||1
"""
OUTPUTS = ["A cat sat on the mat .", "The dog .", "Giant otters are apex predator ."]

words = st.lists(st.sampled_from("aabcAd"), max_size=7)


@st.composite
def edits(draw: st.DrawFn, source: list[str], output: list[str]) -> list[M2Edit]:
    """Generate edits in any order, which can overlap, repeat, or change nothing."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(source)))
        end = min(len(source), start + draw(st.integers(0, 3)))
        at = draw(st.integers(0, len(output)))
        texts = st.sampled_from(
            [
                " ".join(source[start:end]),
                " ".join(output[at : at + draw(st.integers(0, 3))]),
                " ".join(draw(st.lists(st.sampled_from("abc"), max_size=2))),
            ]
        )
        several = draw(st.lists(texts, min_size=1, max_size=2))
        found.append(M2Edit(start, end, "X", "||".join(text or "-NONE-" for text in several)))
    return found


@st.composite
def corpora(draw: st.DrawFn) -> list[tuple[M2Sentence, str]]:
    pairs = []
    for number in range(draw(st.integers(1, 3))):
        source, output = draw(words), draw(words)
        if draw(st.booleans()):
            output = [word for word in source if draw(st.integers(0, 4))] + output[:2]
        annotators = {n: draw(edits(source, output)) for n in range(draw(st.integers(1, 3)))}
        pairs.append((M2Sentence(tuple(source), annotators, number), " ".join(output)))
    return pairs


def direct(pairs: list[tuple[M2Sentence, str]], *options: Any) -> list[tuple[int, int, int]]:
    gold: list[dict[int, list[direct_maxmatch.Gold]]] = [
        {
            number: [
                (e.start, e.end, " ".join(sentence.words[e.start : e.end]), e.alternatives)
                for e in found
            ]
            for number, found in sentence.annotators.items()
        }
        for sentence, _ in pairs
    ]
    sources = [" ".join(sentence.words) for sentence, _ in pairs]
    return direct_maxmatch.counts(sources, [output for _, output in pairs], gold, *options)


def test_example_of_the_authors() -> None:
    sentences = list(parse_m2(README.splitlines(), "gold.m2"))
    found = choose_gold(count_matches(list(zip(sentences, OUTPUTS, strict=True))))
    # on, the (not A); no edit, as the second annotator; are, no article (not predator)
    assert found == [(2, 3, 2), (0, 0, 0), (2, 2, 3)]
    total = [sum(column) for column in zip(*found, strict=True)]
    assert f_scores(*total) == pytest.approx((0.8, 0.8, 0.8))


@settings(max_examples=250)
@given(corpora(), st.sampled_from([0, 1, 2, 2, 3]), st.sampled_from([0.5, 1.0]))
def test_scores_equal_a_slow_reference(
    pairs: list[tuple[M2Sentence, str]], unchanged: int, beta: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maxmatch, "UNCHANGED", unchanged)
        found = choose_gold(count_matches(pairs), beta)
    assert found == direct(pairs, unchanged, beta)


@pytest.mark.parametrize(
    ("source", "output", "edit", "expected"),
    [
        # words inserted before the first one, and later
        ("b c", "x a b c", M2Edit(0, 0, "M", "x a"), (1, 1, 1)),
        ("b c", "b x a c", M2Edit(1, 1, "M", "x a"), (1, 1, 1)),
        # an edit can have two unchanged words, but not three
        ("a b c d", "x b c y", M2Edit(0, 4, "R", "x b c y"), (1, 1, 1)),
        ("a b c d e", "x b c d y", M2Edit(0, 5, "R", "x b c d y"), (0, 2, 1)),
        ("a b", "a b", M2Edit(0, 1, "UNK", "a"), (0, 0, 1)),
        ("", "a", M2Edit(0, 0, "M", "a"), (1, 1, 1)),
        ("a", "c", M2Edit(0, 1, "R", "b||c"), (1, 1, 1)),
    ],
)
def test_single_edits(
    source: str,
    output: str,
    edit: M2Edit,
    expected: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sentence = M2Sentence(tuple(source.split()), {0: [edit]})
    assert count_matches([(sentence, output)]) == [[expected]]
    monkeypatch.setattr(maxmatch, "MAX_ARCS", -1)
    assert count_matches([(sentence, output)]) == [[expected]]


def test_annotator_depends_on_beta() -> None:
    source = [word for letter in "abcd" for word in (letter, ".", ".", ".")]
    right = [M2Edit(4 * n, 4 * n + 1, "R", word) for n, word in enumerate("AB")]
    wrong = [M2Edit(4 * n + 2, 4 * n + 3, "R", "x") for n in range(3)]
    gold = [M2Sentence(tuple(source), {0: right[:1], 1: [*right, *wrong]}, 1)]
    output = "A . . . B . . . C . . . D . . ."
    for beta, expected in ((0.5, (0.5, 0.4)), (10.0, (0.25, 1.0))):
        metric = MaxMatch(gold, beta=beta)
        for score in (metric.corpus_score([output]), metric.sentence_score(output, 0)):
            values = score.values
            found = (values["Precision"] / 100, values["Recall"] / 100)
            assert found == pytest.approx(expected)


class Watched(dict[int, dict[int, int]]):
    """A list that counts its comparisons."""

    comparisons = 0

    def __getitem__(self, key: int) -> dict[int, int]:
        self.comparisons += 1
        return super().__getitem__(key)


def test_time_for_different_sentences_is_linear_in_the_cells() -> None:
    """There are 25 million edits between 100 words and 100 others, which the script lists."""
    source, output = [f"a{n}" for n in range(100)], [f"b{n}" for n in range(100)]
    wide = lattice(source, output)
    assert len(wide.cells) == 101 * 101
    assert merged_arcs(wide, 2, maxmatch.MAX_ARCS) is None
    steps = Watched(wide.steps)
    object.__setattr__(wide, "steps", steps)
    gold = [M2Edit(3, 4, "R", "b3"), M2Edit(50, 52, "R", "b50 b51 b52"), M2Edit(70, 71, "R", "x")]
    sentence = M2Sentence(tuple(source), {0: gold})
    paths = WidePaths(wide, 2)
    found = paths.best([maxmatch.gold_edit(sentence, edit) for edit in gold])
    assert steps.comparisons < 2 * len(wide.cells)
    # words before, between and after the two correct edits
    assert [edit[:2] for edit in found] == [(0, 3), (3, 4), (4, 50), (50, 52), (52, 100)]
    assert count_matches([(sentence, " ".join(output))]) == [[(2, 5, 3)]]


def test_wide_lattice_has_the_same_best_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the man who see a old dogs in park go to home quick"
    source, output = text.split(), "the man that saw an old dog in the park went home quickly"
    gold = [
        M2Edit(2, 4, "R", "that saw"),
        M2Edit(4, 5, "R", "an"),
        M2Edit(6, 7, "R", "dogs||dog"),
        M2Edit(8, 8, "M", "the"),
        M2Edit(9, 11, "R", "went"),
    ]
    sentence = M2Sentence(tuple(source), {0: gold, 1: gold[:2], 2: []})
    (exact,) = count_matches([(sentence, output)])
    assert exact == direct_each(sentence, output)
    assert exact[0].correct == 5
    monkeypatch.setattr(maxmatch, "merged_arcs", lambda *_: None)
    assert count_matches([(sentence, output)]) == [exact]


def direct_each(sentence: M2Sentence, output: str) -> list[tuple[int, int, int]]:
    return [
        direct([(M2Sentence(sentence.words, {0: found}), output)])[0]
        for found in sentence.annotators.values()
    ]


def test_very_long_hypotheses_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooWideError):
        lattice(["a"] * 3, ["b"] * 3, max_cells=15)
    assert len(lattice(["a"] * 3, ["b"] * 3, max_cells=16).cells) == 16
    monkeypatch.setattr(maxmatch, "lattice", lambda *_, **__: lattice(["a"] * 3, ["b"] * 3, 5))
    with pytest.raises(DataError, match="sentence in line 7 of the M2 file has 2 words"):
        count_matches([(M2Sentence(("a",), {0: []}, 7), "b b")])
