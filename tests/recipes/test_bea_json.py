"""Essays of BEA-2019: edits of characters become edits of tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spacy

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.m2 import M2Sentence
from tests.conftest import ROOT
from tests.recipes.recipe import script
from tests.unit.metrics.small_pipeline import small_pipeline

bea_json = script(ROOT / "examples/common/bea_json.py")
Edit = tuple[int, int, str | None]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = small_pipeline(tmp_path_factory.mktemp("spacy"))
    nlp = spacy.load(folder)
    nlp.add_pipe("sentencizer")
    nlp.to_disk(folder)
    return str(folder)


def converted(pipeline: str, text: str, *edits: Edit) -> list[M2Sentence]:
    annotator = bea_json.load_annotator(pipeline)
    return list(bea_json.convert_essay(text, [bea_json.Edit(*edit) for edit in edits], annotator))


def found(pipeline: str, text: str, *edits: Edit) -> list[list[tuple[int, int, str]]]:
    """Return the edits of each sentence."""
    return [
        [(edit.start, edit.end, edit.correction) for edit in sentence.annotators[0]]
        for sentence in converted(pipeline, text, *edits)
    ]


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        ("a cat sits .", (2, 5, "dog"), [(1, 2, "dog")]),
        ("a cat sits .", (0, 5, "a dog"), [(1, 2, "dog")]),
        ("a cat sits .", (2, 6, ""), [(1, 2, "")]),
        ("a cat sits .", (1, 2, ""), []),
        ("a cat sits .", (1, 2, " , "), [(1, 1, ",")]),
        ("a cat sits .", (2, 2, "big "), [(1, 1, "big")]),
        ("a cat sits .", (0, 0, "So "), [(0, 0, "So")]),
        ("a cat sits .", (12, 12, " ?!"), [(4, 4, "? !")]),
        ("a cat sits .", (5, 5, "s"), [(2, 2, "s")]),
        ("a cat sits .", (9, 10, ""), [(2, 3, "sit")]),
        ("a cat sits .", (3, 3, "h"), [(1, 2, "chat")]),
        ("a cat sits .", (3, 8, "ar f"), [(1, 3, "car fts")]),
        ("a cat sits .", (2, 5, "very  big\ncat"), [(1, 1, "very big")]),
        ("a cat sits .", (2, 5, None), [(1, 2, "cat")]),
        ("a cat sits .", (2, 2, None), [(1, 1, "")]),
        ("  a \t cat  sits .", (6, 9, "dog"), [(1, 2, "dog")]),
        ("a cat sits . ", (12, 13, ""), []),
    ],
)
def test_an_edit_of_characters(
    pipeline: str, text: str, edit: Edit, expected: list[tuple[int, int, str]]
) -> None:
    assert found(pipeline, text, edit) == [expected]


def test_an_edit_of_a_token_that_is_already_edited_is_dropped(pipeline: str) -> None:
    text = "a caat sits ."
    assert found(pipeline, text, (2, 4, "co"), (5, 6, "st")) == [[(1, 2, "coat")]]
    assert found(pipeline, text, (2, 6, "cat"), (5, 6, "st")) == [[(1, 2, "cat")]]


def test_an_uncorrected_error_that_contains_a_correction_is_dropped(pipeline: str) -> None:
    text = "a cat sits ."
    assert found(pipeline, text, (0, 10, None), (2, 5, "dog")) == [[(1, 2, "dog")]]
    assert found(pipeline, text, (0, 10, None), (2, 2, "big ")) == [[(1, 1, "big")]]
    assert found(pipeline, text, (0, 0, "Oh "), (0, 5, None)) == [[(0, 0, "Oh"), (0, 2, "a cat")]]


def test_sentences_and_lines(pipeline: str) -> None:
    text = "It rains. He\nsits. They\n\n \nsleep."
    edits = [
        (9, 9, "?"),  # punctuation between sentences: of the first
        (10, 12, "She"),
        (11, 15, "x"),  # across lines
        (18, 18, "!"),
        (19, 23, "Cats"),
    ]
    sentences = converted(pipeline, text, *edits)
    shown = [
        (
            " ".join(one.words),
            [(edit.start, edit.end, edit.correction) for edit in one.annotators[0]],
        )
        for one in sentences
    ]
    assert shown == [
        ("It rains .", [(3, 3, "?")]),
        ("He", [(0, 1, "She")]),
        ("sits .", [(2, 2, "!")]),
        ("They", [(0, 1, "Cats")]),
        ("sleep .", []),
    ]
    across = found(pipeline, "It rains. He sits.", (7, 12, "x"), (10, 10, "But "))
    assert across == [[], [(0, 0, "But")]]


def test_a_file(
    pipeline: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Edits have ERRANT types, and quotes are normalized."""
    edits = [[0, 3, None, "M"], [8, 11, "sits", "AGV"], [14, 14, " the", "MD"]]
    essay = {"text": "the cat sit on mat.\nA dog\u2019s.", "edits": [[0, edits]]}
    path = tmp_path / "essays.json"
    path.write_text(json.dumps(essay) + "\n", "utf-8")
    monkeypatch.setattr("sys.argv", ["bea_json.py", str(path), "--spacy-model", pipeline])
    bea_json.main()
    expected = """\
S the cat sit on mat .
A 0 1|||UNK|||the|||REQUIRED|||-NONE-|||0
A 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0
A 4 4|||M:DET|||the|||REQUIRED|||-NONE-|||0

S A dog 's .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

"""
    assert capsys.readouterr().out == expected
    for damaged in (
        "{",
        '{"text": "a"}',
        '{"text": 1, "edits": [[0, []]]}',
        '{"text": "", "edits": 1}',
        '{"text": "a", "edits": [[0, [[0, 1, 0]]]]}',
        '{"text": "a", "edits": [[0, [[0, 1e999, "b"]]]]}',
    ):
        path.write_text(damaged, "utf-8")
        with pytest.raises(DataError, match=r"essays.json:1 is not an essay of BEA-2019"):
            list(bea_json.convert_file(path, pipeline, 1))
