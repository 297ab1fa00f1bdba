"""An edit tagger on words equals the encoder in `transformers` on the subwords of the words."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.checkpoints.bert import set_sizes
from fairseq_ssl.checkpoints.pretrained import EncoderFiles
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.subwords import SubwordBatch, WordSubwords, WordTokenizer
from fairseq_ssl.edits.transforms import Transforms
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.generation.edit_generator import EditGenerator
from fairseq_ssl.models.edit_tagger import EditTagger, EditTaggerConfig
from fairseq_ssl.models.word_encoder import first_states, word_spans
from fairseq_ssl.text.spans import Spans
from tests import pretrained

transformers = pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.tasks.edit_labeling import EditLabelingConfig, EditLabelingTask  # noqa: E402

EDITS = EditDictionary.of_counts({("good",): 3, ("bad", "xyz"): 2}, 2, 2, Transforms())
WORDS = ("good", "film", "xyz", "Bad")
SENTENCES = (("good", "xyz", "film"), ("abc", "good"), ("xyz",))
OTHERS: dict[str, dict[str, Any]] = {
    "DistilBert": {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12},
    "Electra": {**pretrained.SIZES, "embedding_size": 6},
    "Albert": {**pretrained.SIZES, "embedding_size": 6},
    "DebertaV2": {**pretrained.SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "XLNet": {"d_model": 8, "n_layer": 2, "n_head": 2, "d_inner": 12},
    "XLMRoberta": {**pretrained.SIZES, "pad_token_id": 0},
    "ModernBert": {**pretrained.SIZES, "local_attention": 8, "reference_compile": False},
}


def other(kind: str, folder: Path) -> Path:
    """Save an encoder with random weights that reads the subwords of the tiny BERT."""
    pretrained.bert(folder)
    (folder / "model.safetensors").unlink()
    symbols = len((folder / "vocab.txt").read_text().splitlines())
    options = {"vocab_size": symbols, "pad_token_id": 0, "attn_implementation": "eager"}
    config = getattr(transformers, f"{kind}Config")(**{**options, **OTHERS[kind]})
    torch.manual_seed(3)
    model = transformers.AutoModel.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(8)
    model.save_pretrained(folder)
    return folder


def dictionary() -> OovDictionary:
    words = OovDictionary()
    for word in WORDS:
        words.add_symbol(word)
    return words


def task_of(folder: Path, files: EncoderFiles | None = None) -> Any:
    files = files or EncoderFiles.read(folder)
    words = dictionary()
    padding = files.config["pad_token_id"]
    size = files.config["vocab_size"]
    subwords = WordSubwords(WordTokenizer(files.tokenizer), words, padding, size, 32)
    return SimpleNamespace(
        source_dictionary=words, edits=EDITS, words=subwords, encoder=files, text=text_of(words)
    )


def tagger(folder: Path | None, task: Any, **options: Any) -> EditTagger:
    init = None if folder is None else str(folder)
    cfg = EditTaggerConfig(max_source_positions=32, edit_init=init, **options)
    set_sizes(cfg, task.encoder.config)
    model: EditTagger = EditTagger.build_model(cfg, task).eval()
    return model


def text_of(words: OovDictionary) -> Spans:
    rows = [[words.bos(), *map(words.index, sentence)] for sentence in SENTENCES]
    return Spans.of([np.array(row) for row in rows])


def expected_states(folder: Path) -> Tensor:
    """Return the states of the start and the words, one sentence at a time."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    rows = []
    for sentence in SENTENCES:
        encoded = tokenizer(list(sentence), is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            found = model(encoded["input_ids"], attention_mask=encoded["attention_mask"])
        states, words = found.last_hidden_state[0], np.array(encoded.word_ids(), dtype=float)
        rows.append(states[0])
        for number in range(len(sentence)):
            own = states[torch.from_numpy(words == number)]
            rows.append(own[0])
    return torch.stack(rows)


def tensors(batch: SubwordBatch) -> SubwordBatch:
    return SubwordBatch(*map(torch.from_numpy, batch))


def states_of(model: EditTagger, task: Any) -> Tensor:
    batch = tensors(task.words.batch(task.text))
    with torch.no_grad():
        states = model.encoder(batch.ids).tokens
    return first_states(states, batch)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_states_of_words_equal_transformers(kind: str, tmp_path: Path) -> None:
    folder = getattr(pretrained, kind)(tmp_path / kind)
    task = task_of(folder)
    model = tagger(folder, task, edit_unfactorized=True)
    assert "EditEncoder" in type(model.encoder).__name__
    expected = expected_states(folder)
    torch.testing.assert_close(states_of(model, task), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_encoders_equal_transformers_and_need_no_folder_again(
    kind: str, tmp_path: Path
) -> None:
    folder = other(kind, tmp_path / kind)
    task = task_of(folder)
    model = tagger(folder, task, edit_unfactorized=True)
    expected = expected_states(folder)
    torch.testing.assert_close(states_of(model, task), expected, atol=1e-5, rtol=1e-4)
    stored = EncoderFiles.of_state(json.loads(json.dumps(task.encoder.state())))
    for path in folder.iterdir():
        path.unlink()
    again = tagger(None, task_of(folder, stored), edit_unfactorized=True)
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(states_of(again, task), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [*OTHERS, "bert", "roberta"])
def test_all_trained_weights_have_a_gradient(kind: str, tmp_path: Path) -> None:
    """DistributedDataParallel requires it."""
    folder = tmp_path / kind
    folder = other(kind, folder) if kind in OTHERS else getattr(pretrained, kind)(folder)
    task = task_of(folder)
    rebuilt = task_of(folder, EncoderFiles.of_state(task.encoder.state()))
    models = [
        tagger(folder, task, edit_unfactorized=True),
        tagger(None, rebuilt, edit_unfactorized=True),
    ]
    if kind in OTHERS:
        with pytest.raises(ConfigurationError, match="--edit-unfactorized"):
            tagger(folder, task)
    else:
        models.append(tagger(folder, task))
    ids = torch.from_numpy(task.text.with_last(2).pad(1, False, 0, 1))
    for model in models:
        torch.autograd.backward(model(ids).edits.sum())
        trained = {n: w for n, w in model.named_parameters() if w.requires_grad}
        assert [name for name, weight in trained.items() if weight.grad is None] == []


@pytest.mark.parametrize("factorized", [True, False])
def test_logits_do_not_depend_on_the_batch_and_match_looked_up_subwords(
    factorized: bool, tmp_path: Path
) -> None:
    folder = pretrained.bert(tmp_path / "bert")
    task = task_of(folder)
    model = tagger(folder, task, edit_unfactorized=not factorized)
    words = task.source_dictionary
    rows = np.split(task.text.ids, task.text.starts[1:])
    with torch.no_grad():
        single = []
        for row in rows:
            tokens = torch.tensor([[*row, words.eos()]])
            single.append(model(tokens, torch.tensor([len(row) + 1])).edits)
        padded = task.text.with_last(words.eos()).pad(words.pad(), False, 0, 1)
        batch = model(torch.from_numpy(padded), None, tensors(task.words.batch(task.text))).edits
    torch.testing.assert_close(batch, torch.cat(single), atol=1e-5, rtol=1e-4)


def test_replacement_of_a_word_does_not_depend_on_its_subwords(tmp_path: Path) -> None:
    """In one layer, r of a word attends to all subwords but those of the word."""
    task = task_of(pretrained.bert(tmp_path / "bert"))
    task.encoder.config["num_hidden_layers"] = 1
    model, words = tagger(None, task), task.source_dictionary
    replacing, following = [], []
    for word in ("xyz", "abc"):
        ids = np.array([words.bos(), *map(words.index, ("good", word, "film"))])
        batch = tensors(task.words.batch(Spans(ids, np.array([4]))))
        with torch.no_grad():
            states = model.encoder(batch.ids, word_spans(batch))
        replacing.append(states.replacing[0])
        following.append(states.following[0])
    torch.testing.assert_close(replacing[0][2], replacing[1][2])
    assert not torch.allclose(replacing[0][1], replacing[1][1])
    assert not torch.allclose(following[0][2], following[1][2])


def test_words_of_one_subword_equal_tokens(tmp_path: Path) -> None:
    """With one subword a word, a factorized tagger on words equals one on tokens."""
    folder = pretrained.bert(tmp_path / "bert")
    task = task_of(folder)
    model = tagger(folder, task)
    words = task.source_dictionary
    ids = np.array([words.bos(), *map(words.index, ("good", "film"))])
    batch = tensors(task.words.batch(Spans(ids, np.array([3]))))
    assert batch.counts.tolist() == [[1, 1, 1]]
    with torch.no_grad():
        found = model(torch.tensor([[*ids, words.eos()]]), None, batch).edits
        states, embeddings = model.encoder(batch.ids), model.encoder.tokens.weight
        parts = [part[0, :-1] for part in states if part is not None]
        own = embeddings[batch.ids[0, :-1]]
        expected = model.scores(embeddings, own, *parts)
    torch.testing.assert_close(found, expected)


def test_factorized_models_need_equal_tables(tmp_path: Path) -> None:
    folder = pretrained.bert(tmp_path / "bert")
    task = task_of(folder)
    task.edits = EditDictionary((("good",),), (("bad",), ("xyz",)), 1, Transforms())
    assert tagger(folder, task, edit_unfactorized=True).scores.edits.out_features == 5
    with pytest.raises(ConfigurationError, match="--edit-unfactorized"):
        tagger(folder, task)


def test_words_are_as_short_as_the_positions_of_the_encoder_require(tmp_path: Path) -> None:
    """A window of one word fits into the encoder, also one that limits the positions itself."""
    for made in (pretrained.bert, pretrained.electra):
        task = EditLabelingTask(EditLabelingConfig(edit_unit="word"), OovDictionary(), EDITS)
        cfg = EditTaggerConfig(edit_unfactorized=True)
        cfg.edit_init = str(made(tmp_path / made.__name__))
        task._set_words(cfg)
        model = EditTagger.build_model(cfg, task).eval()
        words = task.source_dictionary
        ids = [words.bos(), *map(words.index, ("good", "x" * 60)), words.eos()]
        sample = {"src_tokens": torch.tensor([ids]), "src_lengths": torch.tensor([len(ids)])}
        generator = EditGenerator([model], words, EDITS, CorrectionSearch())
        ((hypothesis,),) = generator.generate([], {"net_input": sample})
        assert model.subwords.longest == 10
        assert len(hypothesis["tokens"])
