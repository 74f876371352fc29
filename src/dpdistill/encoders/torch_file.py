"""Reads the weights of a file that `torch.save` wrote, without PyTorch and without running code from the file."""

from __future__ import annotations

import io
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpdistill.errors import DataError

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_TYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
}
_REFUSED = "Expected a file of weights that torch.save wrote in its format without zip; {}."


@dataclass(frozen=True)
class _Storage:
    """A block of numbers in the file; tensors are views of it."""

    key: str
    dtype: np.dtype
    size: int


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _tensor(storage: _Storage, offset: int, shape: Any, strides: Any, *_: Any) -> _Tensor:
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
}


class _Weights(pickle.Unpickler):
    """An unpickler that finds three harmless names and refuses all others."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _TYPES:
            return np.dtype(_TYPES[name])
        if (module, name) not in _ALLOWED:
            raise DataError(_REFUSED.format(f"found {module[:40]}.{name[:40]}, which is no weight"))
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, size, _ = pid
        if kind != "storage" or not isinstance(dtype, np.dtype):
            raise DataError(_REFUSED.format("found another kind of object"))
        return _Storage(str(key), dtype, int(size))


def read_weights(content: bytes) -> dict[str, np.ndarray]:
    """Returns the arrays of a state dict by name.

    Args:
        content: the file in the format that PyTorch wrote until version 1.5: five pickles, then the numbers.

    Raises:
        DataError: another format, an object other than weights, or sizes that contradict the file's.
    """
    file = io.BytesIO(content)
    try:
        if _Weights(file).load() != _MAGIC or _Weights(file).load() != _PROTOCOL:
            raise DataError(_REFUSED.format("the file begins in another way"))
        _Weights(file).load()
        state, keys = _Weights(file).load(), _Weights(file).load()
        storages = {each.storage.key: each.storage for each in state.values()}
        arrays: dict[str, np.ndarray] = {}
        for key in keys:
            storage, size = storages[key], int.from_bytes(file.read(8), "little")
            data = file.read(size * storage.dtype.itemsize)
            if size != storage.size or len(data) != size * storage.dtype.itemsize:
                raise DataError(_REFUSED.format("the file ends early"))
            arrays[key] = np.frombuffer(data, storage.dtype)
        return {name: _view(tensor, arrays[tensor.storage.key]) for name, tensor in state.items()}
    except DataError:
        raise
    except Exception:  # pickle raises many kinds of errors for damaged files
        raise DataError(_REFUSED.format("the file is damaged or has another format")) from None


def _view(tensor: _Tensor, numbers: np.ndarray) -> np.ndarray:
    """Returns a tensor whose numbers lie in the file in the order of rows, or in any order of axes."""
    order = sorted(range(len(tensor.shape)), key=lambda axis: -tensor.strides[axis])
    held = [tensor.shape[axis] for axis in order]
    usual = [math.prod(held[i + 1 :]) for i in range(len(held))]
    dense = all(tensor.strides[a] == step or tensor.shape[a] == 1 for a, step in zip(order, usual, strict=True))
    part = numbers[max(tensor.offset, 0) :][: math.prod(held)]
    if tensor.offset < 0 or len(part) != math.prod(held) or not dense:
        raise DataError(_REFUSED.format("a tensor lies outside of its numbers"))
    return part.reshape(held).transpose(np.argsort(order)) if held else part.reshape(())
