"""All decoders: scores do not depend on the batch, and steps equal teacher forcing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.unit.models import test_bytenet as bytenet
from tests.unit.models import test_pointer_transformer as pointer
from tests.unit.models import test_pseudo_bidirectional_transformer as pseudo_bidirectional
from tests.unit.models import test_shape_transformer as shape
from tests.unit.models.tiny_models import EOS, PAD, SENTENCES, batch, logits, previous

MODELS: dict[str, Callable[[], Any]] = {
    **{kind: partial(shape.build, **options) for kind, options in shape.KINDS.items()},
    **{kind: partial(bytenet.trained, kind) for kind in bytenet.KINDS},
    **{kind: partial(pseudo_bidirectional.tiny, kind) for kind in pseudo_bidirectional.KINDS},
    "pointer": partial(pointer.tiny, copy_vocabulary=14, copy_attention_heads=2),
}
every_model = pytest.mark.parametrize("name", MODELS)
CLOSE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}


def log_probabilities(model: Any, source: Tensor, target: Tensor) -> Tensor:
    output = model(source, source.ne(PAD).sum(1), target)
    found: Tensor = model.get_normalized_probs(output, log_probs=True)
    return found


@every_model
@torch.no_grad()
def test_probabilities_do_not_depend_on_the_batch_and_later_words(name: str) -> None:
    model, targets = MODELS[name]().eval(), [words + words[:2] for words in SENTENCES]
    source, target = batch(SENTENCES, True), previous(targets)
    found = log_probabilities(model, source, target)
    right_padded = log_probabilities(model, batch(SENTENCES), target)
    torch.testing.assert_close(right_padded, found, **CLOSE)
    prefixes = log_probabilities(model, source, target[:, :3])
    torch.testing.assert_close(prefixes, found[:, :3], **CLOSE)
    for row, (words, to) in enumerate(zip(SENTENCES, targets, strict=True)):
        alone = log_probabilities(model, batch([words]), previous([to]))[0]
        torch.testing.assert_close(alone, found[row, : len(alone)], **CLOSE)


@every_model
@pytest.mark.parametrize("beams", [True, False])
@torch.no_grad()
def test_steps_equal_teacher_forcing(name: str, beams: bool) -> None:
    """Beams are reordered within their sentence, and a sentence ends, or rows are uneven."""
    model = MODELS[name]().eval()
    torch.manual_seed(1)
    source = batch(SENTENCES, left=beams)
    rows = torch.arange(4).repeat_interleave(3) if beams else torch.tensor([3, 0, 0, 1, 2, 2])
    encoded = model.encoder(source, source.ne(PAD).sum(1))
    encoded = model.encoder.reorder_encoder_out(encoded, rows)
    tokens = torch.full((len(rows), 1), EOS)
    state: dict[str, Any] = {}
    for step in range(14):
        output = model.decoder(tokens, encoder_out=encoded, incremental_state=state)
        found = model.get_normalized_probs(output, log_probs=True)
        expected = log_probabilities(model, source[rows], tokens)
        torch.testing.assert_close(found[:, -1], expected[:, -1], **CLOSE)
        order = torch.arange(len(rows))
        if beams:
            sentences = torch.arange(len(rows)).view(-1, 3)
            sentences = sentences[torch.tensor([0, 2, 3])] if step == 4 else sentences
            order = sentences[:, torch.randint(3, (3,))].flatten()
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoded = model.encoder.reorder_encoder_out(encoded, order)
        rows = rows[order]
        tokens = torch.cat([tokens[order], torch.randint(4, 20, (len(order), 1))], dim=1)


@pytest.mark.parametrize("name", ["relative", "bytenet", "bytenet_v2", "output-norms-before"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_half_precision_is_close(name: str, dtype: torch.dtype) -> None:
    model, source, target = MODELS[name]().eval(), batch(SENTENCES, True), previous(SENTENCES)
    exact = logits(model, source, target).log_softmax(-1)
    found = logits(model.to(dtype), source, target)
    assert found.dtype == dtype
    torch.testing.assert_close(found.to(exact.dtype).log_softmax(-1), exact, atol=0.3, rtol=0.05)
