"""Edit taggers with random weights that make many edits, for the tests of exports."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_ssl.checkpoints.bert import set_sizes
from fairseq_ssl.checkpoints.pretrained import EncoderFiles
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.subwords import WordSubwords, WordTokenizer
from fairseq_ssl.edits.transforms import Transforms, english_suffixes
from fairseq_ssl.generation.tagger_export import write_onnx
from fairseq_ssl.models.edit_tagger import EditTagger, EditTaggerConfig
from tests import pretrained
from tests.conftest import build_once

POSITIONS = 32
GRAMS = {("good",): 3, ("bad", "xyz"): 2, ("film",): 2, ("a",): 1}
EDITS = EditDictionary.of_counts(GRAMS, 9, 2, Transforms.of(english_suffixes(), groups=("case",)))
SIZES: dict[str, Any] = {
    "encoder_layers": 1,
    "encoder_embed_dim": 8,
    "encoder_ffn_embed_dim": 12,
    "encoder_attention_heads": 2,
}


def dictionary() -> OovDictionary:
    words = OovDictionary()
    for word in ("good", "bad", "xyz", "film", "a", "big", "Bad", "dog"):
        words.add_symbol(word)
    return words


def token_tagger(unit: str = "subword", **options: Any) -> tuple[EditTagger, Any]:
    """Return a tagger that labels the tokens that it reads, and its task."""
    cfg = SimpleNamespace(edit_unit=unit)
    task = SimpleNamespace(source_dictionary=dictionary(), edits=EDITS, cfg=cfg)
    return _tagger(task, **{**SIZES, **options}), task


def word_tagger(folder: Path, **options: Any) -> tuple[EditTagger, Any]:
    """Return a tagger of words with the encoder in a folder, and its task."""
    files, words = EncoderFiles.read(folder), dictionary()
    padding, size = files.config["pad_token_id"], files.config["vocab_size"]
    subwords = WordSubwords(WordTokenizer(files.tokenizer), words, padding, size, POSITIONS)
    cfg = SimpleNamespace(edit_unit="word")
    task = SimpleNamespace(source_dictionary=words, edits=EDITS, cfg=cfg)
    task.words, task.encoder = subwords, files
    return _tagger(task, edit_init=str(folder), **options), task


PLAIN = {"edit_unfactorized": True}
KINDS: dict[str, dict[str, Any]] = {
    "bert": PLAIN,
    "roberta": {},
    "subword": {"edit_detection": True},
    "character": {**PLAIN, "edit_gap_inserts": True},
    "Albert": {**PLAIN, "edit_gap_inserts": True},
    "DistilBert": {**PLAIN, "edit_detection": True},
    "DebertaV2": PLAIN,
    "ModernBert": PLAIN,
    "XLNet": PLAIN,
}
"""Options of taggers by unit of tokens or by encoder of words. The graphs of encoders differ."""


def exported(factory: pytest.TempPathFactory, kind: str) -> tuple[EditTagger, Any, Path]:
    """Return a tagger, its task, and its export, which takes 3 s of CPU time and is built once."""
    from tests.unit.models.test_word_edit_tagger import other

    def tagger(encoder: Path) -> tuple[EditTagger, Any]:
        if kind in ("subword", "character"):
            return token_tagger(kind, **KINDS[kind])
        return word_tagger(encoder, **KINDS[kind])

    def build(folder: Path) -> None:
        if kind in ("bert", "roberta"):
            getattr(pretrained, kind)(folder / "encoder")
        elif kind not in ("subword", "character"):
            other(kind, folder / "encoder")
        write_onnx(*tagger(folder / "encoder"), folder / "onnx")

    folder = build_once(factory, f"exported_{kind}", build)
    return *tagger(folder / "encoder"), folder / "onnx"


def _tagger(task: Any, **options: Any) -> EditTagger:
    cfg = EditTaggerConfig(max_source_positions=POSITIONS, **options)
    if hasattr(task, "encoder"):
        set_sizes(cfg, task.encoder.config)
    torch.manual_seed(1)
    model: EditTagger = EditTagger.build_model(cfg, task).eval()
    with torch.no_grad():
        for weight in [*model.scores.parameters(), *_heads(model)]:
            weight.normal_()
        if "encoder" not in vars(task):
            for weight in model.encoder.parameters():
                weight.normal_(std=0.5)
    model.prepare_for_inference_(None)
    return model


def _heads(model: EditTagger) -> list[torch.nn.Parameter]:
    return [] if model.errors is None else list(model.errors.parameters())
