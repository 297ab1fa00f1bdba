"""What a decoder sees of itself and, as its future, of the source (PBD, section 3.1, figure 2).

A query at position t of the target predicts token t. It sees the decoder's own states up to t,
and copied states of the source at positions after t. Positions count from 0, without padding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_ssl.modules.attention import KeysValues


def visible_to_targets(targets: Tensor, sources: Tensor | None) -> Tensor:
    """Return which keys each position of a target sees: figure 2's mask.

    Args:
        targets: [batch, time], those that are not padding
        sources: [batch, source time], those that are not padding; None: without a future

    Returns:
        [batch or 1, 1, time, time + source time]; the target's own keys come first
    """
    time = targets.size(1)
    places = targets.cumsum(1) - 1
    causal = torch.ones(time, time, dtype=torch.bool, device=targets.device).tril()
    itself = torch.eye(time, dtype=torch.bool, device=targets.device)
    past = causal & (targets[:, None, :] | itself)
    if sources is None:
        return past[:, None]
    later = sources.cumsum(1)[:, None, :] - 1 > places[:, :, None]
    return torch.cat([past, later & sources[:, None, :]], dim=2)[:, None]


def from_the_start(there: KeysValues, real: Tensor) -> KeysValues:
    """Return keys and values with each sentence's first real position in place 0.

    Args:
        there: of sentences padded on either side
        real: [batch, time], the positions that are not padding
    """
    first = real.int().argmax(1)
    time = real.size(1)
    places = (torch.arange(time, device=real.device) + first[:, None]).clamp(max=time - 1)
    index = places[:, None, :, None].expand_as(there.keys)
    return KeysValues(there.keys.gather(2, index), there.values.gather(2, index))
