"""Experts initialized from BERT or from the encoders of translation models."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers

import fairseq_ssl

fairseq_ssl.register()
from fairseq import models as fairseq_models  # noqa: E402
from fairseq.data import Dictionary  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402

from fairseq_ssl.cli.main import main  # noqa: E402
from fairseq_ssl.errors import ConfigurationError, DataError  # noqa: E402
from fairseq_ssl.inference.classification import TextClassifierPipeline  # noqa: E402
from tests import pretrained  # noqa: E402
from tests.conftest import weights  # noqa: E402
from tests.plugin import classification as made  # noqa: E402
from tests.unit.inference import random_models  # noqa: E402

WORDS = tuple("abcdefg")
SMALL = {
    **{
        f"{side}_{name}": 1 if name == "layers" else 8
        for side in ("encoder", "decoder")
        for name in ("layers", "embed_dim", "ffn_embed_dim")
    },
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "transformer": SMALL,
    "shape_transformer": {**SMALL, "shape_positions": "relative"},
    "pointer_transformer_tiny": {**SMALL, "copy_vocabulary": 6},
    "pseudo_bidirectional_transformer_small": {
        name: value for name, value in SMALL.items() if name.startswith("encoder")
    },
    "bytenet_digits": {"bytenet_dim": 8},
    "lstm": {**SMALL, "encoder_bidirectional": True},
    "edit_tagger_small": {
        **{name: value for name, value in SMALL.items() if name.startswith("encoder")},
        "attention_dropout": 0.0,
    },
}

FCONV = {"arch": "fconv_iwslt_de_en", "max_source_positions": 9, "max_target_positions": 9}


def task() -> Any:
    dictionary = Dictionary()
    for word in WORDS:
        dictionary.add_symbol(word)
    return SimpleNamespace(source_dictionary=dictionary, classes=["bad", "fine", "good"])


def built(arch: str, for_task: Any, **options: Any) -> Any:
    torch.manual_seed(1)
    cfg = OmegaConf.create({"_name": arch, **options})
    return fairseq_models.build_model(cfg, for_task)


@pytest.mark.parametrize("arch", ENCODERS)
def test_logits_do_not_depend_on_the_batch(arch: str) -> None:
    options = json.dumps({"arch": arch, **ENCODERS[arch]})
    for pool in ("mean", "first"):
        model = built(
            "encoder_classifier", task(), classifier_encoder_options=options, classifier_pool=pool
        ).eval()
        texts = [[4, 5, 6, 7, 2], [8, 2], [9, 10, 4, 2]]
        block = torch.full((3, 5), 1)
        for row, text in enumerate(texts):
            block[row, : len(text)] = torch.tensor(text)
        lengths = torch.tensor([len(text) for text in texts])
        with torch.no_grad():
            together = model(block, lengths)
            for row, text in enumerate(texts):
                alone = model(torch.tensor([text]), lengths[row : row + 1])
                torch.testing.assert_close(together[row], alone[0], rtol=1e-4, atol=1e-5)
        assert together.shape == (3, 3)
        assert not torch.allclose(together[0], together[1])


@pytest.mark.parametrize("arch", ENCODERS)
def test_embeddings_can_be_perturbed_and_have_a_gradient(arch: str) -> None:
    options = json.dumps({"arch": arch, **ENCODERS[arch], "dropout": 0.0})
    model = built(
        "encoder_classifier", task(), classifier_encoder_options=options, classifier_dropout=0.0
    )
    tokens, lengths = torch.tensor([[4, 5, 6, 2], [7, 8, 2, 1]]), torch.tensor([4, 3])
    embedded = model.embed(tokens)
    logits = model(tokens, lengths, embedded=embedded)
    torch.testing.assert_close(logits, model(tokens, lengths))
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), embedded, retain_graph=True)
    assert gradient[:, :3].abs().sum(-1).gt(0).all()
    assert gradient[1, 3].abs().sum() == 0, "padding must not change the logits"
    moved = model(tokens, lengths, embedded=embedded + gradient)
    assert not torch.allclose(moved, logits)
    moved.sum().backward()
    assert model.encoder.embed_tokens.weight.grad.abs().sum() > 0
    assert not model.encoder.embed_tokens._forward_hooks


def test_a_call_in_another_thread_has_its_own_embeddings() -> None:
    options = json.dumps({"arch": "transformer", **SMALL})
    model = built("encoder_classifier", task(), classifier_encoder_options=options).eval()
    texts, lengths = (torch.tensor([[4, 5, 2]]), torch.tensor([[8, 9, 2]])), torch.tensor([3])
    expected = [model(text, lengths) for text in texts]
    others: list[torch.Tensor] = []

    def call_in_thread(*_: Any) -> None:
        hook.remove()
        with ThreadPoolExecutor() as pool:
            others.append(pool.submit(model, texts[1], lengths).result())

    hook = model.encoder.register_forward_pre_hook(call_in_thread)
    torch.testing.assert_close([model(texts[0], lengths), *others], expected)


def test_translation_model_embeddings_are_matched_by_word(tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path / "data")
    path = random_models.translation(tmp_path / "t.pt", data, 1)
    for_task = task()
    other = Dictionary()
    for word in ("new", *reversed(random_models.SOURCE_WORDS)):
        other.add_symbol(word)
    for_task.source_dictionary = other
    dictionary = str(data / "dict.src.txt")
    given = {"classifier_encoder": str(path), "classifier_encoder_dict": dictionary}
    model = built("encoder_classifier", for_task, **given).eval()
    from fairseq import checkpoint_utils

    options = {"data": str(data)}
    (translator,), _, was = checkpoint_utils.load_model_ensemble_and_task([str(path)], options)
    text = ["g", "a", "c"]
    ours = torch.tensor([[*map(other.index, text), other.eos()]])
    theirs = torch.tensor([[*map(was.source_dictionary.index, text), was.source_dictionary.eos()]])
    lengths = torch.tensor([4])
    with torch.no_grad():
        wanted = translator.eval().encoder(theirs, lengths)["encoder_out"][0]
        torch.testing.assert_close(model.encoder(ours, lengths)["encoder_out"][0], wanted)
    entries = (data / "dict.src.txt").read_text().splitlines(keepends=True)
    (data / "short.txt").write_text("".join(entries[:-1]))
    given["classifier_encoder_dict"] = str(data / "short.txt")
    with pytest.raises(DataError, match="has 10 symbols"):
        built("encoder_classifier", for_task, **given)


@pytest.mark.parametrize(
    ("arch", "flags"),
    [
        ("bytenet_digits", ("--bytenet-unfold", "2.5,1")),
        ("lstm", ("--encoder-embed-dim", "8", "--decoder-embed-dim", "8")),
        ("edit_tagger_small", (*random_models.SIZES, *random_models.HEADS)),
    ],
)
def test_encoders_of_other_architectures(arch: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """Logits do not depend on the batch. The number of encoder columns is the checkpoint's."""
    data = random_models.data_folder(tmp_path / "data")
    path = random_models.encoding(tmp_path / "one.pt", data, arch, *flags)
    for_task = task()
    dictionary = str(data / "dict.src.txt")
    given = {"classifier_encoder": str(path), "classifier_encoder_dict": dictionary}
    model = built("encoder_classifier", for_task, **given).eval()
    theirs = torch.load(path, weights_only=False)["model"]
    for name, weight in model.encoder.state_dict().items():
        if "tokens.weight" not in name:
            assert torch.equal(weight, theirs[f"encoder.{name}"]), name
    table = "tokens.weight" if arch.startswith("edit") else "embed_tokens.weight"
    torch.testing.assert_close(model.encoder.embed_tokens.weight, theirs[f"encoder.{table}"])
    tokens, lengths = torch.tensor([[4, 5, 2, 1], [6, 7, 8, 2]]), torch.tensor([3, 4])
    with torch.no_grad():
        together = model(tokens, lengths)
        alone = model(tokens[:1, :3], lengths[:1])
        torch.testing.assert_close(together[0], alone[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("", "--classifier-encoder"),
        ('{"arch": "transformer_lm"}', "encoder and a decoder"),
        ('{"arch": "fconv"}', "max_source_positions"),
        (json.dumps(FCONV), "FConvEncoder"),
        ('{"arch": "transformer_tiny", "encoder_layers": "3"}', "transformer_tiny \\('str'"),
        ('{"arch": "edit_tagger_small", "encoder_embed_dim": 33}', "multiple"),
        ('{"arch": "lstm", "encoder_layers": 2, "decoder_layers": 3}', "must match"),
    ],
)
def test_unsupported_encoders_are_rejected(options: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as raised:
        built("encoder_classifier", task(), classifier_encoder_options=options)
    assert "\n" not in str(raised.value)


def test_number_of_lstm_layers_needs_no_decoder_option() -> None:
    options = json.dumps({"arch": "lstm", "encoder_layers": 2})
    model = built("encoder_classifier", task(), classifier_encoder_options=options)
    assert model.encoder.lstm.num_layers == 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A BERT, a RoBERTa, and data tokenized by each."""
    found = {}
    for kind in (pretrained.bert, pretrained.roberta):
        folder, name = tmp_path_factory.mktemp("texts"), kind.__name__
        found[name] = kind(folder / name)
        found[f"{name}-data"] = made.data_folder(folder, "--tokenizer", f"bert:{found[name]}")
    return found


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_bert_classifier_equals_transformers(kind: str, folders: dict[str, Path]) -> None:
    folder, data = folders[kind], folders[f"{kind}-data"]
    save = data.parent / "expert"
    flags = ("--arch", "bert_classifier", "--classifier-bert", folder, "--max-epoch", "2")
    more = ("--criterion", "adversarial_cross_entropy", "--classifier-dropout", "0")
    path = made.train(data, save, *flags, *more)
    away = folder.rename(folder.with_suffix(".away"))
    try:
        model, for_task = made.loaded(path, data)
    finally:
        away.rename(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = for_task.unlabeled("unlabeled", ["words"])
    batch = texts.collater([texts[index] for index in range(4)])["net_input"]
    lines = (data.parent / "unlabelled.txt").read_text().splitlines()[:4]
    with torch.no_grad():
        found = model(**batch)
        for row, line in enumerate(lines):
            ids = torch.tensor([tokenizer(line)["input_ids"]])
            states = model.encoder(ids).last_hidden_state
            wanted = model.classes(states, torch.ones_like(ids, dtype=torch.bool))
            torch.testing.assert_close(found[row], wanted[0], rtol=1e-4, atol=1e-5)
    assert {n for n, w in model.named_parameters() if not w.requires_grad} == {
        "encoder.pooler.dense.weight",
        "encoder.pooler.dense.bias",
    }
    start = transformers.AutoModel.from_pretrained(folder).state_dict()
    learned = weights(path)
    moved = [
        name for name, one in start.items() if not torch.equal(one, learned[f"encoder.{name}"])
    ]
    assert len(moved) > len(start) / 2


@pytest.fixture(scope="module")
def bert_models(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the checkpoints of a BERT classifier and of its mixture with imitators."""
    data, runs = folders["bert-data"], tmp_path_factory.mktemp("runs")
    flags = ("--arch", "bert_classifier", "--classifier-bert", folders["bert"])
    more = ("--criterion", "classification_cross_entropy", "--max-epoch", "1")
    expert = made.train(data, runs / "expert", *flags, *more)
    imitators = made.imitators(data, runs / "imitators", expert)
    return [expert, made.mixture(data, runs / "mixture", expert, "--mixture-imitators", imitators)]


def test_texts_longer_than_the_positions_of_bert_are_truncated_at_the_start(
    folders: dict[str, Path],
    bert_models: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = folders["bert-data"]
    config = transformers.AutoConfig.from_pretrained(folders["bert"])
    limit = config.max_position_embeddings - 1  # without the start token, with </s>
    end = "a " * (limit - 3) + "good film"
    long = "b b " + end
    one, other = TextClassifierPipeline.load(bert_models[0], data).classify([long, end])
    assert one.probabilities == pytest.approx(other.probabilities)
    (tmp_path / "text.txt").write_text(f"{long}\na b\n{long}\n{end}\n")
    words = [str(tmp_path / "text.txt"), "--data-dir", str(data)]
    for model in bert_models:
        assert main(["classify", "predict", "--model", str(model), *words]) == 0
        shown = capsys.readouterr()
        assert len(shown.out.splitlines()) == 4
        assert f"2 texts are longer than the model's maximum length of {limit} " in shown.err


def test_a_bert_teaches_imitators_texts_that_are_longer_than_its_positions(
    folders: dict[str, Path], bert_models: list[Path], tmp_path: Path
) -> None:
    extra = tmp_path / "extra"
    extra.write_text("".join(f"{'a b good film ' * 100}{number}\n" for number in range(16)))
    (tmp_path / "data").mkdir()
    flags = ("--tokenizer", f"bert:{folders['bert']}", "--extra-unlabeled", str(extra))
    data = made.data_folder(tmp_path / "data", *flags)
    unlabeled = ("--classification-unlabeled", "unlabeled:extra")
    assert made.imitators(data, tmp_path / "run", bert_models[0], *unlabeled).exists()


def test_tokens_of_a_different_tokenizer_are_rejected(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    flags = ("--arch", "bert_classifier", "--classifier-bert", folders["bert"])
    more = ("--criterion", "classification_cross_entropy", "--max-epoch", "1")
    with pytest.raises(DataError, match="--tokenizer bert:"):
        made.train(folders["roberta-data"], tmp_path, *flags, *more)
