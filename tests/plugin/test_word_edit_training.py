"""Training and decoding of edit taggers on words, of which the encoder reads subwords."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from fairseq_ssl.errors import ConfigurationError, DataError
from tests import pretrained
from tests.conftest import Run
from tests.plugin.edit_corpus import TASK, WORDS, trained, write_corpus

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.models.edit_tagger import EditTagger  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A binarized corpus of words with labels, and a tiny BERT of letters."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    pretrained.bert(folder / "bert")
    return folder


def trained_on_words(corpus: Path, folder: Path, *flags: str) -> Path:
    return trained(corpus / "bin", folder, *WORDS, "--max-update", "4", *flags)


@pytest.fixture(scope="module")
def model(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A factorized tagger whose pretrained folder is gone."""
    encoder = shutil.copytree(corpus / "bert", tmp_path_factory.mktemp("encoder") / "bert")
    path = trained_on_words(corpus, tmp_path_factory.mktemp("model"), "--edit-init", str(encoder))
    shutil.rmtree(encoder)
    return path


def corrector(model: Path, corpus: Path, **overrides: Any) -> Any:
    return EditTagger.from_pretrained(
        str(model.parent), model.name, str(corpus / "bin"), **overrides
    )


def test_words_keep_case_and_spelling_outside_the_vocabulary(corpus: Path, model: Path) -> None:
    found = corrector(model, corpus, edit_keep_bias=1.0)
    sentence = "Zyx SEES a brontosaurus ツ ."
    assert found.correct([sentence])[0].text == sentence


def test_labels_are_chosen_for_words(corpus: Path, model: Path) -> None:
    """Each applied edit names a position among the words, and its label."""
    found = corrector(model, corpus, edit_iterations=1, edit_keep_bias=-1.0)
    sentence = "Zyx SEES a brontosaurus ."
    correction = found.correct([sentence])[0]
    assert correction.edits
    assert max(edit.position for edit in correction.edits) <= len(sentence.split())


def test_long_sentences_use_windows_of_subwords(corpus: Path, model: Path) -> None:
    found = corrector(model, corpus, edit_keep_bias=1.0)
    sentence = " ".join(["brontosaurus", "sees", "an", "apple"] * 30)
    assert found.correct([sentence, "a dog"])[0].text == sentence


def test_interactive_equals_the_python_interface(run: Run, corpus: Path, model: Path) -> None:
    lines = [*(corpus / "valid.src").read_text().splitlines()[:4], "Zyx sees a ツ ."]
    (model.parent / "lines").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    words = ["fairseq-interactive", corpus / "bin", *TASK, "--path", model, "--cpu"]
    words += ["-s", "src", "-t", "trg", "--input", model.parent / "lines"]
    shown = run(*words).stdout.splitlines()
    found = [line.split("\t")[2] for line in shown if line.startswith("H-")]
    assert found == [one.text for one in corrector(model, corpus).correct(lines)]


@pytest.mark.parametrize("flags", [("--edit-unfactorized", "--edit-pooling", "mean"), ()])
def test_random_weights_with_a_tokenizer_resume(
    flags: tuple[str, ...], corpus: Path, tmp_path: Path
) -> None:
    sizes = ("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8")
    words = ("--edit-tokenizer", str(corpus / "bert"), *sizes, "--encoder-attention-heads", "2")
    whole = trained_on_words(corpus, tmp_path / "whole", *words, *flags)
    trained_on_words(corpus, tmp_path / "part", *words, *flags, "--max-update", "2")
    resumed = trained_on_words(corpus, tmp_path / "part", *words, *flags)
    one, other = (torch.load(path, weights_only=False)["model"] for path in (whole, resumed))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_tokenizer_with_other_subwords_is_rejected(corpus: Path, tmp_path: Path) -> None:
    sizes = ("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8")
    words = (*sizes, "--encoder-attention-heads", "2", "--max-update", "1", "--edit-tokenizer")
    model = trained_on_words(corpus, tmp_path / "first", *words, str(corpus / "bert"))
    other = shutil.copytree(corpus / "bert", tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text("utf-8"))
    vocab = tokenizer["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    tune = ("--finetune-from-model", str(model))
    with pytest.raises(ConfigurationError, match=str(model)):
        trained_on_words(corpus, tmp_path / "tuned", *words, str(other), *tune)
    trained_on_words(corpus, tmp_path / "tuned", *words, str(corpus / "bert"), *tune)


def test_a_tokenizer_is_required(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--edit-unit word needs the tokenizer"):
        trained_on_words(corpus, tmp_path)
    with pytest.raises(DataError, match=r"gone does not exist\. .* hf download NAME --local-dir"):
        trained_on_words(corpus, tmp_path, "--edit-init", str(tmp_path / "gone"))
