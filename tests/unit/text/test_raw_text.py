"""Raw text: sentences, tokens, and edits that keep the spacing of what they do not change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.edits.alignment import token_edits
from fairseq_ssl.errors import UsageError
from fairseq_ssl.text.raw_text import (
    LineSegmenter,
    Sentence,
    TokenEdit,
    apply_line_edits,
    line_edits,
)

SPACY, MOSES, ENGLISH, SPACES = map(LineSegmenter.of, ("spacy", "moses", "english", None))


def corrected(line: str, target: str) -> str:
    """Correct the only sentence of a line. `target` has the tokens of the corrected sentence."""
    (sentence,) = SPACY(line)
    edits = token_edits(sentence.tokens, target.split())
    return apply_line_edits(line, line_edits(line, sentence, edits))


CASES = [
    ("He go to  the school.", "He goes to school .", "He goes to school."),
    ("  I am\tfine ,thanks", "I am very fine , thanks", "  I am very\tfine ,thanks"),
    ("Yes I do.", "Yes , I do .", "Yes, I do."),
    ("Yes, I do.", "Yes I do .", "Yes I do."),
    ("Yes , I do .", "Yes , I did .", "Yes , I did ."),
    ("We go home now.", "We go home .", "We go home."),
    ("We go home now .", "We go home .", "We go home ."),
    ("We go home", "We go home .", "We go home."),
    ("dogs, cats", "dogs and cats", "dogs and cats"),
    ("dogs and cats and mice", "dogs , cats and mice", "dogs, cats and mice"),
    ('She say "hello" to me.', 'She says " hello " to me .', 'She says "hello" to me.'),
    ('She say hello"', 'She says " hello "', 'She says "hello"'),
    ('He said "no.', 'He said " no . "', 'He said "no."'),
    ('say "hello', "say hello", "say hello"),
    ('He say no"', 'He says " no " now', 'He says "no" now'),
    ('He " said "no"', 'He said " no " now', 'He said "no" now'),
    ("yes,cats", "no cats", "no cats"),
    ("I dont know", "I do n't know", "I don't know"),
    ("I do not know", "I do n't know", "I don't know"),
    ("a well known man", "a well - known man", "a well-known man"),
    ("a well-known man", "a well known man", "a well known man"),
    ("(see figure 2 )", "( see the figure 2 )", "(see the figure 2 )"),
    ("go to 5 $", "go to $ 5", "go to $5"),
    ("the cat", "cat", "cat"),
    ("cat", "The cat", "The cat"),
    ("  cat ", "the big cat", "  the big cat "),
    ("cat the", "cat", "cat"),
    ("every one", "everyone", "everyone"),
    ("x", "", ""),
    ("It is good , but", "It is good but", "It is good but"),
    ("- dog is nice", "- The dog is nice", "- The dog is nice"),
    (
        "He is teacher - good one.",
        "He is a teacher - a good one .",
        "He is a teacher - a good one.",
    ),
    ("I grew up in '80s .", "I grew up in the ' 80s .", "I grew up in the '80s ."),
    ("I called it 'love'.", "I called it a ' love ' .", "I called it a 'love'."),
    ("# introduction to dogs", "# An introduction to dogs", "# An introduction to dogs"),
    ("TCP / IP", "TCP / the IP", "TCP / the IP"),
    ("it - very", "it , - very", "it, - very"),
    ("red, 'blue' it", "red and ' blue ' it", "red and 'blue' it"),
    ("I saw 'Godfather' twice", "I saw ' The Godfather ' twice", "I saw 'The Godfather' twice"),
    ("I saw 'The Titanic' twice", "I saw ' Titanic ' twice", "I saw 'Titanic' twice"),
]


@pytest.mark.parametrize(("line", "target", "expected"), CASES)
def test_spacing_of_corrected_text(line: str, target: str, expected: str) -> None:
    assert corrected(line, target) == expected


@pytest.mark.parametrize(
    ("line", "tokens", "expected"),
    [
        ('He said: "I like it. I go to school"', ("school", "."), 'to school."'),
        ('"I like it. We go to the" he said.', ("the", "school"), 'the school" he said.'),
    ],
)
def test_quotations_of_several_sentences(line: str, tokens: tuple[str, ...], expected: str) -> None:
    """The second sentence has a closing quote after the token that is replaced."""
    sentence = SPACY(line)[1]
    index = sentence.tokens.index('"') - 1
    edits = line_edits(line, sentence, [TokenEdit(index, index + 1, tokens)])
    assert apply_line_edits(line, edits).endswith(expected)


@pytest.mark.parametrize(
    ("line", "edit", "expected"),
    [
        ("我喜欢猫。", TokenEdit(1, 1, ("很",)), "我很喜欢猫。"),
        ("我很喜欢猫。", TokenEdit(1, 2, ()), "我喜欢猫。"),
        ("我喜欢猫", TokenEdit(4, 4, ("。",)), "我喜欢猫。"),
        ("我喜欢,猫", TokenEdit(3, 4, ("大", "黑")), "我喜欢大黑猫"),
        ('他说"好', TokenEdit(4, 4, ('"', "。")), '他说"好"。'),
        ("我用手机", TokenEdit(2, 2, ("iPhone",)), "我用iPhone手机"),
        ("我 喜欢 猫", TokenEdit(1, 1, ("很",)), "我 很 喜欢 猫"),
        ("I 养 猫", TokenEdit(1, 1, ("also",)), "I also 养 猫"),
    ],
)
def test_text_without_spaces_between_words(line: str, edit: TokenEdit, expected: str) -> None:
    (sentence,) = LineSegmenter.of("spacy", "zh")(line)
    assert apply_line_edits(line, line_edits(line, sentence, [edit])) == expected


@pytest.mark.parametrize(
    ("left", "right", "gap"), [("ฉัน", "แมว", ""), ("ねこ", "が", ""), ("나는", "고양이", " ")]
)
def test_spaces_of_an_insertion_by_script(left: str, right: str, gap: str) -> None:
    sentence = Sentence([left], [0])
    edits = line_edits(left, sentence, [TokenEdit(1, 1, (right,))])
    assert apply_line_edits(left, edits) == left + gap + right


words = st.lists(st.sampled_from(["a", "the", "cat", ",", ".", '"', "(", ")", "-", "'s", "n't"]))


@given(source=words, target=words, gaps=st.lists(st.sampled_from(["", " ", "  ", "\t"])))
def test_unedited_text_stays(source: list[str], target: list[str], gaps: list[str]) -> None:
    line, starts = "", []
    for index, token in enumerate(source):
        starts.append(len(line))
        line += token + (gaps[index % len(gaps)] if gaps else " ")
    edits = token_edits(source, target)
    sentence = Sentence(source, starts)
    found = line_edits(line, sentence, edits) if source else []
    result = apply_line_edits(line, found)
    if source:
        assert "".join(result.split()) == "".join(target)
    # a character outside the replaced tokens and the spaces beside them is not changed
    for edit, text in zip(edits, found, strict=False):
        assert text.start >= (sentence.ends[edit.start - 1] if edit.start else 0)
        if edit.end < len(source):
            assert text.end <= starts[edit.end]
    assert corrected_tokens(source, edits) == target


def corrected_tokens(source: list[str], edits: list[TokenEdit]) -> list[str]:
    result = list(source)
    for edit in reversed(edits):
        result[edit.start : edit.end] = edit.tokens
    return result


def test_adjacent_changes_are_one_edit() -> None:
    edits = token_edits(["a", "b", "c", "d"], ["x", "b", "y", "z", "d"])
    assert edits == [TokenEdit(0, 1, ("x",)), TokenEdit(2, 3, ("y", "z"))]
    edits = token_edits(["a", "b"], ["x", "y", "a", "c", "d"])
    assert edits == [TokenEdit(0, 0, ("x", "y")), TokenEdit(1, 2, ("c", "d"))]


def tokens(segmenter: LineSegmenter, line: str) -> list[list[str]]:
    return [sentence.tokens for sentence in segmenter(line)]


@pytest.mark.parametrize("segmenter", [SPACY, MOSES, ENGLISH])
def test_sentences_and_tokens(segmenter: LineSegmenter) -> None:
    line = ' Mr. Smith isn\'t here.  "Who is it?" he asked... Yes... no! yes yes!'
    found = tokens(segmenter, line)
    assert [one[-1] for one in found] == [".", "...", "!", "!"]
    assert found[1][0] == '"'
    assert found[0][:2] == ["Mr.", "Smith"]
    for sentence in segmenter(line):
        assert sentence.ends is sentence.ends, "not computed for each edit of the sentence"
        for token, start, end in zip(sentence.tokens, sentence.starts, sentence.ends, strict=True):
            assert line[start:end] == token
    starts = [start for sentence in segmenter(line) for start in sentence.starts]
    assert starts == sorted(set(starts))
    assert segmenter("  ") == []


def test_tokens_of_special_lines() -> None:
    assert tokens(SPACY, "a" + " " * 1_000_010 + "b") == [["a", "b"]], "above a limit of spaCy"
    assert tokens(MOSES, "a\x01b, c") == [["a\x01b,", "c"]], "Moses would change the line"
    assert tokens(SPACES, "a . b  c .") == [["a", ".", "b", "c", "."]], "one sentence"
    assert SPACES(" a b") == [Sentence(["a", "b"], [1, 3])]


def test_languages_without_a_tokenizer() -> None:
    with pytest.raises(UsageError, match="xx-none"):
        LineSegmenter.of("spacy", "xx-none")
    with pytest.raises(UsageError, match="tokenizer english supports only en"):
        LineSegmenter.of("english", "de")
