"""An edit tagger initialized from BERT or RoBERTa equals the model in `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import Transforms
from fairseq_ssl.errors import DataError
from fairseq_ssl.models.edit_tagger import EditTagger, EditTaggerConfig
from fairseq_ssl.tasks.edit_labeling import EditLabelingConfig, EditLabelingTask
from tests import pretrained
from tests.unit.models.tiny_models import PAD, padded, task

transformers = pytest.importorskip("transformers")
EDITS = EditDictionary.of_counts({("d",): 3, ("e", "f"): 2}, 2, 2, Transforms())
NAMES = {
    "bert": {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]"},
    "roberta": {},
}
MASK = {"bert": "[MASK]", "roberta": "<mask>"}
EPSILON = {"bert": 1e-12, "roberta": 1e-5}
SENTENCES = [[0, 4, 9, 3, 7, 7, 2], [0, 12, 5, 2], [0, 6, 4, 11, 8, 2]]
KINDS = ("bert", "roberta")


def dictionary(*more: str) -> Dictionary:
    """Return a dictionary whose order differs from that of the language model's vocabulary."""
    found = Dictionary()
    for word in (*reversed(pretrained.LETTERS[:9]), *more):
        found.add_symbol(word)
    return found


class LanguageModel:
    """A tiny model in a folder, in which norms and biases also differ from their initial values."""

    def __init__(self, kind: str, folder: Path, form: str = "safetensors", layers: int = 2) -> None:
        self.folder = getattr(pretrained, kind)(folder / "model")
        self.rows = transformers.AutoTokenizer.from_pretrained(self.folder).get_vocab()
        options = {"num_hidden_layers": layers, "layer_norm_eps": EPSILON[kind]}
        loader = transformers.AutoModelForMaskedLM.from_pretrained
        self.model = loader(self.folder, attn_implementation="eager", **options).eval()
        self.names = NAMES[kind]
        torch.manual_seed(5)
        for parameter in self.model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        (self.folder / "model.safetensors").unlink()
        self.model.save_pretrained(self.folder, max_shard_size="2KB" if form == "shards" else "1GB")
        if form == "bin":
            torch.save(self.model.state_dict(), self.folder / "pytorch_model.bin")
            (self.folder / "model.safetensors").unlink()
        assert (self.folder / "model.safetensors").exists() == (form == "safetensors")

    def ids(self, tokens: Tensor) -> Tensor:
        """Convert sentences to the ids of the language model."""
        names = [self.names.get(symbol, symbol) for symbol in dictionary().symbols]
        return torch.tensor([self.rows[name] for name in names])[tokens]

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = self.model.base_model(ids, attention_mask=mask.long()).last_hidden_state
        return found


SIZES: dict[str, Any] = {
    "encoder_layers": 2,
    "encoder_embed_dim": 8,
    "encoder_ffn_embed_dim": 12,
    "encoder_attention_heads": 2,
    "max_source_positions": 12,
}


def tagger(
    kind: str, folder: Path | None, words: Dictionary | None = None, **options: Any
) -> EditTagger:
    sizes: dict[str, Any] = {
        **SIZES,
        "edit_layer_norm_eps": EPSILON[kind],
        "edit_init": None if folder is None else str(folder),
    }
    training = task(words or dictionary())
    training.edits = EDITS
    torch.manual_seed(1)
    made: EditTagger = EditTagger.build_model(EditTaggerConfig(**sizes | options), training).eval()
    return made


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
    theirs = LanguageModel(kind, tmp_path, form)
    ours = tagger(kind, theirs.folder, edit_unfactorized=not factorized)
    tokens, plain = padded(SENTENCES, left), padded(SENTENCES, False)
    states = ours.encoder(tokens).tokens[tokens.ne(PAD)]
    wanted = theirs.states(theirs.ids(plain), plain.ne(PAD))[plain.ne(PAD)]
    torch.testing.assert_close(states, wanted, atol=1e-5, rtol=0)
    assert states.std() > 0.1


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_head_equals_the_masked_language_model_head(kind: str, tmp_path: Path) -> None:
    """The logits are the products of H(h) and the embeddings plus a bias, which PIE lacks."""
    theirs = LanguageModel(kind, tmp_path)
    ours, tokens = tagger(kind, theirs.folder), torch.tensor(SENTENCES[:1])
    head = ours.scores._head(ours.encoder(tokens).tokens)
    scores = theirs.model(theirs.ids(tokens)).logits - theirs.model.get_output_embeddings().bias
    wanted = scores[..., theirs.ids(torch.arange(13))]
    torch.testing.assert_close(head @ ours.encoder.tokens.weight.T, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_replacement_state_of_one_layer_equals_the_state_of_a_mask_token(
    kind: str, tmp_path: Path
) -> None:
    """With more layers they differ: the states of the other tokens depend on the mask token."""
    theirs = LanguageModel(kind, tmp_path, layers=1)
    tokens = torch.tensor(SENTENCES[:1])
    replacing = tagger(kind, theirs.folder, encoder_layers=1).encoder(tokens).replacing
    for place in range(tokens.size(1)):
        masked = theirs.ids(tokens)
        masked[0, place] = theirs.rows[MASK[kind]]
        wanted = theirs.states(masked, torch.ones_like(masked))
        torch.testing.assert_close(replacing[0, place], wanted[0, place], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("kind", "factorized"), [("bert", True), ("roberta", False)])
def test_all_encoder_and_head_weights_are_initialized(
    kind: str, factorized: bool, tmp_path: Path
) -> None:
    folder = LanguageModel(kind, tmp_path).folder
    options = {"edit_unfactorized": not factorized, "edit_detection": True}
    fresh, started = (tagger(kind, one, **options).state_dict() for one in (None, folder))
    kept = {name for name, weight in fresh.items() if torch.equal(weight, started[name])}
    ours_alone = {"scores.edits.weight", "scores.edits.bias", "errors.weight", "errors.bias"}
    assert kept == ours_alone | ({"scores.grams"} if factorized else set())


def test_padding_symbols_of_the_dictionary_keep_random_embeddings(tmp_path: Path) -> None:
    words, folder = dictionary("madeupword0000"), LanguageModel("bert", tmp_path).folder
    fresh, started = (tagger("bert", origin, words) for origin in (None, folder))
    same = fresh.encoder.tokens.weight.eq(started.encoder.tokens.weight).all(1)
    assert same.nonzero().flatten().tolist() == [len(words) - 1]


@pytest.mark.parametrize("kind", EPSILON)
def test_epsilon_is_that_of_the_language_model(kind: str, tmp_path: Path) -> None:
    """It is stored with the options of the model."""
    folder = LanguageModel(kind, tmp_path).folder
    own_task = EditLabelingTask(EditLabelingConfig(), dictionary(), EDITS)
    options = {**SIZES, "_name": "edit_tagger", "edit_init": str(folder)}
    cfg = OmegaConf.structured(EditTaggerConfig(**options))
    model = own_task.build_model(cfg)
    assert cfg.edit_layer_norm_eps == EPSILON[kind]
    norms = [part for part in model.modules() if isinstance(part, torch.nn.LayerNorm)]
    assert {norm.eps for norm in norms} == {EPSILON[kind]}
    cfg.edit_init = str(tmp_path / "gone")
    with pytest.raises(DataError, match="gone"):
        own_task.build_model(cfg)
