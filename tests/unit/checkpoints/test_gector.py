"""GECToR models as edit taggers: logits, subwords, thresholds, and invalid files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import tokenizers
import torch
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.checkpoints import gector
from fairseq_ssl.checkpoints.gector import GectorModel, is_gector, read_gector, read_labels
from fairseq_ssl.checkpoints.pretrained import of_config
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.subwords import WordTokenizer
from fairseq_ssl.errors import ConfigurationError, DataError, UnsafeCheckpointError
from fairseq_ssl.models.edit_tagger import EditTagger, EditTaggerConfig
from fairseq_ssl.text.spans import Spans
from tests import gector_models
from tests.gector_models import LABELS, START, write_package, write_th

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.tasks.edit_labeling import EditLabelingConfig, EditLabelingTask  # noqa: E402

SENTENCES = ("a good film", "good ab", "xyz , good-bye abcdefgh Good $START")
KINDS = ("bert", "roberta", "xlnet", "deberta")
LENGTH = 36


def plain_words(folder: Path, kind: str, sentence: str, is_th: bool) -> tuple[list[int], list[int]]:
    """Return the ids of a sentence, and the index of the first subword of $START and each word."""
    path = folder / ("encoder/tokenizer.json" if is_th else "tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    if kind == "roberta":
        tokenizer.add_special_tokens([START])
    words = [START, *sentence.split(" ")]
    encoded = tokenizer.encode(words, is_pretokenized=True, add_special_tokens=not is_th)
    return encoded.ids, [encoded.word_ids.index(word) for word in range(len(words))]


def plain_logits(
    encoder: Any, heads: dict[str, Tensor], kind: str, ids: list[int], first: list[int]
) -> tuple[Tensor, Tensor]:
    """Return the logits of labels and of errors, from a forward pass padded to the max length."""
    padding = [encoder.config.pad_token_id] * (LENGTH - len(ids))
    is_left = kind == "xlnet"
    padded = torch.tensor([padding + ids if is_left else ids + padding])
    mask = torch.tensor([[0] * len(padding) + [1] * len(ids)])
    mask = mask if is_left else mask.flip(1)
    with torch.no_grad():
        states = encoder(padded, attention_mask=mask).last_hidden_state[0]
    states = states[torch.tensor(first) + len(padding) * is_left]
    labels, errors = (
        states @ heads[f"{name}.weight"].T + heads[f"{name}.bias"] for name in ("labels", "errors")
    )
    return labels, errors[:, :2].softmax(-1)[:, 1]


def tagger_of(model: GectorModel, words: OovDictionary) -> tuple[EditTagger, EditLabelingTask]:
    task = EditLabelingTask(EditLabelingConfig(edit_unit="word"), words, model.edits)
    task.encoder = model.encoder
    cfg = EditTaggerConfig()
    model.set_options(cfg)
    task._set_words(cfg)
    tagger: EditTagger = EditTagger.build_model(cfg, task).eval()
    tagger.load_state_dict(model.weights())
    return tagger, task


@pytest.mark.parametrize(
    ("kind", "is_th", "has_start"),
    [
        *((kind, False, True) for kind in KINDS),
        *(("bert", True, False), ("roberta", True, True), ("xlnet", True, False)),
    ],
)
def test_logits_equal_those_of_the_encoder_and_its_heads(
    kind: str, is_th: bool, has_start: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    if is_th:
        encoder = write_th(folder, kind, has_start, legacy=kind == "roberta")
    else:
        encoder = write_package(folder, kind)
    model = read_gector(folder, folder / "encoder")
    words = OovDictionary()
    for word in {word for sentence in SENTENCES for word in sentence.split(" ")}:
        words.add_symbol(word)
    tagger, task = tagger_of(model, words)
    rows = [[words.bos(), *map(words.index, sentence.split(" "))] for sentence in SENTENCES]
    assert task.words is not None
    batch = task.words.batch(Spans.of([np.array(row) for row in rows]))
    ids = torch.from_numpy(
        Spans.of([np.array([*row, words.eos()]) for row in rows]).pad(words.pad(), False, 0, 1)
    )
    with torch.no_grad():
        logits = tagger(ids)
    assert logits.errors is not None
    expected = []
    for sentence, subwords in zip(SENTENCES, batch.ids.tolist(), strict=True):
        own, first = plain_words(folder, kind, sentence, is_th)
        assert subwords[: len(own)] == own
        expected.append(plain_logits(encoder, dict(model.state), kind, own, first))
    labels, errors = map(torch.cat, zip(*expected, strict=True))
    torch.testing.assert_close(logits.edits, labels[:, list(model.rows)], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits.errors.sigmoid(), errors, atol=1e-4, rtol=1e-4)
    assert (labels.std(0) > 0.1).all()


def test_symbols_around_the_words(tmp_path: Path) -> None:
    """The package's format for a model of the authors has a row for $START even if it is unused."""

    def symbols(name: str) -> str:
        tokenizer = WordTokenizer(read_gector(tmp_path / name).encoder.tokenizer)
        names = tokenizer.symbols(tokenizer.size)
        start, end = ([names[row] for row in rows] for rows in (tokenizer.start, tokenizer.end))
        start[tokenizer.start_index] += "!"
        return " ".join([*start, "|", *end])

    write_package(tmp_path / "package", "bert")
    write_package(tmp_path / "xlnet", "xlnet")
    write_package(tmp_path / "official", "bert", is_official_model=True)
    write_th(tmp_path / "th", "roberta", has_start=True)
    assert symbols("package") == "[CLS] $START! | [SEP]"
    assert symbols("xlnet") == "$START! | <sep> <cls>"
    assert symbols("official") == "$START! |"
    assert symbols("th") == "$START! |"
    shutil.copy(tmp_path / "official/encoder/tokenizer.json", tmp_path / "official")
    assert symbols("official") == "$! S ##T ##A ##R ##T |"


COUNTS = {
    "bert-base-cased": 108310272,
    "bert-large-cased": 333579264,
    "roberta-base": 124645632,
    "roberta-large": 355359744,
    "xlnet-base-cased": 116718336,
    "xlnet-large-cased": 360268800,
    "deberta-base": 138601728,
    "deberta-large": 405163008,
}
"""Numbers of weights of the public encoders."""


def test_sizes_of_public_encoders() -> None:
    assert COUNTS.keys() == gector.ENCODERS.keys()
    for name, count in COUNTS.items():
        config = gector._public_encoder({"model_id": name}, Path("model"))
        with torch.device("meta"):
            model = of_config(config)
        assert sum(weight.numel() for weight in model.parameters()) == count


def test_thresholds_and_length_of_published_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiny encoders in place of the public ones, and a table of all labels in place of 5,001."""

    def search(model_id: str, kind: str, **settings: Any) -> tuple[float | None, ...]:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        write_package(folder, kind, model_id=model_id, **settings)
        found = gector.read_search(folder, folder / "encoder")
        assert found.iterations == 5
        return found.keep_bias, found.min_confidence, found.min_sentence_confidence

    assert search("roberta-base", "roberta") == (0, 0, 0)
    monkeypatch.setattr(gector, "FULL_TABLE", len(LABELS))
    assert search("FacebookAI/roberta-base", "roberta") == (0.3, 0.6, 0.6)
    assert search("bert-large-cased", "bert") == (0.5, 0, 0)
    assert search("someone/roberta-base", "roberta") == (0, 0, 0)
    assert search("roberta-base", "roberta", is_official_model=True) == (0, 0, 0)
    monkeypatch.setitem(gector.SIZES, "base", (8, 2, 2, 12))
    assert search("roberta-base", "roberta", is_official_model=True) == (0.2, 0.5, 0.5)
    write_th(tmp_path / "th", "xlnet", has_start=False)
    assert gector.read_search(
        tmp_path / "th/model.th", tmp_path / "th/encoder"
    ) == CorrectionSearch(
        iterations=5, keep_bias=0.2, min_confidence=0.5, min_sentence_confidence=0.5
    )
    write_package(tmp_path / "other", "bert", max_length=999)
    assert read_gector(tmp_path / "other", tmp_path / "other/encoder").max_length == 40
    settings = json.loads((tmp_path / "other/config.json").read_text())
    del settings["max_length"]
    (tmp_path / "other/config.json").write_text(json.dumps(settings))
    monkeypatch.setattr(gector, "MAX_LENGTH", 30)
    assert read_gector(tmp_path / "other", tmp_path / "other/encoder").max_length == 30


def test_recognized_folders(tmp_path: Path) -> None:
    write_package(tmp_path / "package", "bert")
    write_th(tmp_path / "th", "bert", has_start=False)
    found = ("package", "th", "th/model.th")
    assert all(is_gector(tmp_path / name) for name in found)
    others = ("package/encoder", "package/config.json", "th/encoder", "missing")
    assert not any(is_gector(tmp_path / name) for name in others)


Change = Callable[[Path], object]


def change_config(**settings: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))

    return change


def change_weights(change: Callable[[dict[str, Tensor]], object]) -> Change:
    def changed(folder: Path) -> None:
        path = folder / "model.safetensors"
        state = safetensors.torch.load_file(path)
        change(state)
        safetensors.torch.save_file(state, path)

    return changed


def other_encoder(kind: str, **sizes: Any) -> Change:
    def change(folder: Path) -> None:
        shutil.rmtree(folder / "encoder")
        gector_models.write_encoder(folder / "encoder", kind)
        change_config(**sizes)(folder / "encoder")

    return change


def labels(**changed: Any) -> Change:
    return change_config(label2id={"$KEEP": 0, "$DELETE": 1, **changed})


PROBLEMS: dict[str, tuple[Change, str]] = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json"),
    "no tokenizer": (
        lambda folder: (folder / "tokenizer.json").unlink(),
        "contains no tokenizer.json",
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "contains no model"),
    "damaged tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        "tokenizer of .* cannot be read",
    ),
    "damaged weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"a"),
        "model.safetensors cannot be read",
    ),
    "no labels": (change_config(label2id=None), "label2id"),
    "labels of other types": (labels(a=[]), "label2id"),
    "labels that skip a number": (labels(**{"$APPEND_a": 3}), "label2id"),
    "unknown label": (labels(**{"$TRANSFORM_VERB_VB_VBX": 2}), "VB_VBX"),
    "label without a word": (labels(**{"$APPEND_": 2}), "contains the label"),
    "label twice": (labels(**{"<OOV>": 2, "@@UNKNOWN@@": 3}), "contain a label twice"),
    "no $KEEP": (change_config(label2id={"$DELETE": 0, "$APPEND_a": 1}), "lack .KEEP"),
    "length": (change_config(max_length="80"), "max_length is '80'"),
    "fewer labels than rows": (labels(), r"2 labels .*are \(21,"),
    "other layers": (other_encoder("bert", num_hidden_layers=1), "only one of them has the weight"),
    "more layers": (other_encoder("bert", num_hidden_layers=3), "only one of them has the weight"),
    "other dimension": (other_encoder("bert", hidden_size=4), "the shapes of the weight"),
    "other vocabulary": (other_encoder("bert", vocab_size=3), "word_embeddings.weight"),
    "other kind": (other_encoder("deberta"), r"deberta\) differ: only one"),
    "no token types": (other_encoder("bert", type_vocab_size=0), "type_vocab_size is 0"),
    "other activation": (other_encoder("bert", hidden_act="relu"), "hidden_act is 'relu'"),
    "infinite weight": (
        change_weights(lambda state: state["d_proj_layer.bias"].fill_(torch.inf)),
        "NaN or infinite",
    ),
    "no embeddings": (
        change_weights(lambda state: state.pop("bert.embeddings.word_embeddings.weight")),
        "no matrix of word embeddings",
    ),
    "a weight is missing": (change_weights(lambda state: state.pop("d_proj_layer.bias")), "errors"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_invalid_folders_are_rejected(name: str, tmp_path: Path) -> None:
    change, message = PROBLEMS[name]
    write_package(tmp_path / "model", "bert")
    change(tmp_path / "model")
    with pytest.raises((DataError, ConfigurationError), match=message):
        read_gector(tmp_path / "model", tmp_path / "model/encoder")


def test_unknown_encoders_and_missing_files_of_th_models(tmp_path: Path) -> None:
    write_package(tmp_path / "model", "bert")
    assert read_gector(tmp_path / "model").encoder.config["hidden_size"] == 8
    shutil.rmtree(tmp_path / "model/encoder")
    with pytest.raises(DataError, match=r"'someone/tiny'.*Expected one of bert-base-cased"):
        read_gector(tmp_path / "model")
    folder = tmp_path / "th"
    write_th(folder, "bert", has_start=False)
    (folder / "encoder").rename(tmp_path / "encoder")
    with pytest.raises(DataError, match="Pass the folder of its encoder"):
        read_gector(folder)
    assert read_gector(folder, tmp_path / "encoder").max_length == 40
    shutil.copy(folder / "model.th", folder / "other.th")
    with pytest.raises(DataError, match=r"2 \.th files"):
        read_labels(folder)
    (folder / "other.th").write_bytes(b"not a model")
    with pytest.raises(DataError, match=r"other\.th"):
        read_gector(folder / "other.th", tmp_path / "encoder")
    torch.save({"a": print}, folder / "other.th")
    with pytest.raises(UnsafeCheckpointError, match="print"):
        read_gector(folder / "other.th", tmp_path / "encoder")
    path = folder / "output_vocabulary/labels.txt"
    for content in ("", "$KEEP\n$DELETE\n"):
        path.write_text(content)
        with pytest.raises(DataError, match="@@PADDING@@"):
            read_labels(folder / "model.th")
    path.unlink()
    with pytest.raises(DataError, match=r"labels\.txt does not exist"):
        read_labels(folder / "model.th")
