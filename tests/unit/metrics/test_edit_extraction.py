"""Alignment and batches of ERRANT's edits, compared with errant itself."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.lookups import Lookups
from spacy.tokens import Doc
from threadpoolctl import threadpool_info, threadpool_limits

from fairseq_ssl.metrics import Errant, edit_extraction, score_systems
from fairseq_ssl.metrics.edit_extraction import Annotator, align_documents
from fairseq_ssl.text.m2 import M2Edit, M2Sentence
from tests.unit.metrics.small_pipeline import TABLE, small_pipeline

Alignment: Any = import_module("errant.alignment").Alignment
parsed: Counter[str] = Counter()
"""Numbers of parses by sentence."""


@Language.component("count_parses")
def count_parses(document: Any) -> Any:
    parsed[document.text.strip()] += 1
    return document


blas_threads: set[int] = set()
"""Numbers of threads of numpy's matrix products while sentences are parsed."""


@Language.component("count_threads")
def count_threads(document: Any) -> Any:
    blas_threads.update(
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    )
    return document


@pytest.fixture(scope="module", autouse=True)
def counting_components() -> Iterator[None]:
    """Load the components of this file from folders."""
    with pytest.MonkeyPatch.context() as patch:
        names = {"count_parses", "count_threads"}
        patch.setattr(edit_extraction, "FACTORIES", edit_extraction.FACTORIES | names)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = small_pipeline(tmp_path_factory.mktemp("model"))
    pipeline = spacy.load(path)
    pipeline.add_pipe("count_parses")
    pipeline.to_disk(path)
    return path


@pytest.fixture(scope="module")
def pipeline(model: Path) -> Any:
    return spacy.load(model)


words = [line.split()[0] for line in TABLE.splitlines()]
several = st.lists(st.sampled_from([*words, "The", "caat"]), max_size=7)


@settings(max_examples=200, deadline=None)
@given(several, st.permutations(range(7)), several)
def test_alignment_equals_that_of_errant(
    pipeline: Any, source: list[str], order: list[int], others: list[str]
) -> None:
    """Corrected sentences have the words of the source in another order, and other words."""
    moved = [source[at] for at in order if at < len(source)]
    before = _parse(pipeline, [*others, *source])
    for corrected in (moved, others, [*others[:2], *moved], ["cats", *others[1:], *moved, *source]):
        after = _parse(pipeline, corrected)
        assert align_documents(before, after) == Alignment(before, after).align_seq


def test_cost_of_a_transposition_is_rounded_as_in_errant(pipeline: Any) -> None:
    """A transposition wins ties only if its cost is summed in the same order."""
    before, after = (
        _parse(pipeline, text.split()) for text in ("cat on cats at", "dog cats at on")
    )
    expected = [("S", 0, 1, 0, 1), ("T3", 1, 4, 1, 4)]
    assert align_documents(before, after) == Alignment(before, after).align_seq == expected


SOURCES = ["the cat sit on mat .", "a caat sat .", "the cats sat at the mat .", "a dog sits ."]
SYSTEMS = (
    ["the cat sits on the mat .", "a cat sat .", "the cat sat on mat .", "a dog sits ."],
    ["the cat sat on mat .", "a  cat sat . ", "", "a dog sits ."],
)


def test_a_batch_has_the_edits_of_errant(model: Path, pipeline: Any) -> None:
    errant: Any = import_module("errant").load("en", pipeline)
    pairs = [
        (source, texts, line)
        for line, (source, *texts) in enumerate(zip(SOURCES, *SYSTEMS, strict=True), 1)
    ]
    expected = [
        M2Sentence(
            tuple(source.split()),
            {
                number: [
                    M2Edit(edit.o_start, edit.o_end, edit.type, edit.c_str)
                    for edit in errant.annotate(errant.parse(source), errant.parse(text))
                ]
                for number, text in enumerate(texts)
            },
            line,
        )
        for source, texts, line in pairs
    ]
    annotator = Annotator(str(model))
    parsed.clear()
    assert annotator.sentences(pairs) == expected
    changed = {" ".join(text.split()) for text in [*SOURCES[:3], *SYSTEMS[0][:3], *SYSTEMS[1][:3]]}
    assert parsed == dict.fromkeys(changed, 1)


def ruled_pipeline(*, last: str = "", wide: bool = False) -> Any:
    """Return a pipeline whose rules depend on form, tag and dependency, and on the next token."""
    pipeline = spacy.blank("en")
    tagger: Any = pipeline.add_pipe("attribute_ruler", name="tagger")
    for word, tag, _, _, dep in map(str.split, TABLE.splitlines()):
        tagger.add([[{"LOWER": word}]], {"TAG": tag, "DEP": dep})
    tagger.add([[{"LOWER": "sat"}, {"LOWER": "on"}]], {"TAG": "VBN"})
    rules: Any = pipeline.add_pipe("attribute_ruler")
    rules.add([[{}]], {"POS": "X"})
    for tag, pos in (("DT", "DET"), ("NN", "NOUN"), ("NNS", "NOUN"), ("IN", "ADP"), ("JJ", "ADJ")):
        rules.add([[{"TAG": tag}]], {"POS": pos, "MORPH": "Number=Plur" if tag == "NNS" else "_"})
    rules.add([[{"TAG": {"REGEX": "^VB"}}]], {"POS": "VERB", "MORPH": "Tense=Past"})
    rules.add([[{"LOWER": "mat", "DEP": "pobj"}]], {"POS": "PROPN", "LEMMA": "Mat"})
    rules.add([[{"TAG": "DT"}, {"LOWER": "dog"}]], {"POS": "PROPN", "LEMMA": "Rex"}, index=1)
    rules.add([[{"LOWER": "cats", "OP": "+"}, {"LOWER": "."}]], {"LEMMA": "pride"})
    if wide:
        rules.add([[{"LENGTH": 3}]], {"POS": "X"})
    tables = Lookups()
    tables.add_table("lemma_index", {"verb": ["sit"], "noun": ["cat"]})
    tables.add_table("lemma_exc", {"verb": {"sat": ["sit"]}})
    tables.add_table("lemma_rules", {"noun": [["s", ""]], "verb": [["s", ""]]})
    lemmatizer: Any = pipeline.add_pipe("lemmatizer")
    lemmatizer.initialize(lookups=tables)
    if last:
        pipeline.add_pipe(last)
    return pipeline


@pytest.mark.parametrize(
    ("options", "is_cached"),
    [({}, True), ({"wide": True}, False), ({"last": "count_parses"}, False)],
)
def test_cached_rules_have_the_annotations_of_the_pipeline(
    tmp_path: Path, options: dict[str, Any], is_cached: bool
) -> None:
    pipeline = ruled_pipeline(**options)
    pipeline.to_disk(tmp_path / "ruled")
    annotator = Annotator(str(tmp_path / "ruled"))
    assert (annotator._rules is not None) == is_cached
    draw = random.Random(1)
    lemmas = set()
    for _ in range(3):  # most tokens of the last batches are known
        texts = [draw.choices([*words, "Cats", "dogs"], k=number % 9) for number in range(60)]
        documents = annotator._parse(Doc(annotator._nlp.vocab, text) for text in texts)
        for text, document in zip(texts, documents, strict=True):
            assert token_annotations(document) == token_annotations(_parse(pipeline, text))
            lemmas |= {token.lemma_ for token in document}
    assert {"Rex", "Mat", "pride", "sit", "cat"} <= lemmas


def token_annotations(document: Any) -> list[tuple[str, ...]]:
    return [
        (token.text, token.tag_, token.dep_, token.pos_, str(token.morph), token.lemma_)
        for token in document
    ]


def test_sentences_are_parsed_with_one_thread(model: Path, tmp_path: Path) -> None:
    """More threads take many times the CPU time, and are slower on a busy machine."""
    pipeline = spacy.load(model)
    pipeline.add_pipe("count_threads")
    pipeline.to_disk(tmp_path / "threads")
    annotator = Annotator(str(tmp_path / "threads"))
    with threadpool_limits(limits=2, user_api="blas"):
        for work in (
            lambda: annotator.edits(SOURCES[0], SYSTEMS[0][0]),
            lambda: annotator.sentences([(SOURCES[2], [SYSTEMS[0][2]], 1)]),
        ):
            blas_threads.clear()
            work()
            assert blas_threads == {1}
        blas_threads.clear()
        pipeline("a cat")
        assert 2 in blas_threads


def test_systems_share_the_parses_of_sources(model: Path, tmp_path: Path) -> None:
    names = ["first", "second"]
    for name, lines in zip(names, SYSTEMS, strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    metric = Errant.from_references(SOURCES, [SYSTEMS[0]], model=str(model))
    alone = [metric.statistics(lines).tolist() for lines in SYSTEMS]
    parsed.clear()
    scores = score_systems(metric, {name: [tmp_path / name] for name in names})
    assert [scores.systems[name][0].rows.tolist() for name in names] == alone
    assert set(parsed.values()) == {1}


def test_spacy_does_not_import_torch() -> None:
    """The import would take longer than the pipeline, and workers could not be forked."""
    code = (
        "import sys\n"
        "from fairseq_ssl.metrics.edit_extraction import Annotator\n"
        "assert Annotator(None).edits('a b', 'a')\n"
        "assert 'torch' not in sys.modules\n"
        "from importlib.util import find_spec\n"
        "assert find_spec('torch')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _parse(pipeline: Any, tokens: list[str]) -> Any:
    return pipeline(Doc(pipeline.vocab, tokens))
