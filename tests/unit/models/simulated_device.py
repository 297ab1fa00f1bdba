"""A device that exists on every machine: its tensors are stored and computed on the CPU.

As on a GPU, an operator rejects a tensor of the device together with one of the CPU. The device is
named meta, whose kernels are not called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "meta"
ATEN = torch.ops.aten
BETWEEN_DEVICES = (ATEN.copy_.default, ATEN._to_copy.default)
INDEXING = (ATEN.index.Tensor, ATEN.index_put_.default, ATEN._index_put_impl_.default)
"""Operators whose index may be on the CPU."""


class DeviceTensor(Tensor):
    """A tensor of the device. `stored` has its values."""

    __torch_function__: Any = torch._C._disabled_torch_function_impl
    stored: Tensor

    @staticmethod
    def __new__(cls: Any, stored: Tensor) -> DeviceTensor:
        """Wrap a tensor of the CPU."""
        made: DeviceTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            stored.shape,
            strides=stored.stride(),
            storage_offset=stored.storage_offset(),
            dtype=stored.dtype,
            device=torch.device(DEVICE),
        )
        made.stored = stored
        return made

    def tolist(self) -> Any:
        """Copy the values to the CPU."""
        return self.stored.tolist()

    def new_tensor(self, values: Any) -> DeviceTensor:  # type: ignore[override]
        """Copy numbers to the device."""
        return DeviceTensor(self.stored.new_tensor(values))

    def resize_(  # type: ignore[override]
        self, *shape: int, memory_format: Any = torch.contiguous_format
    ) -> DeviceTensor:
        """Change the shape in place, which an operator cannot do."""
        self.data = DeviceTensor(self.stored.resize_(*shape, memory_format=memory_format))
        return self

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator on the stored values."""
        return _run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Lists(TorchFunctionMode):
    """Convert lists of numbers to tensors, which no operator does."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and torch.device(kwargs.get("device") or "cpu").type == DEVICE:
            return DeviceTensor(func(*args, **{**kwargs, "device": "cpu"}))
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[1], list):
            args = (args[0], torch.tensor(args[1]), *args[2:])
        return func(*args, **kwargs)


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    ours = {id(each.stored): each for each in tensors if isinstance(each, DeviceTensor)}
    device = torch.device(kwargs.get("device") or ("cpu" if not ours else DEVICE)).type
    if not ours and device == "cpu":
        return func(*args, **kwargs)
    assert not any(each.is_meta for each in tensors if not isinstance(each, DeviceTensor))
    others = [each for each in tensors if not isinstance(each, DeviceTensor) and each.dim()]
    if ours and others and func not in (*BETWEEN_DEVICES, *INDEXING):
        raise RuntimeError(f"{func} reads tensors of two devices: {tuple(others[0].shape)}")
    if kwargs.get("device"):
        kwargs = {**kwargs, "device": "cpu"}
    args, kwargs = tree_map(
        lambda each: each.stored if isinstance(each, DeviceTensor) else each, (args, kwargs)
    )
    found = func(*args, **kwargs)

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        # An operator in place returns its argument.
        return ours[id(value)] if id(value) in ours else DeviceTensor(value)

    return found if device == "cpu" else tree_map(wrap, found)


@contextmanager
def simulated_device() -> Iterator[None]:
    """Let operators create tensors on `DEVICE`."""
    with _Lists(), _Mode():  # type: ignore[no-untyped-call]
        yield


def move(value: Any) -> Any:
    """Move the tensors in nested dictionaries to the device."""
    if isinstance(value, dict):
        return {name: move(each) for name, each in value.items()}
    return DeviceTensor(value) if isinstance(value, Tensor) else value


def move_model(model: nn.Module) -> None:
    """Move all weights and buffers of a model to the device. Tied weights stay tied."""
    moved: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                new = nn.Parameter(DeviceTensor(weight.data), weight.requires_grad)
                module._parameters[name] = moved.setdefault(id(weight), new)
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else DeviceTensor(buffer)
        if isinstance(module, nn.RNNBase):
            names = module._flat_weights_names
            module._flat_weights = [getattr(module, name) for name in names]
