"""The two sides of fairseq's pairs of sentences, put in the place of what was loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from fairseq.data import LanguagePairDataset


def replace_side(pairs: LanguagePairDataset, side: str, text: Any, sizes: Any) -> None:
    """Let `text` be the sources or the targets of `pairs`.

    Args:
        pairs: whose collater pads; without buckets, which it would have to make again
        side: src or tgt
        text: as many sentences of ids
        sizes: how long each is; some of fairseq's wrappers do not know
    """
    setattr(pairs, side, text)
    setattr(pairs, f"{side}_sizes", np.asarray(sizes))
    pairs.sizes = pairs.src_sizes
    if pairs.tgt is not None:
        pairs.sizes = np.vstack((pairs.src_sizes, pairs.tgt_sizes)).T
