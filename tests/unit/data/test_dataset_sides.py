"""Right-to-left targets, and the linear bound on target lengths."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fairseq_ssl
from fairseq_ssl.data.dataset_sides import (
    fit_length_bound,
    reverse_rows,
    reverse_sentence,
    reverse_targets,
    training_lengths,
)
from fairseq_ssl.data.mixing import MixedPairs, Mixture
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.dilated_stack import Unfolding
from fairseq_ssl.text.spans import Spans
from tests.unit.data.in_memory import Rows
from tests.unit.inference import random_models
from tests.unit.models.tiny_models import EOS, PAD, batch

fairseq_ssl.register()
from fairseq.data import Dictionary, LanguagePairDataset  # noqa: E402
from fairseq.tasks.translation import TranslationConfig, TranslationTask  # noqa: E402

from fairseq_ssl.data.id_noise import OnlineDenoisingDataset  # noqa: E402

WORDS = st.lists(st.integers(4, 9), max_size=5)


@given(WORDS)
def test_end_symbol_of_a_reversed_sentence_stays_at_the_end(words: list[int]) -> None:
    for end in ([], [EOS]):
        reversed_ids = reverse_sentence(torch.tensor([*words, *end], dtype=torch.long), EOS)
        assert reversed_ids.tolist() == [*words[::-1], *end]


@given(st.lists(WORDS, min_size=1, max_size=4), st.booleans())
def test_padding_of_reversed_rows_stays_in_place(rows: list[list[int]], left: bool) -> None:
    reversed_rows = reverse_rows(batch(rows, left), PAD, EOS)
    assert reversed_rows.equal(batch([row[::-1] for row in rows], left))


SOURCES = [[4, 5, EOS], [6, EOS]]
TARGETS = [[7, 8, 9, EOS], [4, 5, EOS]]


def test_reverse_targets_does_not_change_sources() -> None:
    source, target, words = Rows(SOURCES), Rows(TARGETS), Dictionary()
    pairs = LanguagePairDataset(source, source.sizes, words, target, target.sizes, words)
    reverse_targets(pairs, EOS)
    found = pairs.collater([pairs[0], pairs[1]])
    assert found["target"].tolist() == [[9, 8, 7, EOS], [5, 4, EOS, PAD]]
    assert found["net_input"]["prev_output_tokens"].tolist() == [[EOS, 9, 8, 7], [EOS, 5, 4, PAD]]
    assert found["net_input"]["src_tokens"].tolist() == [[4, 5, EOS], [PAD, 6, EOS]]
    without_targets = LanguagePairDataset(source, source.sizes, words)
    reverse_targets(without_targets, EOS)
    assert without_targets.tgt is None


def test_reversed_mixture_follows_the_epoch() -> None:
    source_side, target_side = (
        Mixture([Rows(rows)], [1], [tag]) for rows, tag in ((SOURCES, 8), (TARGETS, None))
    )
    pairs = MixedPairs(source_side, Dictionary(), target_side, Dictionary())
    reverse_targets(pairs, EOS)
    for epoch, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True), 1):
        pairs.set_epoch(epoch)
        assert pairs[0]["source"].tolist() == [8, *source]
        assert pairs[0]["target"].tolist() == [*target[-2::-1], EOS]
        assert pairs.sizes.tolist() == [[len(source) + 1, len(target)]]


def test_exactly_linear_lengths() -> None:
    sources = np.arange(3, 40)
    slope, offset = fit_length_bound(sources, np.ceil(1.5 * sources + 4).astype(int))
    assert slope == pytest.approx(1.5)
    assert offset == 5
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


@pytest.mark.parametrize("error", [FileNotFoundError, ConfigurationError])
def test_no_lengths_without_training_pairs(error: type[Exception]) -> None:
    def load(split: str, combine: bool) -> None:
        raise error(split)

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
