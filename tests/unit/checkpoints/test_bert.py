"""Files of a BERT or RoBERTa from which an edit tagger can be initialized, and others.

`tests/unit/models/test_edit_tagger_init.py` compares the initialized models with transformers.
"""

from __future__ import annotations

import logging
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from fairseq_ssl.checkpoints.bert import initial_weights
from fairseq_ssl.errors import ConfigurationError, DataError
from tests.unit.checkpoints.tiny_bert import DICTIONARY, OPTIONS, SYMBOLS, save, weights

QUERY = "bert.encoder.layer.1.attention.self.query.weight"
TRANSFORM = "cls.predictions.transform.dense.weight"
WORDS = "bert.embeddings.word_embeddings.weight"


def initialize(folder: Path, symbols: list[str] = DICTIONARY, **changed: int) -> dict[str, Tensor]:
    start = {"encoder.tokens.weight": torch.full((len(symbols), 4), 9.0)}
    return initial_weights(folder, Namespace(**OPTIONS | changed), symbols, start)


def test_other_names_of_weights(tmp_path: Path) -> None:
    """Without a head, the prefix `bert.` is missing. Layer norms can have a gamma and a beta."""
    expected = initialize(save(tmp_path))
    bare: dict[str, Tensor | None] = {}
    old: dict[str, Tensor | None] = {}
    for name, weight in weights().items():
        new = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old |= {name: None, new.replace("LayerNorm.bias", "LayerNorm.beta"): weight}
        bare[name] = None
        if name.startswith("bert."):
            bare[name.removeprefix("bert.")] = weight
    for kind, changed in (("old", old), ("bare", bare)):
        (tmp_path / kind).mkdir()
        found = initialize(save(tmp_path / kind, changed=changed))
        assert found.keys() == expected.keys() or kind == "bare"
        torch.testing.assert_close(found, {key: expected[key] for key in found}, rtol=0, atol=0)


def test_unused_weights_are_ignored(tmp_path: Path) -> None:
    unused: dict[str, Tensor | None] = {
        "bert.pooler.dense.weight": torch.ones(4, 4),
        "bert.embeddings.position_ids": torch.arange(10)[None],
        "cls.seq_relationship.weight": torch.ones(2, 4),
        "cls.predictions.bias": torch.ones(8),
        "cls.predictions.decoder.bias": torch.ones(8),
        "cls.predictions.decoder.weight": weights()[WORDS],
    }
    assert initialize(save(tmp_path, changed=unused)).keys() == initialize(save(tmp_path)).keys()


def test_half_precision_is_converted_to_float32(tmp_path: Path) -> None:
    halves: dict[str, Tensor | None] = {name: one.half() for name, one in weights().items()}
    found = initialize(save(tmp_path, changed=halves))
    assert {weight.dtype for weight in found.values()} == {torch.float32}
    torch.testing.assert_close(found["encoder.mask"], weights()[WORDS][4], atol=1e-2, rtol=0)


def test_without_the_masked_language_model_head_scores_start_from_random_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bare: dict[str, Tensor | None] = {
        name: None for name in weights() if name.startswith("cls.predictions")
    }
    with caplog.at_level(logging.WARNING, "fairseq_ssl"):
        found = initialize(save(tmp_path, changed=bare))
    assert all(name.startswith("encoder.") for name in found)
    assert [one.message for one in caplog.records if "no masked language" in one.message]


@pytest.mark.parametrize(
    ("name", "weight", "culprit"),
    [
        (QUERY, None, r"encoder\.layer\.1\.attention\.self\.query\.weight"),
        (TRANSFORM.replace("weight", "bias"), None, r"cls\.predictions\.transform"),
        (QUERY, torch.ones(4, 6), QUERY),
        (WORDS, torch.ones(9, 4), WORDS),
        (QUERY, torch.full((4, 4), float("nan")), QUERY),
        pytest.param(
            "cls.predictions.decoder.weight",
            torch.ones(8, 4),
            "decoder.weight",
            marks=pytest.mark.skipif(
                transformers.__version__ < "5", reason="transformers 4 ties the embeddings"
            ),
        ),
    ],
)
def test_missing_or_invalid_weight_is_reported(
    name: str, weight: Tensor | None, culprit: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=culprit):
        initialize(save(tmp_path, changed={name: weight}))


@pytest.mark.parametrize(
    ("kind", "change", "flag"),
    [
        ("bert", {"encoder_layers": 3}, "--encoder-layers 2"),
        ("bert", {"encoder_embed_dim": 8}, "--encoder-embed-dim 4"),
        ("bert", {"encoder_ffn_embed_dim": 7}, "--encoder-ffn-embed-dim 6"),
        ("bert", {"encoder_attention_heads": 1}, "--encoder-attention-heads 2"),
        ("bert", {"max_source_positions": 11}, "--max-source-positions 10"),
        ("roberta", {"max_source_positions": 9}, "--max-source-positions 8"),  # it has ten rows
    ],
)
def test_different_sizes_are_reported_with_their_flags(
    kind: str, change: dict[str, Any], flag: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=flag):
        initialize(save(tmp_path, kind), **change)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "electra"},
        {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"},
        {"is_decoder": True},
        {"vocab_size": ...},
    ],
)
def test_unsupported_model_is_rejected(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((ConfigurationError, DataError), match=next(iter(config))):
        initialize(save(tmp_path, **config))


def test_missing_settings_have_the_defaults_of_bert(tmp_path: Path) -> None:
    removed: dict[str, Any] = dict.fromkeys(
        ("layer_norm_eps", "hidden_act", "type_vocab_size"), ...
    )
    assert len(initialize(save(tmp_path, **removed))) > 20


def test_symbols_without_an_embedding_are_rejected(tmp_path: Path) -> None:
    folder = save(tmp_path)
    with pytest.raises(DataError, match="'x0'"):
        initialize(folder, symbols=[*DICTIONARY, "x0"])
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join([*SYMBOLS, "d"]))
    with pytest.raises(DataError, match="ids up to 8"):
        initialize(folder)
    vocabulary.write_text("\n".join(SYMBOLS[:6]))
    initialize(folder, symbols=DICTIONARY[:4])
