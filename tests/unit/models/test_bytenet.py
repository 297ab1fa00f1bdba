"""ByteNet in batches and step by step, and the sizes of its architectures."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.bytenet import ByteNet, ByteNetConfig

fairseq_ssl.register()

WORDS, PAD, EOS = 16, 1, 2
TINY = {"bytenet_dim": 8, "bytenet_sets": 2, "bytenet_dilations": "1,2,4"}
KINDS: dict[str, dict[str, Any]] = {
    "bytenet": TINY,
    "bytenet_simplified": TINY,
    "bytenet_selu": {**TINY, "bytenet_residual_scale": 0.0},
    "bytenet_no_norm": TINY,
    "bytenet_v2": TINY,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def task(**cfg: Any) -> Any:
    words = Dictionary()
    for i in range(WORDS):
        words.add_symbol(f"w{i}")
    pairs = SimpleNamespace(src_sizes=np.array([4, 6]), tgt_sizes=np.array([5, 9]))
    return SimpleNamespace(
        source_dictionary=words,
        target_dictionary=words,
        cfg=SimpleNamespace(**cfg),
        datasets={"train": pairs},
    )


def build(kind: str = "bytenet", seed: int = 1, **options: Any) -> Any:
    """Build a model as fairseq does: `options`, completed by the architecture's defaults."""
    args = Namespace(**{"bytenet_unfold": "1.2,1", **KINDS.get(kind, {}), **options})
    ARCH_CONFIG_REGISTRY[kind](args)
    torch.manual_seed(seed)
    return ByteNet.build_model(ByteNetConfig.from_namespace(args), task())


@torch.enable_grad()
def trained(kind: str) -> Any:
    """Return a model whose running statistics and shifts differ from their initial values."""
    model = build(kind).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        loss = -logits(model).log_softmax(-1)[..., 5:9].mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return model.eval()


def batch(sentences: list[list[int]], left: bool) -> Tensor:
    """Return a batch of sentences with EOS, padded on the left or right."""
    length = max(map(len, sentences)) + 1
    rows = []
    for words in sentences:
        pads = [PAD] * (length - len(words) - 1)
        rows.append([*pads, *words, EOS] if left else [*words, EOS, *pads])
    return torch.tensor(rows)


SENTENCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12], [13], [6, 5, 4, 7, 8]]
SOURCE = batch(SENTENCES, left=True)
PREVIOUS = batch([[EOS, *words, *words] for words in SENTENCES], left=False)


def logits(model: Any, source: Tensor = SOURCE, previous: Tensor = PREVIOUS) -> Tensor:
    out: Tensor = model(source, source.ne(PAD).sum(1), previous)[0]
    return out


@every_kind
@torch.no_grad()
def test_logits_do_not_depend_on_the_batch(kind: str) -> None:
    model = trained(kind)
    together = logits(model)
    right = logits(model, batch(SENTENCES, left=False))
    torch.testing.assert_close(right, together)
    for row, words in enumerate(SENTENCES):
        previous = batch([[EOS, *words, *words]], left=False)
        alone = logits(model, batch([words], left=True), previous)
        torch.testing.assert_close(together[row, : previous.size(1)], alone[0], atol=1e-5, rtol=0)


@every_kind
@torch.no_grad()
def test_logits_depend_on_earlier_words_only(kind: str) -> None:
    model = trained(kind)
    changed = PREVIOUS.clone()
    changed[1, 5] = 15
    before, after = logits(model), logits(model, previous=changed)
    assert torch.equal(before[1, :5], after[1, :5])
    assert not torch.equal(before[1, 5], after[1, 5])


@every_kind
@torch.no_grad()
def test_incremental_decoding_with_reordering_equals_teacher_forcing(
    kind: str,
) -> None:
    model = trained(kind)
    generator = torch.Generator().manual_seed(3)
    encoded = model.encoder(SOURCE, SOURCE.ne(PAD).sum(1))
    rows = torch.arange(len(SOURCE))
    state: dict[str, Any] = {}
    written = torch.full((len(SOURCE), 1), EOS)
    for _ in range(30):
        step = model.decoder(written, encoder_out=encoded, incremental_state=state)[0]
        whole = logits(model, SOURCE[rows], written)
        torch.testing.assert_close(step[:, -1], whole[:, -1], atol=1e-5, rtol=0)
        order = torch.randint(len(rows), (5,), generator=generator)
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoded = model.encoder.reorder_encoder_out(encoded, order)
        rows = rows[order]
        word = torch.randint(4, WORDS, (5, 1), generator=generator)
        written = torch.cat([written[order], word], 1)


@torch.no_grad()
def test_receptive_field_matches_the_dilations() -> None:
    model = build("bytenet_selu", bytenet_unfold="1,40").eval()  # 2 x 2 x (1 + 2 + 4) = 28
    previous = torch.full((1, 40), 5)
    changed = previous.clone()
    changed[0, 3] = 6
    source = SOURCE[:1, -4:]
    different = (logits(model, source, previous) != logits(model, source, changed)).any(-1)[0]
    assert different.nonzero().flatten().tolist() == list(range(3, 3 + 28 + 1))


@torch.no_grad()
def test_encoder_columns_beyond_the_source_are_computed_up_to_the_bound() -> None:
    model = build(bytenet_unfold="2,1").eval()
    out = model.encoder(SOURCE)
    columns = out["encoder_out"][0].transpose(0, 1)
    assert out["columns"][0].tolist() == [9, 15, 5, 13]
    assert columns.shape[1] == 15
    assert columns[0, 8].any()
    assert not columns[0, 9:].any()
    assert out["encoder_padding_mask"][0].sum(1).tolist() == [6, 0, 10, 2]


@pytest.mark.parametrize(
    ("bound", "length", "columns"),
    [("1.004,0", 1000, 1010), ("1,0.5", 10, 11), ("1,2.5", 10, 13), ("1.1,0", 100, 110)],
)
def test_numbers_of_the_length_bound_are_rounded_up(bound: str, length: int, columns: int) -> None:
    model = build(bytenet_unfold=bound)
    assert model.encoder.unfolding(torch.tensor([length])).tolist() == [columns]


def test_length_bound_is_fitted_to_the_pairs_and_saved_with_the_weights() -> None:
    model = build(bytenet_unfold="auto")
    assert model.encoder.unfolding(torch.tensor([4, 6])).tolist() == [6, 9]
    empty = task(train_subset="train")
    empty.datasets = {}
    empty.load_dataset = lambda split, combine: (_ for _ in ()).throw(FileNotFoundError(split))
    untrained = ByteNet.build_model(
        ByteNetConfig.from_namespace(Namespace(**KINDS["bytenet"])), empty
    )
    with pytest.raises(ConfigurationError, match="no training pairs"):
        logits(untrained)
    untrained.load_state_dict(model.state_dict())
    assert torch.equal(logits(untrained.eval()), logits(model.eval()))
    explicit = build(bytenet_unfold="1.5,3")
    explicit.load_state_dict(model.state_dict())
    assert explicit.encoder.unfolding(torch.tensor([4, 6])).tolist() == [9, 12]


@pytest.mark.parametrize(
    ("kind", "stacks"),
    [
        ("bytenet", 5_400_000 + 16_800_000),  # 27 million in the slides, with a decoder kernel of 5
        ("bytenet_digits", 13_500 + 42_000),
        ("bytenet_simplified", 15 * 5 * 200**2 + 15 * 3 * 400**2),
        ("bytenet_v2", 2 * 15 * (800**2 + 3 * 400**2) + 2 * 15 * (1600**2 + 3 * 800**2)),
    ],
)
def test_number_of_convolution_weights_matches_the_slides(kind: str, stacks: int) -> None:
    args = Namespace(bytenet_unfold="1,0")
    ARCH_CONFIG_REGISTRY[kind](args)
    with torch.device("meta"):
        model = ByteNet.build_model(ByteNetConfig.from_namespace(args), task())
    sides = (model.encoder.stack, model.decoder.stack)
    found = [w.numel() for side in sides for w in side.parameters() if w.ndim == 2]
    assert sum(found) == stacks


def test_architectures_have_the_norms_and_activations_of_the_slides() -> None:
    def modules(kind: str) -> set[str]:
        return {type(module).__name__ for module in build(kind).modules()}

    norm_names = {"RowBatchNorm", "LayerNorm"}
    assert norm_names <= modules("bytenet")
    assert not norm_names & modules("bytenet_no_norm")
    assert "RowBatchNorm" not in modules("bytenet_v2")
    norms = {
        kind: sum(type(module).__name__ in norm_names for module in build(kind).modules())
        for kind in ("bytenet", "bytenet_simplified")
    }
    assert norms["bytenet"] == 3 * norms["bytenet_simplified"]
    assert build("bytenet_selu").encoder.stack.blocks[0].scale == pytest.approx(12**-0.5)


@pytest.mark.parametrize(
    ("kind", "init"),
    [
        *((kind, "he") for kind in ("bytenet", "bytenet_simplified", "bytenet_no_norm")),
        *(("bytenet_digits", "he"), ("bytenet_v2", "he"), ("bytenet_selu", "lecun")),
    ],
)
def test_default_initialization_of_each_architecture(kind: str, init: str) -> None:
    args = Namespace(bytenet_unfold="1,0")
    ARCH_CONFIG_REGISTRY[kind](args)
    assert str(ByteNetConfig.from_namespace(args).bytenet_init) == init


def test_beam_search_scores_equal_teacher_forced_scores() -> None:
    model = trained("bytenet")
    words = task().target_dictionary
    search = SequenceGenerator([model], words, beam_size=4, max_len_b=12, normalize_scores=False)
    sample = {"net_input": {"src_tokens": SOURCE, "src_lengths": SOURCE.ne(PAD).sum(1)}}
    for row, hypotheses in enumerate(search.generate([model], sample)):
        for one in hypotheses:
            previous = torch.cat([torch.tensor([EOS]), one["tokens"][:-1]]).unsqueeze(0)
            with torch.no_grad():
                scores = logits(model, SOURCE[row : row + 1], previous)[0].log_softmax(-1)
            expected = scores.gather(1, one["tokens"].unsqueeze(1)).sum()
            torch.testing.assert_close(one["score"], expected, atol=1e-4, rtol=0)


def test_bfloat16_training() -> None:
    model = build().to(torch.bfloat16).train()
    loss = -logits(model).float().log_softmax(-1)[..., 5].mean()
    torch.autograd.backward(loss)
    assert all(torch.isfinite(w.grad).all() for w in model.parameters() if w.grad is not None)
    assert torch.isfinite(logits(model.eval())).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bytenet_dilations": "1,0"}, "expected integers of 1 or more"),
        ({"bytenet_encoder_kernel": 4}, "expected an odd number"),
        ({"bytenet_dim": 7}, "need an even number"),
        ({"bytenet_sets": 0}, "--bytenet-sets is 0; expected 1"),
        ({"bytenet_unfold": "1.2"}, "expected auto, or two numbers"),
        ({"bytenet_unfold": "nan,1"}, "expected auto, or two numbers"),
        ({"bytenet_residual_scale": -1.0}, "expected a finite number of 0 or more"),
        ({"bytenet_residual_scale": float("nan")}, "expected a finite number"),
        ({"dropout": 1.5}, "--dropout is 1.5; expected a number from 0 to 1"),
        ({"bytenet_decoder_norm": "batch"}, "expected layer, none"),
    ],
)
def test_invalid_bytenet_options_are_rejected(options: dict[str, Any], message: str) -> None:
    cfg = ByteNetConfig()
    for name, value in options.items():
        setattr(cfg, name, value)
    with pytest.raises(ConfigurationError, match=message):
        ByteNet.build_model(cfg, task())


def test_left_padded_targets_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="--left-pad-target"):
        ByteNet.build_model(ByteNetConfig(), task(left_pad_target=True))
