"""Linear bound on target lengths."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.data.dataset_sides import fit_length_bound, training_lengths
from fairseq_ssl.data.spans import Spans
from fairseq_ssl.modules.dilated_stack import Unfolding
from tests.unit.inference import random_models

fairseq_ssl.register()
from fairseq.data import Dictionary  # noqa: E402
from fairseq.tasks.translation import TranslationConfig, TranslationTask  # noqa: E402

from fairseq_ssl.data.id_noise import OnlineDenoisingDataset  # noqa: E402
from tests.unit.data.in_memory import Rows  # noqa: E402


def test_exactly_linear_lengths() -> None:
    sources = np.arange(3, 40)
    slope, offset = fit_length_bound(sources, np.ceil(1.5 * sources + 4).astype(int))
    assert (slope, offset) == (pytest.approx(1.5), 5)
    sources = np.array([20, 40, 60])
    assert fit_length_bound(sources, np.array([23, 46, 69])) == (1.15, 0.0), "a multiple of 0.05"


def test_bound_is_tight_for_the_given_share() -> None:
    random = np.random.default_rng(1)
    sources = random.integers(2, 50, 3000)
    targets = random.poisson(1.3 * sources) + 1
    for share in (0.9, 0.999, 1.0):
        slope, offset = fit_length_bound(sources, targets, share)
        covered = targets <= slope * sources + offset + 1e-9
        assert covered.mean() >= share
        below = targets <= slope * sources + offset - 1 + 1e-9
        assert below.mean() < share
    assert fit_length_bound(sources, targets, 0.9) < fit_length_bound(sources, targets, 1.0)


def test_unfolded_length_is_rounded_up_and_at_least_the_source_length() -> None:
    unfolding = Unfolding(1.15, 0)
    lengths = torch.tensor([1, 20, 40, 7])
    assert unfolding(lengths).tolist() == [2, 23, 46, 9]
    assert Unfolding(0.25, 3)(torch.tensor([2, 40])).tolist() == [4, 40]
    assert not Unfolding().is_known


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_does_not_change_unfolded_lengths(kind: torch.dtype) -> None:
    lengths = torch.tensor([1, 20, 100])
    for slope, offset in ((1.15, 0), (5.85, 301), (25.01, 4099)):
        unfolding = Unfolding(slope, offset)
        expected = unfolding(lengths).tolist()
        assert unfolding.to(kind)(lengths).tolist() == expected
        assert unfolding.float()(lengths).tolist() == expected


def test_no_lengths_without_training_pairs() -> None:
    def load(split: str, combine: bool) -> None:
        raise FileNotFoundError(split)

    task = SimpleNamespace(cfg=SimpleNamespace(), datasets={}, load_dataset=load)
    assert training_lengths(task) is None
    task.datasets["train"] = SimpleNamespace(src_sizes=np.array([3]), tgt_sizes=None)
    assert training_lengths(task) is None


def test_lengths_are_those_of_all_splits_that_are_trained_on(tmp_path: Path) -> None:
    data = random_models.data_folder(tmp_path)
    random_models.binarized_split(data, "train", "a b\n", "u v w\n")
    random_models.binarized_split(data, "train1", "a b c\n", "u v w x y z\n")
    options = {"dataset_impl": "mmap", "train_subset": "train", "required_seq_len_multiple": 1}
    cfg = TranslationConfig(data=str(data), source_lang="src", target_lang="trg", **options)
    assert training_lengths(TranslationTask.setup_task(cfg)) is None, "fairseq needs the option"
    cfg.upsample_primary = 1
    sources, targets = training_lengths(TranslationTask.setup_task(cfg)) or ((), ())
    assert sorted(zip(sources, targets, strict=True)) == [(3, 4), (4, 7)]


def test_lengths_of_noisy_sources_are_those_with_noise() -> None:
    def first_half(lines: Spans, draws: object) -> SimpleNamespace:
        """Delete the second half of each sentence."""
        rows = np.split(lines.ids, lines.starts[1:])
        return SimpleNamespace(lines=Spans.of([row[: len(row) // 2] for row in rows]))

    text = Rows([*range(4, 4 + length), 2] for length in (4, 8, 6))
    pairs = OnlineDenoisingDataset(text, text.sizes, Dictionary(), first_half, 1, True)  # type: ignore[arg-type]
    task = SimpleNamespace(cfg=SimpleNamespace(), datasets={"train": pairs})
    sources, targets = training_lengths(task) or ((), ())
    assert (list(sources), list(targets)) == ([3, 5, 4], [5, 9, 7])
