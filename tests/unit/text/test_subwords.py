"""Subword models of both kinds, compared with sentencepiece and subword-nmt; samples."""

from __future__ import annotations

import io
import json
import pickle
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentencepiece
from fairseq.data import Dictionary
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.subwords import sentencepiece_model, subword_nmt_model
from fairseq_ssl.text.subwords.model import (
    MODEL_SUFFIXES,
    SENTENCEPIECE,
    SUBWORD_KINDS,
    SUBWORD_NMT,
    subword_dictionary,
    subword_encoder,
    subword_segmenter,
)
from fairseq_ssl.text.tokenization import SUBWORDS

WORDS = ["the", "cat", "lower", "newest", "widest", "Haus", "über", "running", "<BT>", ".猫", "on"]
TAGS = ("<BT>", "<FT>")


def random_lines(count: int) -> list[str]:
    generator = random.Random(3)
    return [" ".join(generator.choices(WORDS, k=generator.randrange(9))) for _ in range(count)]


def train(kind: str, prefix: Path, tags: tuple[str, ...], size: int = 40) -> Path:
    package = subword_nmt_model if kind == SUBWORD_NMT else sentencepiece_model
    trained = package.train(random_lines(300), prefix, size, tags)
    signature = json.dumps({"method": "subwords", "tags": tags})
    Path(f"{trained.model}.json").write_text(signature, encoding="utf-8")
    return prefix


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    """Train models of both kinds, with and without tags."""
    folder = tmp_path_factory.mktemp("models")
    return {
        (kind, tagged): train(kind, folder / f"bpe.{kind}.{tagged}", TAGS if tagged else ())
        for kind in SUBWORD_KINDS
        for tagged in (False, True)
    }


@pytest.mark.parametrize("kind", SUBWORD_KINDS)
@pytest.mark.parametrize("tagged", [False, True])
def test_leading_tags_do_not_change_the_segmentation(
    models: dict[tuple[str, bool], Path], kind: str, tagged: bool
) -> None:
    plain = subword_encoder(models[kind, tagged])
    encode = subword_encoder(models[kind, tagged], () if tagged else TAGS)
    for line in ["the cat", "<cat> the", "", "overrunning  the\u2028house", "Ω"]:
        assert encode(f"<BT> {line}") == f"<BT> {plain(line)}".rstrip(" ")
        assert encode(f"<FT> <BT> {line}") == f"<FT> <BT> {plain(line)}".rstrip(" ")
    assert "<BT>" not in plain("the BT").split()
    assert tagged or plain("<FT> the").split()[0] != "<FT>"
    assert pickle.loads(pickle.dumps(encode))("<BT> the cat") == encode("<BT> the cat")


@pytest.mark.parametrize("kind", SUBWORD_KINDS)
def test_tag_within_a_line_is_not_segmented(
    models: dict[tuple[str, bool], Path], kind: str
) -> None:
    encode = subword_encoder(models[kind, True])
    assert "<FT>" in encode("the <FT> cat").split()
    assert "<FT>" in encode("the<FT>cat").replace("@@", "").split()
    line = "the <FT> <FT> cat <FT>"
    extra = subword_encoder(models[kind, False], TAGS)
    assert extra(line).split().count("<FT>") == 3
    assert SUBWORDS[kind](extra(line)).split() == line.split()
    if kind == SENTENCEPIECE:
        plain = subword_encoder(models[kind, False])
        the, cat = plain("the"), plain("cat")
        assert extra(line) == f"{the} ▁ <FT> ▁ <FT> {cat} ▁ <FT>"
        assert extra("<FT>x the cat") == plain("<FT>x the cat")


@pytest.mark.parametrize("kind", SUBWORD_KINDS)
def test_joining_inverts_encoding(models: dict[tuple[str, bool], Path], kind: str) -> None:
    encode = subword_encoder(models[kind, True])
    for line in ["the newest Haus über 猫 .", "<BT> overrunning cats", "<BT>", ""]:
        assert SUBWORDS[kind](encode(line)) == line
    assert " " in encode("overrunning")


@pytest.mark.parametrize("kind", SUBWORD_KINDS)
@pytest.mark.parametrize("tagged", [False, True])
def test_dictionary_has_all_subwords_and_tags(
    models: dict[tuple[str, bool], Path], kind: str, tagged: bool, tmp_path: Path
) -> None:
    file = tmp_path / "dict.txt"
    lines = list(subword_dictionary(models[kind, tagged], [] if tagged else TAGS))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    loaded = Dictionary.load(str(file))
    assert len(loaded) == len(lines) + 4
    encode = subword_encoder(models[kind, tagged], TAGS)
    for line in [*random_lines(50), "tac eht nur ünwest", "<BT> over", "<FT> 猫s"]:
        known = [token for token in encode(line).split() if token in loaded]
        missing = set(encode(line).split()) - set(known)
        assert missing <= {"v@@", "▁v", "v"}, line  # no word of the text has a v


def test_training_is_equal_to_sentencepiece(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(
        "".join(f"{line}\n" for line in random_lines(300)), encoding="utf-8"
    )
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "theirs"),
        vocab_size=40,
        model_type="bpe",
        character_coverage=0.99,
        user_defined_symbols=list(TAGS),
        pad_id=-1,
        minloglevel=2,
    )
    trained = sentencepiece_model.train(random_lines(300), tmp_path / "ours.en", 40, TAGS, 0.99)
    assert trained.model == tmp_path / "ours.en.model"
    assert (trained.lines, trained.pieces, trained.notes) == (300, 40, ())
    expected = (tmp_path / "theirs.vocab").read_text(encoding="utf-8")
    assert (tmp_path / "ours.en.vocab").read_text(encoding="utf-8") == expected
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "theirs.model"))
    for line in random_lines(50):
        if not line.startswith("<BT>"):
            ours = subword_encoder(tmp_path / "ours.en")(line).split()
            assert ours == theirs.encode(line, out_type=str)


def test_training_is_equal_to_subword_nmt(tmp_path: Path) -> None:
    text = [*random_lines(300), "the\rcat\r"]
    trained = subword_nmt_model.train(text, tmp_path / "ours", 20, TAGS)
    assert (trained.lines, trained.notes) == (301, ())
    codes = io.StringIO()
    words = [line.replace("<BT>", "").replace("\r", " ") for line in text]
    learn_bpe(words, codes, 20)
    assert (tmp_path / "ours.codes").read_text(encoding="utf-8") == codes.getvalue()
    theirs = BPE(codes, glossaries=list(TAGS))
    for line in [*random_lines(50), "  over\u2028the \u3000x "]:
        assert subword_encoder(tmp_path / "ours", TAGS)(line) == theirs.segment(line)
    counts = Counter(word for line in words for word in theirs.segment(line).split(" ") if word)
    rows = [line.split(" ") for line in (tmp_path / "ours.vocab").read_text("utf-8").splitlines()]
    assert {subword: int(count) for subword, count in rows if count != "0"} == counts
    assert trained.pieces == len(rows)


def invalid_text() -> Iterator[str]:
    yield "the cat"
    raise DataError("text:2 is not valid UTF-8")


@pytest.mark.parametrize(
    ("kind", "lines", "size"),
    [
        (SENTENCEPIECE, random_lines(300), 1),
        (SENTENCEPIECE, ["", "x" * 5000], 40),
        (SENTENCEPIECE, invalid_text(), 40),
        *((SUBWORD_NMT, lines, 5) for lines in ([], ["a b c"], ["<BT>"], ["ab cd"])),
    ],
)
def test_a_failed_training_leaves_no_file(
    kind: str, lines: list[str], size: int, tmp_path: Path
) -> None:
    package = subword_nmt_model if kind == SUBWORD_NMT else sentencepiece_model
    with pytest.raises(DataError):
        package.train(lines, tmp_path / "model", size, ["<BT>"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content", "culprit"),
    [
        ("bpe.codes", "#version: 0.2\na b\nc\n", "bpe.codes:3"),
        ("bpe.codes", "#version: 0.3\na b\n", "bpe.codes"),
        ("bpe.codes", "", "bpe.codes:1"),
        ("other", "", "bpe"),
        ("bpe.codes.json", "[", "bpe.codes.json"),
    ],
)
def test_wrong_models_are_named(name: str, content: str, culprit: str, tmp_path: Path) -> None:
    if name.endswith(".json"):
        (tmp_path / "bpe.codes").write_text("#version: 0.2\na b</w>\n", encoding="utf-8")
        assert subword_encoder(tmp_path / "bpe")("ab cab") == "ab c@@ ab"
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=culprit):
        subword_encoder(tmp_path / "bpe")


def test_a_subword_that_is_not_utf8_is_rejected(
    models: dict[tuple[str, bool], Path], tmp_path: Path
) -> None:
    model = Path(f"{models[SENTENCEPIECE, True]}.model").read_bytes()
    (tmp_path / "bpe.model").write_bytes(model.replace(b"<BT>", b"<\xff\xff>"))
    with pytest.raises(DataError, match="is not a sentencepiece model"):
        subword_encoder(tmp_path / "bpe")


@pytest.mark.parametrize("kind", SUBWORD_KINDS)
def test_a_killed_run_leaves_no_model_with_another_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    prefix, vocabulary = train(kind, tmp_path / "bpe", ()), tmp_path / "bpe.vocab"
    before = vocabulary.read_bytes()
    rename = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.suffix in MODEL_SUFFIXES:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        train(kind, prefix, (), {SUBWORD_NMT: 2}.get(kind, 36))
    assert vocabulary.read_bytes() != before
    assert not any(Path(f"{prefix}{suffix}").exists() for suffix in MODEL_SUFFIXES)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_tags_of_a_model_without_signature_are_named(
    model_type: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = sentencepiece_model.train(
        random_lines(300), tmp_path / "bpe", 35, TAGS, model_type=model_type
    )
    subword_encoder(trained.model, TAGS)
    assert not caplog.messages
    subword_encoder(trained.model, ["<BT>"])
    [message] = caplog.messages
    assert "bpe.model.json does not exist" in message
    assert message.endswith("Symbols that can be tags: <FT>")


def test_a_model_that_was_trained_again_is_loaded_again(tmp_path: Path) -> None:
    prefix = tmp_path / "bpe"
    train(SUBWORD_NMT, prefix, (), size=2)
    few = subword_segmenter(prefix)("lower newest")
    assert subword_segmenter(prefix) is subword_segmenter(prefix)
    train(SUBWORD_NMT, prefix, (), size=40)
    assert subword_segmenter(prefix)("lower newest") != few
