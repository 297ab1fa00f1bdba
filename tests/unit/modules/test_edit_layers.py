"""The edit-factorized encoder and its scores equal a dense reference implementation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.attention import KeysValues, attend_from_units
from fairseq_ssl.modules.edit_layers import EditEncoder, EditLayer, EditScores, EncoderSizes, Words
from fairseq_ssl.modules.functional import Rows

PAD = 1
SENTENCE = [0, 7, 9, 9, 4, 2]
SIZES = EncoderSizes(12, 3, 8, 16, 2, 9, dropout=0, attention_dropout=0)
GRAMS = [[5], [6, 7], [4, 4]]


def encoder() -> EditEncoder:
    torch.manual_seed(3)
    made = EditEncoder(SIZES, PAD).double()
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


def dense_states(encoder: EditEncoder, tokens: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return h, r and a [time, dim] of one sentence without padding."""
    time = len(tokens)
    table = encoder.positions.weight
    last = len(table) - 1
    rows = [encoder.tokens.weight[token] + table[place] for place, token in enumerate(tokens)]
    rows += [encoder.mask + table[place] for place in range(time)]
    rows += [
        encoder.mask + (table[place] + table[min(place + 1, last)]) / 2 for place in range(time)
    ]
    states = encoder.norm(torch.stack(rows))
    for layer in encoder.layers:
        states = dense_layer(layer, states, allowed(time))
    h, r, a = states.split(time)
    return h, r, a


def allowed(time: int) -> Tensor:
    """Return the mask of PIE, figure 2 [3 * time, 3 * time], True if a row attends to a column."""
    mask = torch.zeros(3 * time, 3 * time, dtype=torch.bool)
    for query in range(3 * time):
        kind, place = divmod(query, time)
        for key in range(time):
            mask[query, key] = not (kind == 1 and key == place)
        mask[query, query] = True
    return mask


def dense_layer(layer: nn.Module, states: Tensor, mask: Tensor) -> Tensor:
    dim = states.size(1)
    assert isinstance(layer, EditLayer)
    size = dim // layer.heads
    query, key, value = layer.in_proj(states).split(dim, dim=1)
    heads = []
    for head in range(layer.heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ key[:, part].T / math.sqrt(size)
        heads.append(scores.masked_fill(~mask, -math.inf).softmax(1) @ value[:, part])
    states = layer.attention_norm(states + layer.out_proj(torch.cat(heads, dim=1)))
    inner = layer.fc2(functional.gelu(layer.fc1(states)))
    last: Tensor = layer.final_norm(states + inner)
    return last


def plain_logits(
    scores: EditScores, embeddings: Tensor, grams: list[list[int]], token: int, *states: Tensor
) -> list[Tensor]:
    """Return the scores of PIE, equation 3, for one token."""
    h, r, a = states
    theta, bias = scores.edits.weight, scores.edits.bias

    def head(state: Tensor) -> Tensor:
        seen: Tensor = scores.transform_norm(functional.gelu(scores.transform(state)))
        return seen

    def phi(gram: list[int]) -> Tensor:
        return sum((embeddings[one] for one in gram), torch.zeros(embeddings.size(1)))

    own = embeddings[token]
    copy = own @ head(h)
    found = [theta[0] @ h + bias[0] + copy, theta[1] @ h + bias[1]]
    for number, gram in enumerate(grams, 2):
        found.append(theta[number] @ h + bias[number] + copy + phi(gram) @ head(a))
    for number, gram in enumerate(grams, 2 + len(grams)):
        found.append(theta[number] @ h + bias[number] + (phi(gram) - own) @ head(r))
    for number in range(2 + 2 * len(grams), len(theta)):
        found.append(theta[number] @ h + bias[number] + copy)
    return found


@pytest.mark.parametrize("training", [True, False])
def test_states_equal_dense_attention(training: bool) -> None:
    model = encoder().train(training)
    states = model(torch.tensor([SENTENCE]))
    for ours, wanted in zip(states, dense_states(model, SENTENCE), strict=True):
        torch.testing.assert_close(ours[0], wanted)


def test_gradients_equal_dense_attention() -> None:
    model, plain = encoder(), encoder()
    weight = torch.randn(3 * len(SENTENCE), 8, dtype=torch.double)
    (torch.cat(list(model(torch.tensor([SENTENCE]))), dim=1)[0] * weight).sum().backward()  # type: ignore[no-untyped-call]
    (torch.cat(dense_states(plain, SENTENCE)) * weight).sum().backward()  # type: ignore[no-untyped-call]
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
        wanted = plain_logits(head, embeddings, GRAMS, token, *(part[place] for part in states))
        torch.testing.assert_close(found[place], torch.stack(wanted))


def test_cached_gram_embeddings_follow_the_embeddings() -> None:
    head, table = scores(), nn.Embedding(12, 8, dtype=torch.double)

    def check() -> None:
        torch.testing.assert_close(head.gram_embeddings(table.weight)[0], table.weight[5])

    head.cache_grams(table.weight)
    assert "cached_grams" not in head.state_dict()
    check()
    table.load_state_dict({"weight": torch.randn(12, 8, dtype=torch.double)})
    check()
    head.train()
    table.weight.data.mul_(2)  # as in an update of fairseq's optimizers
    check()
    head.eval()
    check()
    head.cache_grams(table.weight)
    table.weight.data.mul_(2)
    head.cache_grams(table.weight)
    check()


def test_unfactorized_scores_equal_equation_2() -> None:
    head = EditScores(8, 12, GRAMS, PAD, factorized=False).eval()
    states = torch.randn(3, 8)
    found = head(torch.randn(12, 8), None, states, None, None)
    torch.testing.assert_close(found, states @ head.edits.weight.T + head.edits.bias)


@pytest.mark.parametrize("factorized", [True, False])
def test_gap_inserts_are_independent_of_token_edits(factorized: bool) -> None:
    """Each label has two independent decisions: the edit of the token, and the insertion."""
    torch.manual_seed(1)
    head, plain = (
        EditScores(8, 12, GRAMS, PAD, factorized=factorized, gap_inserts=gap).double().eval()
        for gap in (True, False)
    )
    plain.load_state_dict(head.state_dict(), strict=False)
    embeddings = torch.randn(12, 8, dtype=torch.double)
    inputs = [embeddings[[7, 9, 4]], *(torch.randn(3, 8, dtype=torch.double) for _ in range(3))]
    found = head(embeddings, *inputs)
    own, states, _, following = inputs
    kept = torch.zeros(3, 1, dtype=torch.double)
    if factorized:
        states, kept = head._head(following), (own * head._head(states)).sum(1, keepdim=True)
    assert head.no_insert is not None
    scores_of = plain(embeddings, *inputs)
    inserts = slice(2, 2 + len(GRAMS))
    edits = torch.cat([scores_of[:, :2], scores_of[:, inserts.stop :]], 1).log_softmax(1)
    gaps = torch.cat([head.no_insert(states), scores_of[:, inserts] - kept], 1).log_softmax(1)
    wanted = [edits[:, :2] + gaps[:, :1], edits[:, :1] + gaps[:, 1:], edits[:, 2:] + gaps[:, :1]]
    torch.testing.assert_close(found, torch.cat(wanted, 1))
    assert (found.exp().sum(-1) < 1).all(), "no label has both an edit and an insertion"


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
