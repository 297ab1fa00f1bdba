"""Contents of attack files: bytes, or functions of a `Scene`."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.conftest import Attack


@dataclass(frozen=True)
class Scene:
    """Paths that the content of an attack depends on."""

    build_models: Callable[[], Path]
    canary: Path
    """File that executed code would create."""

    @property
    def models(self) -> Path:
        """Folder of `small_models`, which is built when a test needs it."""
        return self.build_models()


Write = Callable[[Scene], bytes]
Content = bytes | Write


def as_pickle(scene: Scene) -> bytes:
    return pickle.dumps(Attack(scene.canary))


def as_checkpoint(scene: Scene) -> bytes:
    content = io.BytesIO()
    state = {"args": None, "cfg": {"model": {"_name": "transformer"}}, "model": {}}
    torch.save({**state, "gift": Attack(scene.canary)}, content)
    return content.getvalue()


def as_array(scene: Scene) -> bytes:
    return npy(np.array([Attack(scene.canary)], object))


def npy(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def npy_claiming(shape: str, kind: str = "'<f4'") -> bytes:
    """An array of 64 bytes whose header claims another shape."""
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)


def numbers(*values: int) -> bytes:
    """Return integers of 8 bytes."""
    return np.array(values, "<u8").tobytes()


def archive(**members: bytes) -> bytes:
    """A zip archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return content.getvalue()


def phsic(**changes: Any) -> Write:
    """Arrays of a learned filter with changes: arrays, or the bytes of members."""

    def write(scene: Scene) -> bytes:
        arrays = {**np.load(scene.models / "learned/phsic-words.npz"), **changes}
        members = {
            f"{name}.npy": data if isinstance(data, bytes) else npy(data)
            for name, data in arrays.items()
        }
        return archive(**members)

    return write


def filter_json(**changes: Any) -> Write:
    """Settings of a learned filter, changed below `measures` or `classifier`."""

    def write(scene: Scene) -> bytes:
        content = json.loads((scene.models / "learned/filter.json").read_text())
        for part, settings in changes.items():
            content[part] |= settings
        return json.dumps(content).encode()

    return write


def index(**changes: int) -> Write:
    """An index of binarized data with another number."""

    def write(scene: Scene) -> bytes:
        data = (scene.models / "data/test.src-trg.src.idx").read_bytes()
        version, kind, count = struct.unpack_from("<QBQ", data, 9)
        sizes = list(struct.unpack_from(f"<{count}i", data, 26))
        starts = list(struct.unpack_from(f"<{count}q", data, 26 + 4 * count))
        sizes[0] = changes.get("size", sizes[0])
        starts[0] = changes.get("start", starts[0])
        kind, claimed = changes.get("kind", kind), changes.get("count", count)
        head = data[:9] + struct.pack("<QBQ", version, kind, claimed)
        return head + struct.pack(f"<{count}i", *sizes) + struct.pack(f"<{count}q", *starts)

    return write
