"""Convert tokens to ids, and group sentences into padded batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def token_ids(dictionary: Any, tokens: Sequence[str]) -> list[int]:
    """Return the dictionary ids of tokens. Unknown tokens get the id of <unk>."""
    return [dictionary.index(token) for token in tokens]


def count_unknown(dictionary: Any, rows: Sequence[Sequence[int]]) -> int:
    """Return the number of unknown tokens.

    A token is unknown if its id is <unk> or, for models that copy, beyond the dictionary.

    Args:
        dictionary: a fairseq dictionary.
        rows: the ids of each sentence.
    """
    unknown, size = dictionary.unk(), len(dictionary)
    return sum(index == unknown or index >= size for row in rows for index in row)


def start_id(task: Any) -> int:
    """Return the id that a language model expects before the first token: <s> or </s>."""
    words = task.target_dictionary
    has_bos = getattr(task.args, "add_bos_token", False)
    return int(words.bos() if has_bos else words.eos())


def pad_rows(rows: Sequence[Sequence[int]], pad: int, left: bool = False) -> Any:
    """Return sequences of ids as a tensor [rows, time], padded on the right or on the left."""
    import numpy as np
    import torch

    from fairseq_ssl.text.spans import Spans

    block = Spans.of([np.asarray(row, np.int64) for row in rows]).pad(pad, left, 0, 1)
    return torch.from_numpy(block)


def padded_batches(
    sizes: Sequence[int], max_tokens: int, order: Iterable[int] | None = None
) -> list[list[int]]:
    """Group sentences into batches. Return the sentence indices for each batch.

    Args:
        sizes: number of tokens in each sentence.
        max_tokens: maximum number of tokens in a batch, including padding. A longer sentence forms
            its own batch.
        order: sentence indices in the order in which batches are filled (default: longest first).
    """
    if order is None:
        order = sorted(range(len(sizes)), key=lambda index: -sizes[index])
    batches: list[list[int]] = []
    max_length = 0
    for index in order:
        max_length = max(max_length, sizes[index])
        if not batches or max_length * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
            max_length = sizes[index]
        batches[-1].append(index)
    return batches
