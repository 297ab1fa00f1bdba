"""Classification losses equal reference implementations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fairseq_ssl.criterions import classification_cross_entropy
from fairseq_ssl.criterions.classification_cross_entropy import (
    AdversarialCrossEntropy,
    ClassificationCrossEntropy,
    ImitationCrossEntropy,
    VirtualAdversarialCrossEntropy,
)
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.recurrent_models import LstmClassifier, LstmClassifierConfig
from fairseq_ssl.modules.window_classifiers import Imitators
from tests.unit.models.tiny_models import PAD, dictionary

TASK = SimpleNamespace(stage="imitate", target_dictionary=None)


class Scorer(nn.Module):
    """A smooth model whose logits depend on all positions, including padding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.table = nn.Embedding(9, 4)
        self.output = nn.Linear(4, 3)

    def embed(self, src_tokens: Tensor) -> Tensor:
        found: Tensor = self.table(src_tokens)
        return found

    def precompute(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return inputs

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor, embedded: Tensor | None = None
    ) -> Tensor:
        embedded = self.embed(src_tokens) if embedded is None else embedded
        scores: Tensor = self.output(embedded.sum(1).tanh())
        return scores


def inputs() -> dict[str, Tensor]:
    tokens = torch.tensor([[4, 5, 6], [7, 8, PAD]])
    return {"src_tokens": tokens, "src_lengths": torch.tensor([3, 2])}


def sample(**more: Any) -> dict[str, Any]:
    batch = {"target": torch.tensor([0, 2]), "nsentences": 2, "ntokens": 5}
    return {**batch, "net_input": inputs(), **more}


def gradient_of(loss: Tensor, model: nn.Module) -> Tensor:
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, [*model.parameters()])])


def cross_entropy(logits: Tensor) -> Tensor:
    return -logits.float().log_softmax(-1)[[0, 1], [0, 2]].sum()


def moved(embedded: Tensor, gradient: Tensor, length: float) -> Tensor:
    """Add a perturbation of norm `length` to each text."""
    rows = []
    for row, words in enumerate((3, 2)):
        direction = gradient[row].clone()
        direction[words:] = 0
        rows.append(embedded[row] + length * direction / direction.norm())
    return torch.stack(rows)


def test_cross_entropy_and_logged_counts() -> None:
    model = Scorer()
    loss, size, log = ClassificationCrossEntropy(TASK)(model, sample())
    torch.testing.assert_close(loss, cross_entropy(model(**inputs())))
    right = (model(**inputs()).argmax(-1) == torch.tensor([0, 2])).sum()
    assert (size, log["correct"], log["extra_loss"]) == (2, right, 0)
    with pytest.raises(ConfigurationError, match="labels"):
        ClassificationCrossEntropy(TASK)(model, {"net_input": inputs()})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adversarial_loss_equals_the_loss_of_perturbed_embeddings(dtype: torch.dtype) -> None:
    model = Scorer().to(dtype)
    found = AdversarialCrossEntropy(TASK, 0.7)(model, sample())[0]
    embedded = model.embed(inputs()["src_tokens"])
    clean = cross_entropy(model(**inputs()))
    (gradient,) = torch.autograd.grad(
        cross_entropy(model(**inputs(), embedded=embedded)), embedded, retain_graph=True
    )
    disturbed = model(**inputs(), embedded=moved(embedded, gradient, 0.7))
    expected = clean + cross_entropy(disturbed)
    torch.testing.assert_close(found, expected)
    wanted = gradient_of(expected, model)
    near = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(gradient_of(found, model), wanted, atol=near, rtol=near)


def test_adversarial_loss_is_off_in_validation() -> None:
    model = Scorer()
    for criterion in (
        AdversarialCrossEntropy(TASK, 5.0),
        VirtualAdversarialCrossEntropy(TASK, 5.0),
    ):
        loss = criterion.eval()(model, sample())[0]
        torch.testing.assert_close(loss, cross_entropy(model(**inputs())))


@pytest.mark.parametrize("has_others", [True, False])
def test_virtual_adversarial_loss_equals_the_reference(has_others: bool) -> None:
    """For small xi, the direction is the main eigenvector of the divergence's Hessian."""
    model = Scorer()
    more = {"unlabeled": inputs()} if has_others else {}
    criterion = VirtualAdversarialCrossEntropy(TASK, 0.7)
    torch.manual_seed(5)
    found = criterion(model, sample(**more))[0]
    torch.manual_seed(5)
    embedded = model.embed(inputs()["src_tokens"])
    believed = model(**inputs()).detach().log_softmax(-1)

    def divergence(at: Tensor) -> Tensor:
        said = model(**inputs(), embedded=at).log_softmax(-1)
        found: Tensor = (believed.exp() * (believed - said)).sum()
        return found

    first = torch.randn_like(embedded)
    tried = moved(torch.zeros_like(embedded), first, 0.1).requires_grad_()
    (gradient,) = torch.autograd.grad(divergence(embedded.detach() + tried), tried)
    added = divergence(moved(embedded, gradient, 0.7))
    assert added > 0
    expected = cross_entropy(model(**inputs())) + added
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient_of(found, model), gradient_of(expected, model))


class Watched(AdversarialCrossEntropy):
    """The loss without perturbations. It stores the gradient."""

    def perturbation(self, gradient: Tensor, inputs: Any, length: float) -> Tensor:
        self.gradient = gradient.float().flatten()
        return torch.zeros_like(gradient)


def test_adversarial_direction_of_a_tiny_gradient_in_half_precision() -> None:
    """The texts are classified almost perfectly, so that float16 would flush the gradient to 0."""
    directions = []
    for dtype in (torch.float32, torch.float16):
        model = Scorer()
        with torch.no_grad():
            model.output.weight.mul_(1e-2)
            model.output.bias.copy_(torch.tensor([11.0, 0.0, 0.0]))
        loss = Watched(TASK, 1.0)
        loss(model.to(dtype), sample(target=torch.tensor([0, 0])))
        directions.append(loss.gradient)
    assert torch.cosine_similarity(directions[0], directions[1], dim=0) > 0.99


class Watching(VirtualAdversarialCrossEntropy):
    """Keeps the last perturbation, with the sign of the random direction in `sign`."""

    sign = 1.0

    def perturbation(self, gradient: Tensor, inputs: dict[str, Tensor], length: float) -> Tensor:
        self.last = super().perturbation(gradient, inputs, length)
        return self.last * self.sign if length == classification_cross_entropy.XI else self.last


def test_forward_passes_have_the_same_dropout() -> None:
    """Otherwise, the divergence of an unchanged text is not 0, and the direction is noise."""
    cfg = LstmClassifierConfig(recurrent_dropout=0.5, recurrent_embed_std=1.0, recurrent_layers=2)
    cfg.recurrent_embed_dim = cfg.recurrent_hidden_dim = 16
    torch.manual_seed(1)
    model = LstmClassifier(cfg, dictionary(), 3).train()
    directions = []
    for sign in (1.0, -1.0):
        criterion = Watching(TASK, 1e-6).train()
        criterion.sign = sign
        torch.manual_seed(7)
        assert criterion.losses(model, sample())[2] < 1e-6
        directions.append(criterion.last.flatten())
    assert torch.cosine_similarity(directions[0], directions[1], dim=0) < -0.9
    first = torch.rand(1)
    torch.manual_seed(7)
    assert first != torch.rand(1), "the random numbers go on"


def embeddings_of(criterion: Any, model: nn.Module) -> list[Tensor]:
    """Return the embeddings that the criterion passes to the model, for the same random numbers."""
    seen: list[Tensor] = []

    def note(_: Any, __: Any, named: Any) -> None:
        seen.append(named["embedded"].detach().float())

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    torch.manual_seed(5)
    criterion(model, sample())
    hook.remove()
    return seen


def test_virtual_adversarial_direction_is_not_rounded_in_mixed_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The difference of logits at a distance of xi is smaller than the rounding of bfloat16."""
    monkeypatch.setattr(classification_cross_entropy, "XI", 0.001)
    criterion = VirtualAdversarialCrossEntropy(TASK, 0.7)
    exact = embeddings_of(criterion, Scorer())
    with torch.autocast("cpu", torch.bfloat16):
        found = embeddings_of(criterion, Scorer())
    torch.testing.assert_close(found[-1], exact[-1], atol=0.01, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_virtual_adversarial_training_rejects_half_precision(dtype: torch.dtype) -> None:
    """At a distance of xi, rounded logits are equal, and the direction is 0 or noise."""
    criterion, model = VirtualAdversarialCrossEntropy(TASK, 5.0), Scorer().to(dtype)
    with pytest.raises(ConfigurationError, match="--fp16"):
        criterion(model, sample())
    criterion.eval()(model, sample())


def test_imitation_loss_equals_equation_3_11() -> None:
    torch.manual_seed(1)
    model = Imitators(9, 3, (1, 2), PAD, 4, 5)
    tokens = torch.tensor([[4, 5, 6], [7, 8, PAD]])
    teacher = torch.tensor([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]])
    batch = {"net_input": {"piece_tokens": tokens}, "teacher": teacher, "nsentences": 2}
    loss, size, log = ImitationCrossEntropy(TASK)(lambda piece_tokens: model(piece_tokens), batch)
    found = model(tokens)
    expected = 0.0
    for logits in found.logits:
        for place, text in enumerate([0, 0, 0, 1, 1]):
            said = logits[place].log_softmax(-1)
            expected -= (teacher[text] * said).sum().item()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert size == 2
    assert min(log["kl_1"], log["kl_2"]) > 0
