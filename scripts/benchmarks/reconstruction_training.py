"""Speed of updates with monolingual text relative to updates without, in updates/s."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import harness
import models
import torch
from fairseq.data import LanguagePairDataset

from fairseq_ssl.criterions.reconstruction_loss import SOURCE, ReconstructionLoss
from fairseq_ssl.data.bitext_with_mono import BitextWithMono
from fairseq_ssl.models.two_way_model import TwoWayModel
from fairseq_ssl.tasks.reconstruction_translation import (
    ReconstructionTranslationConfig,
    ReconstructionTranslationTask,
)

GOAL = 1 / 4
"""Goal. The slides report 1 / 5.5."""


class Optimizer:
    """The methods of an optimizer that the task calls."""

    def __init__(self, model: Any) -> None:
        self.adam = torch.optim.Adam(model.parameters(), lr=1e-4)

    def backward(self, loss: Any) -> None:
        """Compute the gradients."""
        torch.autograd.backward(loss)

    def step(self) -> None:
        """Update the weights."""
        self.adam.step()
        self.adam.zero_grad()


def task_of(args: Any) -> ReconstructionTranslationTask:
    """Return the task with a dictionary of artificial words."""
    words = models.words(args.vocabulary)
    cfg = ReconstructionTranslationConfig(
        source_lang="one",
        target_lang="other",
        reconstruction_beam=args.beam,
        train_subset="train",
        seed=1,
    )
    task = ReconstructionTranslationTask(cfg, words.source_dictionary, words.target_dictionary)
    task._max_len = lambda _: (0, args.target_length)  # type: ignore[method-assign, assignment]
    return task


def sides(args: Any, *lengths: int) -> list[tuple[list[Any], list[int]]]:
    """Return random sentences of fixed length for each side, and their sizes."""
    made = [models.sentences(args.batch, length, args.vocabulary) for length in lengths]
    return [(list(tokens), [tokens.size(1)] * len(tokens)) for tokens in made]


def updates(args: Any, weight: float) -> harness.Run:
    """Return a run of updates. If lambda is 0, they use no monolingual text."""
    task = task_of(args)
    unfold = {"bytenet_unfold": "1,0"} if args.arch.startswith("bytenet") else {}
    ways = {
        name: models.build(args.arch, one, **unfold)[0] for name, one in task.directions.items()
    }
    model = TwoWayModel(ways).to(args.device).train()
    criterion = ReconstructionLoss(task, str(weight), 0, 0.0)
    source, target, text = sides(args, args.length, args.target_length, args.length)
    dictionary = task.source_dictionary

    def pairs(one: Any, other: Any) -> LanguagePairDataset:
        return LanguagePairDataset(*one, dictionary, *other, dictionary)

    texts = {SOURCE: pairs(text, text)} if weight else {}
    data = BitextWithMono(pairs(source, target), pairs(target, source), texts, seed=1)
    sample = _moved(data.collater([data[i] for i in range(len(data))]), args.device)
    optimizer = Optimizer(model)

    def run() -> int:
        for update in range(args.steps):
            task.train_step(sample, model, criterion, optimizer, update)
            optimizer.step()
        return int(args.steps)

    return run


def _moved(sample: Any, device: str) -> Any:
    if isinstance(sample, dict):
        return {name: _moved(value, device) for name, value in sample.items()}
    return sample.to(device) if torch.is_tensor(sample) else sample


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", default="bytenet_digits")
    options.add_argument(
        "--length", type=int, default=13, help="source length in tokens, with </s>"
    )
    options.add_argument(
        "--target-length", type=int, default=4, help="target length in tokens, with </s>"
    )
    options.add_argument(
        "--batch",
        type=int,
        default=8,
        help="pairs in a batch, and monolingual sentences in a batch",
    )
    options.add_argument("--vocabulary", type=int, default=32)
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--steps", type=int, default=10, help="updates in a run")
    args = harness.parse(options)
    comparison = harness.Comparison(
        *("reconstruction_training", "with monolingual text", "without", "updates/s"),
        *(GOAL, vars(Namespace(**vars(args)))),
    )
    harness.compare(comparison, updates(args, 0.2), updates(args, 0.0), args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
