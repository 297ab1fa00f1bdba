"""Masked language models of transformers, compared with one forward pass per token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference import language_models
from fairseq_ssl.inference.language_models import MaskedStates
from fairseq_ssl.inference.scorers import scorer_loader
from fairseq_ssl.inference.scoring import MASKED_MODEL, ScoringConfig, TokenPair
from tests import pretrained

TEXTS = ("good film", "bad", "a b c d", "abc", "", "a film that is good . @")
PAIRS: list[TokenPair] = [([], text.split()) for text in TEXTS]
BATCHES = (4000, 13, 1)
KINDS = (pretrained.bert, pretrained.roberta)
Make = Callable[..., Path]


def reference(folders: list[Path], text: str) -> tuple[list[float], torch.Tensor]:
    """Return log P of each token when it is masked, and the first model's mean hidden state."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[0])
    model_class = transformers.AutoModelForMaskedLM
    models = [model_class.from_pretrained(folder).eval() for folder in folders]
    ids = tokenizer(text)["input_ids"]
    scores = []
    with torch.no_grad():
        for index in range(1, len(ids) - 1):
            masked = list(ids)
            masked[index] = tokenizer.mask_token_id
            each = [model(torch.tensor([masked])).logits[0, index].softmax(-1) for model in models]
            scores.append(float(torch.stack(each).mean(0)[ids[index]].log()))
        states = models[0].base_model(torch.tensor([ids])).last_hidden_state[0, 1:-1]
    return scores, states.mean(0) if len(states) else torch.zeros(states.size(-1))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("count", [1, 2])
def test_scores_are_equal_to_one_forward_pass_per_token(
    make: Make, count: int, tmp_path: Path
) -> None:
    folders = [make(tmp_path / f"m{seed}", seed) for seed in range(1, count + 1)]
    expected = [reference(folders, text)[0] for text in TEXTS]
    for max_tokens in BATCHES:
        scoring = ScoringConfig(MASKED_MODEL, tuple(folders), "mlm", max_tokens=max_tokens)
        scored = scorer_loader(scoring)(scoring, 0).score(PAIRS)
        for (mean, penalized), values in zip(scored.values, expected, strict=True):
            size = len(values)
            assert mean == pytest.approx(sum(values) / size if size else 0.0, abs=1e-4)
            penalty = ((5 + size) / 6) ** 0.8
            assert penalized == pytest.approx(sum(values) / penalty, abs=1e-4)
        assert scored.tokens == sum(map(len, expected))


@pytest.mark.parametrize("make", KINDS)
def test_states_do_not_depend_on_the_batch(make: Make, tmp_path: Path) -> None:
    folder = make(tmp_path / "m")
    scoring = ScoringConfig(MASKED_MODEL, (folder,), "", max_tokens=20)
    means = MaskedStates(scoring, 0).means([words for _, words in PAIRS])
    for row, text in zip(means, TEXTS, strict=True):
        assert row.tolist() == pytest.approx(reference([folder], text)[1].tolist(), abs=1e-4)


@pytest.mark.parametrize("make", KINDS)
def test_long_text_is_truncated(make: Make, tmp_path: Path) -> None:
    folder = make(tmp_path / "m")
    scoring = ScoringConfig(MASKED_MODEL, (folder,), "mlm")
    long: list[TokenPair] = [([], ["a"] * 60)]
    scored = language_models.MaskedModelScorer(scoring, 0).score(long)
    assert (scored.cut, scored.tokens < 60) == (1, True)


def test_incompatible_or_damaged_models_are_rejected(tmp_path: Path) -> None:
    folder = pretrained.bert(tmp_path / "bert")
    other = pretrained.roberta(tmp_path / "roberta")
    (tmp_path / "m.pt").touch()
    damaged = pretrained.bert(tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"no weights")
    for models, culprit in (
        ((folder, other), "vocabularies"),
        ((folder, tmp_path / "m.pt"), "checkpoints"),
        ((tmp_path,), r"config\.json"),
        ((damaged,), "damaged"),
    ):
        with pytest.raises((DataError, UsageError), match=culprit):
            language_models.MaskedModelScorer(ScoringConfig(MASKED_MODEL, models, ""), 0)
