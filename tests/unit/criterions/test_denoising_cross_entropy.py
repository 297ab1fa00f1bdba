"""The masked loss equals a loop over positions. Kept positions, counts and logging."""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel, FairseqDecoder
from torch import Tensor, nn

from fairseq_ssl.criterions.denoising_cross_entropy import DenoisingCrossEntropy
from fairseq_ssl.errors import ConfigurationError
from tests.unit.models import test_pointer_transformer as pointers
from tests.unit.models.tiny_models import EOS, PAD, build, dictionary

SIZE = 11
Weights = list[list[float]]


class FixedDecoder(FairseqDecoder):
    def __init__(self, logits: Tensor) -> None:
        super().__init__(dictionary(SIZE))
        self.logits = nn.Parameter(logits)

    def forward(self, **_: Any) -> tuple[Tensor, None]:
        return self.logits, None


class FixedModel(BaseFairseqModel):
    """A model whose parameters are its logits [batch, time, vocabulary]."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.decoder = FixedDecoder(logits)

    def forward(self, **inputs: Any) -> tuple[Tensor, None]:
        output: tuple[Tensor, None] = self.decoder(**inputs)
        return output


def gradient(model: FixedModel) -> Tensor:
    """Return the gradient of the logits."""
    assert model.decoder.logits.grad is not None
    return model.decoder.logits.grad


class OwnProbabilities(FixedModel):
    """A model with its own `get_normalized_probs`, such as a copying model."""

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any = None) -> Tensor:
        assert net_output[0].dim() == 3, "it must get all positions"
        probabilities = 0.9 * torch.softmax(net_output[0], -1) + 0.1 / SIZE
        return probabilities.log() if log_probs else probabilities


TARGET = torch.tensor([[5, 6, 7, 8, 9, EOS], [4, 5, 6, EOS, PAD, PAD], [EOS, *[PAD] * 5]])
CHANGED = torch.tensor([[0, 1, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0] * 6], dtype=torch.bool)


def sample(target: Tensor = TARGET, changed: Tensor = CHANGED) -> dict[str, Any]:
    return {
        "net_input": {},
        "target": target,
        "changed": changed,
        "ntokens": int(target.ne(PAD).sum()),
        "nsentences": len(target),
    }


def criterion(keep_rate: float = 0.03, smoothing: float = 0.0) -> DenoisingCrossEntropy:
    task = Namespace(target_dictionary=dictionary(SIZE))
    return DenoisingCrossEntropy(task, smoothing, keep_rate)


def logits(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(3, 6, SIZE, generator=torch.Generator().manual_seed(1), dtype=dtype)


def plain_loss(scores: Tensor, weights: Weights, smoothing: float) -> tuple[Tensor, Tensor]:
    """Compute PoDA, equation 2, in double precision. Return the loss and the unsmoothed loss."""
    loss = nll = torch.zeros((), dtype=torch.float64)
    for i, row in enumerate(weights):
        for j, weight in enumerate(row):
            log_p = scores[i, j].double() - torch.logsumexp(scores[i, j].double(), 0)
            right = log_p[TARGET[i, j]]
            others = log_p.sum() - right
            share = smoothing / (SIZE - 1)
            loss = loss - weight * ((1 - smoothing) * right + share * others)
            nll = nll - weight * right
    return loss, nll


ALL: Weights = [[1.0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0]]
ONLY: Weights = [[0.0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0]]
MEAN: Weights = [[0.2, 1, 1, 0.2, 0.2, 1], [0.2, 0.2, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("model_type", [FixedModel, OwnProbabilities])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    ("keep_rate", "training", "weights"),
    [(1.0, True, ALL), (0.0, True, ONLY), (0.2, False, MEAN), (0.0, False, ONLY)],
)
def test_loss_equals_the_reference(
    keep_rate: float,
    training: bool,
    weights: Weights,
    smoothing: float,
    model_type: type[FixedModel],
) -> None:
    model = model_type(logits()).train(training)
    loss, size, logged = criterion(keep_rate, smoothing)(model, sample())
    loss.backward()

    scores = logits().requires_grad_()
    as_logits = model.get_normalized_probs((scores, None), log_probs=True)
    expected, nll = plain_loss(as_logits, weights, smoothing)
    expected.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss.double(), expected, atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(gradient(model), scores.grad, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(logged["nll_loss"].double(), nll, atol=1e-5, rtol=1e-6)
    assert logged["loss"] == loss
    assert not logged["loss"].requires_grad
    assert size == logged["sample_size"] == pytest.approx(sum(map(sum, weights)))
    assert (logged["changed"], logged["ntokens"], logged["nsentences"]) == (3, 11, 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    model = FixedModel(logits(dtype=dtype))
    loss, _, _ = criterion(1.0, 0.1)(model, sample())
    loss.backward()
    assert loss.dtype == torch.float32
    expected, _ = plain_loss(logits(dtype=dtype), ALL, 0.1)
    torch.testing.assert_close(loss.double(), expected, atol=1e-4, rtol=1e-5)
    assert gradient(model).dtype == dtype


def test_sample_of_unchanged_words_depends_on_the_seed() -> None:
    target = torch.full((40, 500), 5)
    target[:, -1] = EOS
    target[20:, 250:] = PAD
    target[20:, 249] = EOS
    changed = torch.zeros_like(target, dtype=torch.bool)
    changed[:, :50] = True
    model = FixedModel(torch.zeros(40, 500, SIZE))
    kept = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        model.zero_grad()
        loss, size, _ = criterion()(model, sample(target, changed))
        loss.backward()
        kept.append(gradient(model).abs().sum(-1) > 0)
        assert size == kept[-1].sum()
        assert loss.item() == pytest.approx(size * math.log(SIZE), rel=1e-5)
    assert kept[0].equal(kept[1])
    assert not kept[0].equal(kept[2])
    assert kept[0][changed | target.eq(EOS)].all()
    assert not kept[0][target.eq(PAD)].any()
    others = ~changed & target.ne(EOS) & target.ne(PAD)
    expected = 0.03 * 20 * (449 + 199)
    assert abs(int(kept[0][others].sum()) - expected) < 4 * (expected * 0.97) ** 0.5


TIED = {"share_decoder_input_output_embed": True}


@pytest.mark.parametrize("options", [{}, TIED, {"adaptive_softmax_cutoff": "5,8"}])
def test_loss_of_a_transformer_equals_the_reference(options: dict[str, Any]) -> None:
    options = {"share_all_embeddings": False, "dropout": 0.0, **options}
    model = build("transformer_tiny", dictionary(SIZE), **options)
    previous = torch.cat([torch.full((3, 1), EOS), TARGET[:, :-1]], 1)
    source = torch.tensor([[5, 6, EOS]] * 3)
    inputs = sample()
    inputs["net_input"] = {
        "src_tokens": source,
        "src_lengths": source.ne(PAD).sum(1),
        "prev_output_tokens": previous,
    }
    shapes: list[Any] = []
    if "adaptive_softmax_cutoff" not in options:
        model.decoder.output_projection.register_forward_hook(
            lambda _, given, made: shapes.append(made.shape)
        )
    loss, size, logged = criterion(0.0, 0.1)(model, inputs)
    if TIED.items() <= options.items():
        assert shapes == [(6, SIZE)], "logits are computed at kept positions only"
    output = model(**inputs["net_input"])
    lprobs = model.get_normalized_probs(output, log_probs=True)
    expected, nll = plain_loss(lprobs, ONLY, 0.1)
    torch.testing.assert_close(logged["nll_loss"].double(), nll, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(loss.double(), expected, atol=1e-4, rtol=1e-5)
    assert size == 6


def test_logged_metrics() -> None:
    scores = torch.zeros(3, 6, SIZE)
    # correct: an unchanged word and a noised word, but not the second noised word
    scores[0, 0, 5] = scores[0, 1, 6] = 9.0
    model = FixedModel(scores).eval()
    _, _, logged = criterion(0.5)(model, sample())
    with metrics.aggregate() as shown:
        DenoisingCrossEntropy.reduce_metrics([logged, logged])
    values = shown.get_smoothed_values()
    certain = -math.log2(math.exp(9) / (math.exp(9) + SIZE - 1))
    # 2 noised words and 3 EOS for certain, and half of 4 other words
    bits = (7 * math.log2(SIZE) + 1.5 * certain) / 8.5
    assert values["loss"] == values["nll_loss"] == pytest.approx(bits, abs=1e-3)
    assert values["ppl"] == pytest.approx(2**bits, rel=1e-2)
    assert values["changed_share"] == pytest.approx(100 * 3 / 8, abs=0.01)
    assert values["changed_accuracy"] == pytest.approx(100 / 3, abs=0.01)
    assert not any(name.startswith("_") for name in values)
    assert DenoisingCrossEntropy.logging_outputs_can_be_summed()


def test_words_that_a_sentence_cannot_copy_do_not_change_the_loss() -> None:
    """Such words of other sentences have a constant log p of -10,000, and no gradient."""
    model = pointers.tiny()
    data = pointers.sample(pointers.SENTENCES, pointers.TARGETS, left=False)
    data["changed"] = torch.ones_like(data["target"], dtype=torch.bool)
    task = Namespace(target_dictionary=dictionary(20))
    loss, _, logged = DenoisingCrossEntropy(task, 0.1, 1.0)(model, data)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    output = model(**data["net_input"])
    target = model.get_targets(data, output)
    is_word = target.ne(PAD)
    lprobs = model.get_normalized_probs(output, log_probs=True)[is_word]
    stock, nll_loss = label_smoothed_nll_loss(lprobs, target[is_word], 0.1)
    share = 0.1 / (lprobs.size(1) - 1)
    possible = lprobs[lprobs > -10_000].sum()
    torch.testing.assert_close(loss, (0.9 - share) * nll_loss - share * possible)
    torch.testing.assert_close(logged["nll_loss"], nll_loss.detach())
    assert stock > loss + 100
    expected = torch.autograd.grad(stock, list(model.parameters()), allow_unused=True)
    torch.testing.assert_close(found, expected)


def test_missing_positions_are_rejected() -> None:
    without_changed = sample()
    del without_changed["changed"]
    with pytest.raises(ConfigurationError, match="--task"):
        criterion()(FixedModel(logits()), without_changed)
