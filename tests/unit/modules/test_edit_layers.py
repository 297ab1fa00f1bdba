"""The edit-factorized encoder and its scores equal a dense reference implementation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from fairseq_ssl.modules.attention import KeysValues, attend_from_units
from fairseq_ssl.modules.edit_layers import EditEncoder, EditScores, EncoderSizes, Words
from fairseq_ssl.modules.functional import Rows
from tests.unit.modules import dense_edit_encoder as dense

PAD = 1
SENTENCE = [0, 7, 9, 9, 4, 2]
SIZES = EncoderSizes(vocabulary=12, layers=3, dim=8, inner_dim=16, heads=2, positions=9)
GRAMS = [[5], [6, 7], [4, 4]]


def encoder(factorized: bool = True, sizes: EncoderSizes = SIZES) -> EditEncoder:
    torch.manual_seed(3)
    made = EditEncoder(sizes, PAD, factorized).double()
    _scatter(made)
    return made.eval()


def scores() -> EditScores:
    torch.manual_seed(4)
    made = EditScores(8, 2 + 6 + 4, GRAMS, PAD).double()
    _scatter(made)
    return made.eval()


def _scatter(module: nn.Module) -> None:
    """Set all weights, including those of norms, to random values."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)


def test_states_equal_dense_attention() -> None:
    model = encoder()
    states = model(torch.tensor([SENTENCE]))
    for ours, wanted in zip(states, dense.encoded(model, SENTENCE), strict=True):
        torch.testing.assert_close(ours[0], wanted)


def test_gradients_equal_dense_attention() -> None:
    model, plain = encoder(), encoder()
    weight = torch.randn(3 * len(SENTENCE), 8, dtype=torch.double)
    (torch.cat(list(model(torch.tensor([SENTENCE]))), dim=1)[0] * weight).sum().backward()  # type: ignore[no-untyped-call]
    (torch.cat(dense.encoded(plain, SENTENCE)) * weight).sum().backward()  # type: ignore[no-untyped-call]
    for (name, ours), wanted in zip(model.named_parameters(), plain.parameters(), strict=True):
        if name != "tokens.weight":
            torch.testing.assert_close(ours.grad, wanted.grad, msg=name)


@pytest.mark.parametrize("left", [False, True])
def test_padding_on_either_side_does_not_change_states(left: bool) -> None:
    model = encoder()
    padded = [PAD, PAD, *SENTENCE] if left else [*SENTENCE, PAD, PAD]
    place = slice(2, None) if left else slice(0, len(SENTENCE))
    batch = model(torch.tensor([padded, [0, 5, 5, 5, 6, 6, 6, 2]]))
    for ours, wanted in zip(batch, model(torch.tensor([SENTENCE])), strict=True):
        torch.testing.assert_close(ours[0, place], wanted[0])
        assert torch.isfinite(ours).all()


def test_token_states_do_not_depend_on_units() -> None:
    factorized, plain = encoder(), encoder(factorized=False)
    plain.load_state_dict(factorized.state_dict())
    tokens = torch.tensor([SENTENCE])
    torch.testing.assert_close(factorized(tokens).tokens, plain(tokens).tokens)
    assert plain(tokens).replacing is None


def test_replacement_state_does_not_depend_on_its_token() -> None:
    model = encoder(sizes=EncoderSizes(12, 1, 8, 16, 2, 9))
    one, other = (model(torch.tensor([[0, 7, token, 4, 2]])) for token in (9, 10))
    torch.testing.assert_close(one.replacing[0, 2], other.replacing[0, 2])
    assert not torch.allclose(one.replacing[0, 1], other.replacing[0, 1])
    assert not torch.allclose(one.following[0, 2], other.following[0, 2])


def test_training_mode_without_dropout_equals_evaluation() -> None:
    model = encoder(sizes=EncoderSizes(12, 3, 8, 16, 2, 9, dropout=0, attention_dropout=0))
    tokens = torch.tensor([SENTENCE])
    for ours, wanted in zip(model(tokens), model.train()(tokens), strict=True):
        torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_close(kind: torch.dtype) -> None:
    torch.manual_seed(3)
    model = EditEncoder(SIZES, PAD).eval()
    tokens = torch.tensor([SENTENCE, [*SENTENCE[:3], 2, PAD, PAD]])
    wanted = model(tokens)
    with torch.autocast("cpu", kind):
        found = model(tokens)
    for ours, exact in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.float(), exact, atol=0.05, rtol=0.05)


def test_attention_scores_between_units_are_not_computed() -> None:
    """Each unit has T + 1 scores, so no tensor is [units, units]."""
    time, units = 5, 10
    shapes: list[tuple[int, ...]] = []

    def pack(kept: Tensor) -> Tensor:
        shapes.append(tuple(kept.shape))
        return kept

    query, key, value = (torch.randn(1, 2, units, 4, requires_grad=True) for _ in range(3))
    there = [torch.randn(1, 2, time, 4, requires_grad=True) for _ in range(2)]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        attend_from_units(query, KeysValues(key, value), KeysValues(*there), None, 0.1)
    assert any(shape[-2:] == (units, time + 1) for shape in shapes)
    assert not any(shape[-2:] == (units, units) for shape in shapes)


def test_scores_equal_equation_3() -> None:
    head, embeddings = scores(), torch.randn(12, 8, dtype=torch.double)
    states = [torch.randn(3, 8, dtype=torch.double) for _ in range(3)]
    tokens = [7, 9, 4]
    found = head(embeddings, embeddings[tokens], *states)
    for place, token in enumerate(tokens):
        wanted = dense.logits(head, embeddings, GRAMS, token, *(part[place] for part in states))
        torch.testing.assert_close(found[place], torch.stack(wanted))


def test_cached_gram_embeddings_are_used_in_evaluation_only() -> None:
    head, embeddings = scores(), torch.randn(12, 8, dtype=torch.double)
    states = [torch.randn(3, 8, dtype=torch.double) for _ in range(3)]
    tokens = torch.tensor([7, 9, 4])
    wanted = head(embeddings, embeddings[tokens], *states)
    head.cache_grams(embeddings)
    torch.testing.assert_close(head(embeddings, embeddings[tokens], *states), wanted)
    wanted_grams = head.cached_grams
    assert wanted_grams is not None
    assert "cached_grams" not in head.state_dict()
    assert not torch.equal(head.train().gram_embeddings(embeddings + 1), wanted_grams)


def test_cached_gram_embeddings_follow_the_embeddings() -> None:
    head, table = scores(), nn.Embedding(12, 8, dtype=torch.double)
    head.cache_grams(table.weight)
    table.load_state_dict({"weight": torch.randn(12, 8, dtype=torch.double)})
    torch.testing.assert_close(head.gram_embeddings(table.weight)[0], table.weight[5])
    head.train().gram_embeddings(table.weight)
    table.weight.data.mul_(2)  # as in an update of fairseq's optimizers
    torch.testing.assert_close(head.eval().gram_embeddings(table.weight)[0], table.weight[5])
    head.cache_grams(table.weight)
    table.weight.data.mul_(2)
    head.cache_grams(table.weight)
    torch.testing.assert_close(head.gram_embeddings(table.weight)[0], table.weight[5])


def test_unfactorized_scores_equal_equation_2() -> None:
    head = EditScores(8, 12, GRAMS, PAD, factorized=False).eval()
    states = torch.randn(3, 8)
    found = head(torch.randn(12, 8), None, states, None, None)
    torch.testing.assert_close(found, states @ head.edits.weight.T + head.edits.bias)


@pytest.mark.parametrize("factorized", [True, False])
def test_gap_inserts_are_independent_of_token_edits(factorized: bool) -> None:
    """Each label has two independent decisions: the edit of the token, and the insertion."""
    grams, labels = len(GRAMS), 12
    torch.manual_seed(1)
    head = EditScores(8, labels, GRAMS, PAD, factorized=factorized, gap_inserts=True)
    head = head.double().eval()
    embeddings = torch.randn(12, 8, dtype=torch.double)
    states, *others = (torch.randn(3, 8, dtype=torch.double) for _ in range(3))
    tokens = torch.tensor([7, 9, 4])
    found = head(embeddings, embeddings[tokens], states, *others)
    plain = EditScores(8, labels, GRAMS, PAD, factorized=factorized).double().eval()
    plain.load_state_dict(head.state_dict(), strict=False)
    assert head.no_insert is not None
    for place in range(3):
        one = plain(embeddings, embeddings[tokens], states, *others)[place].tolist()
        state, kept = states[place], 0.0
        if factorized:
            state = head._head(others[1][place])
            kept = float((embeddings[tokens[place]] @ head._head(states[place])).detach())
        nothing = float(head.no_insert(state).detach())
        insertions = [nothing, *(score - kept for score in one[2 : 2 + grams])]
        edits = one[:2] + one[2 + grams :]
        log_edits = [score - math.log(sum(map(math.exp, edits))) for score in edits]
        log_gaps = [score - math.log(sum(map(math.exp, insertions))) for score in insertions]
        wanted = [score + log_gaps[0] for score in log_edits]
        wanted[2:2] = [log_edits[0] + score for score in log_gaps[1:]]
        assert found[place].tolist() == pytest.approx(wanted)
    assert (found.exp().sum(-1) < 1).all(), "no label has both an edit and an insertion"


def test_dictionary_without_grams() -> None:
    head = EditScores(8, 3, [], PAD).eval()
    states = [torch.randn(2, 8) for _ in range(3)]
    embeddings = torch.randn(12, 8)
    assert head(embeddings, embeddings[[7, 9]], *states).shape == (2, 3)


def test_units_of_some_words_equal_those_of_all_words() -> None:
    model = encoder()
    tokens = torch.tensor([[*SENTENCE, PAD], [0, 5, 5, 6, 6, 6, 2], [0, 3, 2, *[PAD] * 4]])
    whole = model(tokens)
    first, last = torch.tensor([1, 3, 0, 5]), torch.tensor([1, 3, 0, 5])
    words = Words(torch.tensor([0, 0, 1, 1]), first, last)
    found = model.encode_units(model.encode_tokens(tokens), words)
    for ours, wanted in zip(found, whole[1:], strict=True):
        torch.testing.assert_close(ours, wanted[words.sentence, first])


@pytest.mark.parametrize("lengths", [(3, 3), (2, 0, 4), (0, 1), (1,)])
def test_rows_are_placed_on_the_left_of_their_sentences(lengths: tuple[int, ...]) -> None:
    vectors = torch.arange(2.0 * sum(lengths)).view(-1, 2) + 1
    sentence = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    rows = Rows.of_sentences(sentence, len(lengths))
    wanted = torch.zeros(len(lengths), max(lengths), 2)
    for place, one in enumerate(torch.split(vectors, list(lengths))):
        wanted[place, : len(one)] = one
    assert torch.equal(rows.pad(vectors), wanted)
    assert torch.equal(rows.pack(wanted), vectors)
    of_mask = Rows.of_mask(wanted[..., 0] > 0)
    assert torch.equal(of_mask.pad(vectors), wanted)
