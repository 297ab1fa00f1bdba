"""ByteNet alone and in batches, at once and step by step; its sizes are the slides'."""

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
    """Build a model as fairseq does: the architecture's defaults under the given options."""
    args = Namespace(**{"bytenet_unfold": "1.2,1", **KINDS.get(kind, {}), **options})
    ARCH_CONFIG_REGISTRY[kind](args)
    torch.manual_seed(seed)
    return ByteNet.build_model(ByteNetConfig.from_namespace(args), task())


@torch.enable_grad()
def trained(kind: str) -> Any:
    """A model whose statistics and shifts are those of a short training."""
    model = build(kind).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        loss = -logits(model).log_softmax(-1)[..., 5:9].mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return model.eval()


def batch(sentences: list[list[int]], left: bool) -> Tensor:
    """Stack sentences, each ended by EOS, padded on the left or right."""
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
def test_a_sentence_alone_and_in_a_padded_batch_has_the_same_logits(kind: str) -> None:
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
def test_the_next_word_depends_on_what_is_written_alone(kind: str) -> None:
    model = trained(kind)
    changed = PREVIOUS.clone()
    changed[1, 5] = 15
    before, after = logits(model), logits(model, previous=changed)
    assert torch.equal(before[1, :5], after[1, :5])
    assert not torch.equal(before[1, 5], after[1, 5])


@every_kind
@torch.no_grad()
def test_step_by_step_and_through_reordering_the_logits_are_those_of_all_at_once(
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
def test_what_one_writes_reaches_as_far_as_the_dilations_say() -> None:
    model = build("bytenet_selu", bytenet_unfold="1,40").eval()  # 2 x 2 x (1 + 2 + 4) = 28
    previous = torch.full((1, 40), 5)
    changed = previous.clone()
    changed[0, 3] = 6
    source = SOURCE[:1, -4:]
    different = (logits(model, source, previous) != logits(model, source, changed)).any(-1)[0]
    assert different.nonzero().flatten().tolist() == list(range(3, 3 + 28 + 1))


@torch.no_grad()
def test_columns_beyond_the_source_are_computed_and_those_beyond_the_line_are_zero() -> None:
    model = build(bytenet_unfold="2,1").eval()
    out = model.encoder(SOURCE)
    columns = out["encoder_out"][0].transpose(0, 1)
    assert out["columns"][0].tolist() == [9, 15, 5, 13]
    assert columns.shape[1] == 15
    assert columns[0, 8].any()
    assert not columns[0, 9:].any()
    assert out["encoder_padding_mask"][0].sum(1).tolist() == [6, 0, 10, 2]


def test_the_line_is_fitted_to_the_training_pairs_and_kept_with_the_weights() -> None:
    model = build(bytenet_unfold="auto")
    assert model.encoder.unfolding(torch.tensor([4, 6])).tolist() == [6, 9]
    empty = task(train_subset="train")
    empty.datasets = {}
    empty.load_dataset = lambda split: (_ for _ in ()).throw(FileNotFoundError(split))
    untrained = ByteNet.build_model(
        ByteNetConfig.from_namespace(Namespace(**KINDS["bytenet"])), empty
    )
    with pytest.raises(ConfigurationError, match="no training pairs"):
        logits(untrained)
    untrained.load_state_dict(model.state_dict())
    assert torch.equal(logits(untrained.eval()), logits(model.eval()))


@pytest.mark.parametrize(
    ("kind", "stacks"),
    [
        ("bytenet", 5_400_000 + 16_800_000),  # the slides' 27 million with a decoder's kernel of 5
        ("bytenet_digits", 13_500 + 42_000),
        ("bytenet_simplified", 15 * 5 * 200**2 + 15 * 3 * 400**2),
        ("bytenet_v2", 2 * 15 * (800**2 + 3 * 400**2) + 2 * 15 * (1600**2 + 3 * 800**2)),
    ],
)
def test_the_convolutions_have_as_many_weights_as_the_slides_count(kind: str, stacks: int) -> None:
    args = Namespace(bytenet_unfold="1,0")
    ARCH_CONFIG_REGISTRY[kind](args)
    with torch.device("meta"):
        model = ByteNet.build_model(ByteNetConfig.from_namespace(args), task())
    sides = (model.encoder.stack, model.decoder.stack)
    found = [w.numel() for side in sides for w in side.parameters() if w.ndim == 2]
    assert sum(found) == stacks


def test_the_author_knows_norms_compression_and_activation_of_each_kind() -> None:
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
def test_weights_are_drawn_as_in_the_slides_by_default(kind: str, init: str) -> None:
    args = Namespace(bytenet_unfold="1,0")
    ARCH_CONFIG_REGISTRY[kind](args)
    assert str(ByteNetConfig.from_namespace(args).bytenet_init) == init


def test_a_beam_finds_what_all_at_once_scores_alike() -> None:
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


def test_bfloat16_weights_train() -> None:
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
        ({"bytenet_unfold_share": 0.0}, "expected a share"),
        ({"bytenet_residual_scale": -1.0}, "expected 0 or more"),
        ({"bytenet_decoder_norm": "batch"}, "expected layer, none"),
    ],
)
def test_what_a_bytenet_can_not_be_is_refused(options: dict[str, Any], message: str) -> None:
    cfg = ByteNetConfig()
    for name, value in options.items():
        setattr(cfg, name, value)
    with pytest.raises(ConfigurationError, match=message):
        ByteNet.build_model(cfg, task())


def test_targets_padded_on_the_left_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="--left-pad-target"):
        ByteNet.build_model(ByteNetConfig(), task(left_pad_target=True))
