"""The reconstruction loss equals sums written out."""

from __future__ import annotations

import math

import torch

from fairseq_ssl.modules.reconstruction import group_candidates, log_likelihood, reconstruction_loss

THERE = [[-1.0, -2.5, -4.0], [-0.5, -3.0, -math.inf]]
BACK = [[-6.0, -2.0, -9.0], [-4.0, -1.0, -math.inf]]


def scores() -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.tensor(THERE, requires_grad=True),
        torch.tensor(BACK, requires_grad=True),
    )


def test_marginal_loss_and_its_gradient() -> None:
    there, back = scores()
    lost = reconstruction_loss(there, back)
    torch.autograd.backward(lost.sum())
    assert there.grad is not None
    assert back.grad is not None
    for row in range(2):
        products = [math.exp(f + b) for f, b in zip(THERE[row], BACK[row], strict=True)]
        assert math.isclose(float(lost[row].detach()), -math.log(sum(products)), rel_tol=1e-6)
        shares = torch.tensor([-product / sum(products) for product in products])
        torch.testing.assert_close(there.grad[row], shares)
        torch.testing.assert_close(back.grad[row], shares)


def test_log_likelihood_sums_over_words_and_eos() -> None:
    torch.manual_seed(1)
    lprobs = torch.randn(2, 3, 5).log_softmax(2)
    target = torch.tensor([[4, 3, 2], [3, 2, 1]])
    found = log_likelihood(lprobs, target, padding=1)
    first = sum(float(lprobs[0, place, word]) for place, word in enumerate((4, 3, 2)))
    second = sum(float(lprobs[1, place, word]) for place, word in enumerate((3, 2)))
    torch.testing.assert_close(found, torch.tensor([first, second]))


def test_group_candidates_by_sentence_and_rank() -> None:
    found = group_candidates(torch.tensor([7.0, 8.0, 9.0]), torch.tensor([3, 0, 1]), 2, 2)
    assert found.tolist() == [[8.0, 9.0], [-math.inf, 7.0]]
