"""An edit tagger initialized from BERT or RoBERTa equals the model in `transformers`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import Transforms
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.edit_tagger import EditTagger, EditTaggerConfig
from fairseq_ssl.modules.edit_layers import EditEncoder
from tests.unit.models.tiny_models import PAD, padded

transformers = pytest.importorskip("transformers")
fairseq_ssl.register()

EDITS = EditDictionary.of_counts({("w3",): 3, ("w4", "w5"): 2}, 2, 2, Transforms())
SYMBOLS = {
    "bert": ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "roberta": ["<s>", "<pad>", "</s>", "<unk>"],
}
WORDS = [f"w{number}" for number in range(9)]
NAMES = {
    "bert": {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]"},
    "roberta": {},
}
MASK = {"bert": "[MASK]", "roberta": "<mask>"}
EPSILON = {"bert": 1e-12, "roberta": 1e-5}
SENTENCES = [[0, 4, 9, 3, 7, 7, 2], [0, 12, 5, 2], [0, 6, 4, 11, 8, 2]]
KINDS = ("bert", "roberta")


def vocabulary(kind: str) -> list[str]:
    return [*SYMBOLS[kind], *WORDS] + (["<mask>"] if kind == "roberta" else [])


def dictionary(*more: str) -> Dictionary:
    """Return a dictionary whose order differs from that of the language model's vocabulary."""
    found = Dictionary()
    for word in (*reversed(WORDS), *more):
        found.add_symbol(word)
    return found


def language_model(kind: str, layers: int = 2) -> Any:
    """Return a tiny model in which norms and biases also differ from their initial values."""
    sizes: dict[str, Any] = {
        "vocab_size": len(vocabulary(kind)),
        "hidden_size": 8,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 14,
        "layer_norm_eps": EPSILON[kind],
        "pad_token_id": vocabulary(kind).index(NAMES[kind].get("<pad>", "<pad>")),
        "type_vocab_size": {"bert": 2, "roberta": 1}[kind],
        "attn_implementation": "eager",
    }
    torch.manual_seed(5)
    name = {"bert": "Bert", "roberta": "Roberta"}[kind]
    sizes_of = getattr(transformers, f"{name}Config")
    made = getattr(transformers, f"{name}ForMaskedLM")(sizes_of(**sizes))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made.eval()


def saved(model: Any, kind: str, folder: Path, form: str = "safetensors") -> Path:
    """Save a model with its vocabulary, in one of the formats of `transformers`."""
    model.save_pretrained(folder)
    if form == "bin":
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    if form == "shards":
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder, max_shard_size="2KB")
        assert not (folder / "model.safetensors").exists()
    if kind == "bert":
        (folder / "vocab.txt").write_text("\n".join(vocabulary(kind)) + "\n")
    else:
        rows = {symbol: row for row, symbol in enumerate(vocabulary(kind))}
        (folder / "vocab.json").write_text(json.dumps(rows))
    return folder


def config(kind: str, folder: Path | None, **options: Any) -> EditTaggerConfig:
    sizes: dict[str, Any] = {
        "encoder_layers": 2,
        "encoder_embed_dim": 8,
        "encoder_ffn_embed_dim": 12,
        "encoder_attention_heads": 2,
        "max_source_positions": 12,
        "edit_layer_norm_eps": EPSILON[kind],
        "edit_init": None if folder is None else str(folder),
    }
    return EditTaggerConfig(**sizes | options)


def tagger(cfg: EditTaggerConfig, words: Dictionary | None = None) -> EditTagger:
    torch.manual_seed(1)
    task = SimpleNamespace(source_dictionary=words or dictionary(), edits=EDITS)
    made: EditTagger = EditTagger.build_model(cfg, task).eval()
    return made


def batch(left: bool = False) -> Tensor:
    return padded(SENTENCES, left)


def in_theirs(tokens: Tensor, kind: str) -> Tensor:
    """Convert sentences to the ids of the language model."""
    rows = {symbol: row for row, symbol in enumerate(vocabulary(kind))}
    names = [NAMES[kind].get(symbol, symbol) for symbol in dictionary().symbols]
    return torch.tensor([rows[name] for name in names])[tokens]


def their_states(model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
    inside = model.bert if hasattr(model, "bert") else model.roberta
    states: Tensor = inside(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
    return states


@pytest.mark.parametrize(
    ("kind", "form", "factorized", "left"),
    [
        ("bert", "safetensors", True, False),
        ("bert", "shards", False, True),
        ("roberta", "bin", True, True),
        ("roberta", "safetensors", False, False),
    ],
)
@torch.no_grad()
def test_token_states_equal_those_of_transformers(
    kind: str, form: str, factorized: bool, left: bool, tmp_path: Path
) -> None:
    theirs = language_model(kind)
    cfg = config(kind, saved(theirs, kind, tmp_path, form), edit_unfactorized=not factorized)
    ours = tagger(cfg).encoder(batch(left)).tokens[batch(left).ne(PAD)]
    real = batch().ne(PAD)
    wanted = their_states(theirs, in_theirs(batch(), kind), real)[real]
    torch.testing.assert_close(ours, wanted, atol=1e-5, rtol=0)
    assert ours.std() > 0.1


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_head_equals_the_masked_language_model_head(kind: str, tmp_path: Path) -> None:
    """The logits are the products of H(h) and the embeddings plus a bias, which PIE lacks."""
    theirs = language_model(kind)
    ours = tagger(config(kind, saved(theirs, kind, tmp_path)))
    tokens = torch.tensor(SENTENCES[:1])
    head = ours.scores._head(ours.encoder(tokens).tokens)
    scores = theirs(input_ids=in_theirs(tokens, kind)).logits
    bias = (theirs.cls.predictions if kind == "bert" else theirs.lm_head).bias
    wanted = (scores - bias)[..., in_theirs(torch.arange(13), kind)]
    torch.testing.assert_close(head @ ours.encoder.tokens.weight.T, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_replacement_state_of_one_layer_equals_the_state_of_a_mask_token(
    kind: str, tmp_path: Path
) -> None:
    """With more layers they differ: the states of the other tokens depend on the mask token."""
    theirs = language_model(kind, layers=1)
    ours = tagger(config(kind, saved(theirs, kind, tmp_path), encoder_layers=1))
    tokens = torch.tensor(SENTENCES[:1])
    replacing = ours.encoder(tokens).replacing
    for place in range(tokens.size(1)):
        masked = in_theirs(tokens, kind)
        masked[0, place] = vocabulary(kind).index(MASK[kind])
        wanted = their_states(theirs, masked, torch.ones_like(masked))
        torch.testing.assert_close(replacing[0, place], wanted[0, place], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factorized", [True, False])
def test_all_encoder_and_head_weights_are_initialized(
    kind: str, factorized: bool, tmp_path: Path
) -> None:
    folder = saved(language_model(kind), kind, tmp_path)
    same = {"edit_unfactorized": not factorized, "edit_detection": True}
    fresh = tagger(config(kind, None, **same)).state_dict()
    started = tagger(config(kind, folder, **same)).state_dict()
    kept = {name for name, weight in fresh.items() if torch.equal(weight, started[name])}
    ours_alone = {"scores.edits.weight", "scores.edits.bias", "errors.weight", "errors.bias"}
    assert kept == ours_alone | ({"scores.grams"} if factorized else set())


def test_padding_symbols_of_the_dictionary_keep_random_embeddings(tmp_path: Path) -> None:
    words = dictionary("madeupword0000")
    folder = saved(language_model("bert"), "bert", tmp_path)
    fresh, started = (tagger(config("bert", origin), words) for origin in (None, folder))
    same = fresh.encoder.tokens.weight.eq(started.encoder.tokens.weight).all(1)
    assert same.nonzero().flatten().tolist() == [len(words) - 1]


@pytest.mark.parametrize("is_missing", [True, False])
def test_weights_of_a_checkpoint_override_the_folder(is_missing: bool, tmp_path: Path) -> None:
    """The folder may be missing when a run resumes, or a model decodes, on another machine."""
    folder = saved(language_model("bert"), "bert", tmp_path)
    trained = tagger(config("bert", folder))
    with torch.no_grad():
        assert isinstance(trained.encoder, EditEncoder)
        trained.encoder.mask.add_(1)
    model = tagger(config("bert", tmp_path / "gone" if is_missing else folder))
    if is_missing:
        with pytest.raises(ConfigurationError, match="gone"):
            model(batch())
    model.load_state_dict(trained.state_dict())
    torch.testing.assert_close(model(batch()).edits, trained(batch()).edits)
