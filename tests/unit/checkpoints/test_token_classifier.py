"""Exported token classifiers of transformers have the logits of their edit taggers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.checkpoints.token_classifier import write_token_classifier
from fairseq_ssl.errors import DataError, UsageError
from tests import pretrained
from tests.unit.generation import random_taggers

transformers = pytest.importorskip("transformers")
fairseq_ssl.register()
from tests.unit.models.test_word_edit_tagger import other  # noqa: E402

SENTENCES = [["good", "xyz", "film"], ["abc", "good"], ["xyz"], ["a", "Dog", "abcdefg", "bad"]]
NATIVE = ("bert", "roberta")


def tagger(kind: str, path: Path, **options: Any) -> tuple[Any, Any]:
    folder = getattr(pretrained, kind)(path) if kind in NATIVE else other(kind, path)
    options = {"edit_unfactorized": True, **options}
    return random_taggers.word_tagger(folder, **options)


def expected_logits(model: Any, task: Any) -> Tensor:
    words = task.source_dictionary
    rows = [
        torch.tensor([words.bos(), *map(words.index, sentence), words.eos()])
        for sentence in SENTENCES
    ]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, True, words.pad())
    with torch.no_grad():
        edits: Tensor = model(tokens).edits
    return edits


def found_logits(folder: Path) -> Tensor:
    """Return the logits of the start and of the first subword of each word."""
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(SENTENCES, is_split_into_words=True, return_tensors="pt", padding=True)
    with torch.no_grad():
        logits = model(**batch).logits
    rows = []
    for number in range(len(SENTENCES)):
        words = np.array(batch.word_ids(number), dtype=float)
        first = [np.flatnonzero(words == at)[0] for at in range(len(SENTENCES[number]))]
        rows.append(logits[number, [0, *first]])
    return torch.cat(rows)


@pytest.mark.parametrize("kind", [*NATIVE, "DistilBert", "Electra", "Albert", "DebertaV2", "XLNet"])
def test_logits_equal_those_of_the_tagger(kind: str, tmp_path: Path) -> None:
    model, task = tagger(kind, tmp_path / "encoder")
    write_token_classifier(model, task, tmp_path / "classifier")
    found = found_logits(tmp_path / "classifier")
    torch.testing.assert_close(found, expected_logits(model, task), atol=1e-4, rtol=1e-4)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "classifier")
    assert tuple(config.id2label.values()) == task.edits.names
    assert str(tmp_path) not in (tmp_path / "classifier" / "config.json").read_text()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"edit_unfactorized": False}, "factorized"),
        ({"edit_gap_inserts": True}, "gaps"),
        ({"edit_detection": True}, "detection head"),
    ],
)
def test_other_taggers_are_rejected(options: dict[str, Any], problem: str, tmp_path: Path) -> None:
    built = tagger("bert", tmp_path / "encoder", **options)
    with pytest.raises(DataError, match=problem):
        write_token_classifier(*built, tmp_path / "classifier")
    assert not (tmp_path / "classifier").exists()


def test_taggers_without_a_classifier_in_transformers_are_rejected(tmp_path: Path) -> None:
    tokens = random_taggers.token_tagger(edit_unfactorized=True)
    words = tagger("ModernBert", tmp_path / "encoder")
    for (model, task), culprit in ((tokens, "tokens"), (words, "modernbert")):
        with pytest.raises(DataError, match=culprit):
            write_token_classifier(model, task, tmp_path / "classifier")


def test_other_folders_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "classifier").mkdir()
    (tmp_path / "classifier" / "thesis").touch()
    with pytest.raises(UsageError, match="Hugging Face"):
        write_token_classifier(*tagger("bert", tmp_path / "encoder"), tmp_path / "classifier")
