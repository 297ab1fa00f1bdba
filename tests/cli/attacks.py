"""Attack files: bytes, or functions of the path of a file that executed code would create."""

from __future__ import annotations

import io
import json
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.conftest import ROOT, Attack

sys.path.insert(0, str(ROOT / "scripts/fuzz"))
import small_models

models = small_models.folder
"""Small models at random, and their data, made once."""
Content = bytes | Callable[[Path], bytes]
"""Content of a file, or a function of the canary, the file that executed code would create."""


def as_pickle(canary: Path) -> bytes:
    return pickle.dumps(Attack(canary))


def as_checkpoint(canary: Path) -> bytes:
    content = io.BytesIO()
    state = torch.load(models() / "t.pt", weights_only=False)
    torch.save({**state, "gift": Attack(canary)}, content)
    return content.getvalue()


def as_array(canary: Path) -> bytes:
    content = io.BytesIO()
    np.save(content, np.array([Attack(canary)], object), allow_pickle=True)
    return content.getvalue()


def with_option(name: str, value: Any) -> Content:
    """A checkpoint of a Transformer with another option of the model."""

    def made(canary: Path) -> bytes:
        content = io.BytesIO()
        state = torch.load(models() / "t.pt", weights_only=False)
        text = value.format(canary=canary) if isinstance(value, str) else value
        options = state["cfg"]["model"]
        (options if isinstance(options, dict) else vars(options))[name] = text
        torch.save(state, content)
        return content.getvalue()

    return made


def npz(**arrays: Any) -> Content:
    """A file of a learned filter with other arrays."""

    def made(_: Path) -> bytes:
        content = io.BytesIO()
        whole = dict(np.load(models() / "learned/phsic-words.npz"))
        np.savez(content, **{**whole, **arrays})
        return content.getvalue()

    return made


def npz_that_claims(shape: str) -> Content:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in ("source_mean", "target_mean", "covariance"):
            file.writestr(f"{name}.npy", array)
    return content.getvalue()


def npz_outside(_: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("../../outside", "x")
    return content.getvalue()


def filter_json(**changes: Any) -> Content:
    """Settings of a learned filter, changed below `measures` or `classifier`."""

    def made(_: Path) -> bytes:
        content = json.loads((models() / "learned/filter.json").read_text())
        for part, settings in changes.items():
            content[part] |= settings
        return json.dumps(content).encode()

    return made


def index(**changes: int) -> Content:
    """An index of binarized data with another number."""

    def made(_: Path) -> bytes:
        data = (models() / "data/test.src-trg.src.idx").read_bytes()
        version, kind, count = struct.unpack_from("<QBQ", data, 9)
        sizes = list(struct.unpack_from(f"<{count}i", data, 26))
        starts = list(struct.unpack_from(f"<{count}q", data, 26 + 4 * count))
        sizes[0] = changes.get("size", sizes[0])
        starts[0] = changes.get("start", starts[0])
        kind, told = changes.get("kind", kind), changes.get("count", count)
        head = data[:9] + struct.pack("<QBQ", version, kind, told)
        return head + struct.pack(f"<{count}i", *sizes) + struct.pack(f"<{count}q", *starts)

    return made


def fasttext(length: int) -> bytes:
    """The beginning of a model with one word, as fastText writes it."""
    header = struct.pack("<14id", 793712314, 12, 2, 5, 5, 5, 5, 1, 2, 2, 9, 3, 6, 100, 1e-4)
    words = struct.pack("<3i2q", 1, 1, 0, 9, -1) + b"word\0" + struct.pack("<qb", 9, 0)
    return (header + words + struct.pack("<?2q", False, 10, 2) + bytes(80))[:length]


def bert_json(name: str, changes: dict[str, Any]) -> Content:
    """Settings of a BERT in a folder of transformers', changed."""

    def made(_: Path) -> bytes:
        return json.dumps(
            {**json.loads((models() / "bert" / name).read_text()), **changes}
        ).encode()

    return made
