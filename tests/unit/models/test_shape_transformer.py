"""The SHAPE Transformer equals fairseq's without shifts, in batches and step by step."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch import Tensor

import fairseq_ssl
from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.models.shape_transformer import DEFAULTS
from tests.conftest import trained_only

fairseq_ssl.register()

WORDS, PAD, EOS = 20, 1, 2


def dictionary() -> Dictionary:
    words = Dictionary()
    for i in range(WORDS):
        words.add_symbol(f"w{i}")
    return words


def build(arch: str = "shape_transformer_tiny", seed: int = 1, **options: Any) -> Any:
    """Build a tiny model as fairseq does: `options`, completed by the architecture's defaults."""
    args = Namespace(**{"dropout": 0.0, **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    words = dictionary()
    torch.manual_seed(seed)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task)


def batch(sentences: list[list[int]], left: bool) -> Tensor:
    """Return a batch of sentences with EOS, padded on the left or right."""
    length = max(map(len, sentences)) + 1
    rows = []
    for words in sentences:
        ended = [*words, EOS]
        pads = [PAD] * (length - len(ended))
        rows.append(pads + ended if left else ended + pads)
    return torch.tensor(rows)


SENTENCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12], [13], [6, 5, 4, 7, 8]]
SOURCE = batch(SENTENCES, left=True)
LENGTHS = SOURCE.ne(PAD).sum(1)
PREVIOUS = batch([[EOS, *words] for words in SENTENCES], left=False)


def logits(model: Any, source: Tensor = SOURCE, previous: Tensor = PREVIOUS) -> Tensor:
    out: Tensor = model(source, source.ne(PAD).sum(1), previous)[0]
    return out


def train_three_steps(model: Any) -> dict[str, Tensor]:
    """Train with dropout and Adam. Set the seed at each step, as fairseq's trainer does."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        torch.manual_seed(1 + step)
        loss = logits(model.train()).log_softmax(-1)[..., 5].mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return trained_only(model.state_dict())


def test_training_with_max_shift_0_equals_fairseq_bit_for_bit() -> None:
    ours = train_three_steps(build(shape_max_shift=0, dropout=0.3))
    stock = train_three_steps(build("transformer_tiny", dropout=0.3))
    assert ours.keys() == stock.keys()
    assert all(torch.equal(ours[name], stock[name]) for name in stock)


def test_evaluation_equals_fairseq_transformer() -> None:
    ours, stock = build(shape_max_shift=500), build("transformer_tiny", seed=2)
    stock.load_state_dict(ours.state_dict())
    assert torch.equal(logits(ours.eval()), logits(stock.eval()))


def test_source_and_target_shifts_are_independent() -> None:
    model = build(shape_max_shift=30).train()
    torch.manual_seed(4)
    source, target = torch.randint(31, (4, 1)), torch.randint(31, (4, 1))
    assert not torch.equal(source, target)
    torch.manual_seed(4)
    shifted = logits(model)
    for side, shift, tokens in (
        (model.encoder, source, SOURCE),
        (model.decoder, target, PREVIOUS),
    ):
        table = side.embed_positions.weights
        index = (tokens.ne(PAD).cumsum(1) + shift) * tokens.ne(PAD) + PAD
        side.embed_positions = FixedPositions(table[index])
    torch.testing.assert_close(logits(model), shifted)


class FixedPositions(torch.nn.Module):
    """A position layer that always returns the same embeddings."""

    def __init__(self, embeddings: Tensor) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, tokens: Tensor, incremental_state: Any = None) -> Tensor:
        return self.embeddings


def test_a_shared_shift_is_that_of_the_source() -> None:
    model = build(shape_max_shift=30, shape_shared_shift=True).train()
    torch.manual_seed(4)
    shift = torch.randint(31, (4, 1))
    torch.manual_seed(4)
    shifted = logits(model)
    for side, tokens in ((model.encoder, SOURCE), (model.decoder, PREVIOUS)):
        table = side.embed_positions.weights
        index = (tokens.ne(PAD).cumsum(1) + shift) * tokens.ne(PAD) + PAD
        side.embed_positions = FixedPositions(table[index])
    torch.testing.assert_close(logits(model), shifted)


def test_a_warm_up_follows_the_updates_of_the_trainer() -> None:
    model = build(shape_max_shift=30, shape_shift_warmup=10).train()
    unshifted = logits(build(shape_max_shift=0).train())
    model.set_num_updates(0)
    assert torch.equal(logits(model), unshifted)
    for update, expected in ((5, 15), (10, 30), (99, 30)):
        model.set_num_updates(update)
        sides = (model.encoder.embed_positions, model.decoder.embed_positions)
        assert [side.current_max_shift for side in sides] == [expected] * 2
        assert not torch.allclose(logits(model), unshifted)


def test_shifts_change_at_each_step_and_depend_on_the_seed() -> None:
    model = build(shape_max_shift=30).train()
    torch.manual_seed(4)
    first, second = logits(model), logits(model)
    torch.manual_seed(4)
    assert torch.equal(logits(model), first)
    assert not torch.allclose(first, second)


KINDS: list[dict[str, Any]] = [
    {"shape_positions": "absolute"},
    {"shape_positions": "shifted"},
    {"shape_positions": "shifted", "shape_eval_offset": 40},
    {"shape_shared_shift": True, "shape_shift_warmup": 9},
    {"shape_positions": "relative"},
    {"shape_positions": "relative", "shape_relative_limit": 2, "shape_relative_one_table": True},
]
every_kind = pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values()))
)


@every_kind
def test_logits_do_not_depend_on_the_batch(kind: dict[str, Any]) -> None:
    model = build(**kind).eval()
    together = logits(model)
    for row, words in enumerate(SENTENCES):
        previous = batch([[EOS, *words]], left=False)
        alone = logits(model, batch([words], left=True), previous)
        torch.testing.assert_close(together[row, : len(words) + 2], alone[0], atol=1e-5, rtol=0)


@every_kind
def test_incremental_decoding_equals_teacher_forcing(kind: dict[str, Any]) -> None:
    model = build(**kind).eval()
    forced = logits(model)
    encoded = model.encoder(SOURCE, LENGTHS)
    state: dict[str, Any] = {}
    for step in range(5):
        so_far = PREVIOUS[:, : step + 1]
        one = model.decoder(so_far, encoder_out=encoded, incremental_state=state)[0]
        alive = so_far.ne(PAD).all(1)
        torch.testing.assert_close(one[alive, 0], forced[alive, step], atol=1e-5, rtol=0)


@every_kind
def test_reordered_beams_keep_their_states(kind: dict[str, Any]) -> None:
    model = build(**kind).eval()
    source = SOURCE[1:2].expand(4, -1)  # hypotheses of one sentence
    encoded = model.encoder(source, LENGTHS[1:2].expand(4))
    state: dict[str, Any] = {}
    order = torch.tensor([2, 1, 1, 0])
    words = torch.tensor([[EOS, 4, 5], [EOS, 6, 7], [EOS, 8, 9], [EOS, 10, 11]])
    for step in (1, 2):
        model.decoder(words[:, :step], encoder_out=encoded, incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    words = torch.cat([words[order, :2], words[:, 2:]], dim=1)
    one = model.decoder(words, encoder_out=encoded, incremental_state=state)[0]
    whole = model.decoder(words, encoder_out=encoded)[0]
    torch.testing.assert_close(one[:, 0], whole[:, -1], atol=1e-5, rtol=0)


@every_kind
def test_training_mode_equals_evaluation_without_dropout_and_shift(kind: dict[str, Any]) -> None:
    model = build(**kind | {"shape_max_shift": 0, "shape_eval_offset": 0})
    torch.testing.assert_close(logits(model.train()), logits(model.eval()), atol=1e-5, rtol=0)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_gradients_are_close(kind: dict[str, Any], dtype: torch.dtype) -> None:
    gradients = []
    for enabled in (False, True):
        model = build(**kind | {"shape_max_shift": 0}).train()
        with torch.autocast("cpu", dtype, enabled=enabled):
            out = logits(model)
        torch.autograd.backward(out.float().log_softmax(-1)[..., 5].mean())
        found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        gradients.append(torch.cat(found))
    exact, half = gradients
    assert half.dtype == torch.float32
    assert torch.cosine_similarity(exact, half, dim=0) > 0.99


def test_training_with_absolute_positions_equals_fairseq_bit_for_bit() -> None:
    ours = train_three_steps(build(shape_positions="absolute", dropout=0.3))
    stock = train_three_steps(build("transformer_tiny", dropout=0.3))
    assert ours.keys() == stock.keys()
    assert all(torch.equal(ours[name], stock[name]) for name in stock)


def test_eval_offset_shifts_positions_in_evaluation_only() -> None:
    model, offset = build(shape_eval_offset=40, shape_max_shift=0), 40
    plain = build(shape_max_shift=0)
    torch.testing.assert_close(logits(model.train()), logits(plain.train()))
    moved = logits(model.eval())
    for side, tokens in ((plain.encoder, SOURCE), (plain.decoder, PREVIOUS)):
        table = model.encoder.embed_positions.weights
        index = (tokens.ne(PAD).cumsum(1) + offset) * tokens.ne(PAD) + PAD
        side.embed_positions = FixedPositions(table[index])
    torch.testing.assert_close(logits(plain.eval()), moved)


def test_relative_positions_are_in_self_attention_only() -> None:
    model = build(shape_positions="relative", shape_relative_limit=3)
    assert model.encoder.embed_positions is None
    assert model.decoder.embed_positions is None
    tables = {name: p for name, p in model.named_parameters() if "distances" in name}
    assert len(tables) == 2 * (len(model.encoder.layers) + len(model.decoder.layers))
    head_dim = model.encoder.layers[0].self_attn.head_dim
    assert {tuple(table.shape) for table in tables.values()} == {(7, head_dim)}
    assert not any("encoder_attn" in name for name in tables)


def test_layers_with_layerdrop_have_relative_positions() -> None:
    model = build(shape_positions="relative", encoder_layerdrop=0.9, decoder_layerdrop=0.9)
    tables = [name for name, _ in model.named_parameters() if "distances" in name]
    layers = [*model.encoder.layers.children(), *model.decoder.layers.children()]
    assert len(tables) == 2 * len(layers) > 0


def test_one_table_halves_the_number_of_tables() -> None:
    model = build(shape_positions="relative", shape_relative_one_table=True)
    tables = [name for name, _ in model.named_parameters() if "distances" in name]
    assert len(tables) == len(model.encoder.layers) + len(model.decoder.layers)


def test_relative_positions_encode_order_but_not_offset() -> None:
    model = build(shape_positions="relative", shape_relative_limit=2).eval()
    source = batch([[4, 5, 6, 7]], left=True)
    swapped = batch([[5, 4, 6, 7]], left=True)
    assert not torch.allclose(logits(model, source, source), logits(model, swapped, source))
    encoded = model.encoder(source, torch.tensor([5]))["encoder_out"][0][:, 0]
    padded = torch.cat([torch.full((1, 9), PAD), source], dim=1)
    moved = model.encoder(padded, torch.tensor([5]))["encoder_out"][0][9:, 0]
    torch.testing.assert_close(encoded, moved, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("arch", "stock"), STOCK_COUNTERPART.items())
def test_architectures_have_the_sizes_of_fairseq(arch: str, stock: str) -> None:
    ours, theirs = Namespace(), Namespace()
    ARCH_CONFIG_REGISTRY[arch](ours)
    ARCH_CONFIG_REGISTRY[stock](theirs)
    assert vars(ours) == vars(theirs) | DEFAULTS
    thesis = {"shape_max_shift": 500, "shape_relative_limit": 16, "shape_eval_offset": 0}
    assert thesis.items() <= DEFAULTS.items()


def test_big_has_the_sizes_of_vaswani_et_al() -> None:
    args = Namespace()
    ARCH_CONFIG_REGISTRY["shape_transformer_big"](args)
    sizes = (args.encoder_embed_dim, args.encoder_ffn_embed_dim, args.encoder_attention_heads)
    assert (*sizes, args.encoder_layers, args.dropout) == (1024, 4096, 16, 6, 0.3)


def test_glorot_embeddings_with_an_adaptive_softmax() -> None:
    model = build(shape_embedding_init="glorot", adaptive_softmax_cutoff="8,12")
    bound = (6 / (len(dictionary()) + 64)) ** 0.5
    for side in (model.encoder, model.decoder):
        assert 0.9 * bound < side.embed_tokens.weight.detach().abs().max() <= bound


def test_glorot_embeddings_are_uniform() -> None:
    sizes = {"encoder_embed_dim": 64, "decoder_embed_dim": 64}
    bound = (6 / (len(dictionary()) + 64)) ** 0.5
    for shared in (True, False):
        options: dict[str, Any] = {
            "share_all_embeddings": shared,
            "encoder_attention_heads": 4,
            **sizes,
        }
        model = build(shape_embedding_init="glorot", **options)
        tables = (model.encoder.embed_tokens, model.decoder.embed_tokens)
        for table in (*tables, model.decoder.output_projection):
            weight = table.weight.detach()
            assert (weight[PAD] == 0).all()
            others = weight[torch.arange(len(weight)) != PAD]
            assert others.abs().max() <= bound
            # uniform: standard deviation bound / sqrt(3), no tail
            assert others.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
        stock = build(**options).encoder.embed_tokens.weight.detach()
        assert stock.abs().max() > bound / 2
        assert stock.std().item() == pytest.approx(64**-0.5, rel=0.1)


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ({"shape_max_shift": -1}, "--shape-max-shift"),
        ({"encoder_learned_pos": True}, "--encoder-learned-pos"),
        ({"decoder_learned_pos": True}, "--decoder-learned-pos"),
        ({"no_token_positional_embeddings": True}, "--no-token-positional-embeddings"),
        ({"shape_positions": "rotary"}, "absolute, shifted, relative"),
        ({"shape_eval_offset": -1}, "--shape-eval-offset"),
        ({"shape_embedding_init": "xavier"}, "normal or glorot"),
        ({"shape_relative_limit": 0}, "--shape-relative-limit"),
        ({"shape_positions": "relative", "shape_eval_offset": 3}, "--shape-eval-offset"),
        ({"shape_shift_warmup": -1}, "--shape-shift-warmup is -1; expected 0 or more updates"),
        *[
            ({"shape_positions": positions, name: value}, f"{flag(name)} cannot .* {positions}")
            for positions in ("absolute", "relative")
            for name, value in (
                ("shape_max_shift", 20),
                ("shape_max_shift", 500),
                ("shape_shared_shift", True),
                ("shape_shift_warmup", 9),
            )
        ],
        *[
            ({"shape_positions": positions, name: value}, f"{flag(name)} cannot .* {positions}")
            for positions in ("absolute", "shifted")
            for name, value in (("shape_relative_limit", 8), ("shape_relative_one_table", True))
        ],
        ({"shape_positions": "relative", "cross_self_attention": True}, "--cross-self-attention"),
        (
            {"shape_positions": "relative", "encoder_xformers_att_config": "{}"},
            "--encoder-xformers-att-config",
        ),
    ],
)
def test_invalid_options_are_rejected(option: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        build(**option)
