"""Operators of ONNX that compute with numbers and shapes; on constants they are computed once, by NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpdistill.encoders.onnx_file import Refused
from dpdistill.encoders.values import Maps, Value, constant, elementwise, integers, library, limited, plain

Held = Mapping[str, Any]
_TYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float32, 11: np.float32, 16: np.float32}
"""Types of Cast; all floats become float32."""


def by_number(function: Callable[..., Any]) -> Callable[..., Value]:
    """Returns the operator of function(library, numbers...)."""
    return lambda held, *values: elementwise(function, *values)


def _divide(xp: Any, a: Any, b: Any) -> Any:
    whole = np.issubdtype(np.asarray(a).dtype if xp is np else a.dtype, np.integer)
    return a // b if whole else xp.divide(a, b)


def _extreme(name: str) -> Callable[..., Value]:
    def apply(held: Held, *values: Value) -> Value:
        found = values[0]
        for value in values[1:]:
            found = elementwise(lambda xp, a, b: getattr(xp, name)(a, b), found, value)
        return found

    return apply


def _sum(held: Held, *values: Value) -> Value:
    found = values[0]
    for value in values[1:]:
        found = elementwise(lambda _, a, b: a + b, found, value)
    return found


def modulo(held: Held, a: Value, b: Value) -> Value:
    """Returns the rest of a division, with the sign of the divisor, or of the dividend if `fmod` says so."""
    return elementwise(lambda xp, a, b: (xp.fmod if held.get("fmod", 0) else xp.mod)(a, b), a, b)


def identity(held: Held, x: Value) -> Value:
    """Returns the value."""
    return x


def constant_node(held: Held) -> Value:
    """Returns the constant of an attribute."""
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if name in held:
            return np.asarray(held[name], dtype)
    if "value" not in held:
        raise Refused("Expected a constant of numbers.")
    return held["value"]


def constant_of_shape(held: Held, shape: Value) -> Value:
    """Returns one number in a shape."""
    number = np.asarray(held.get("value", np.zeros(1, np.float32))).reshape(())
    return np.broadcast_to(number, limited(integers(shape, "a shape")))


def shape_of(held: Held, x: Value) -> Value:
    """Returns the shape of a value, a constant: one image is encoded at a time."""
    return np.array(x.shape[held.get("start", 0) : held.get("end", None)], np.int64)


def size(held: Held, x: Value) -> Value:
    """Returns the number of numbers of a value."""
    return np.array(math.prod(x.shape), np.int64)


def cast(held: Held, x: Value) -> Value:
    """Returns numbers of another type; floats are float32."""
    kind = int(held["to"])
    if kind not in _TYPES:
        raise Refused(f"Expected a Cast to floats, whole numbers or truth values; got the type {kind} of ONNX.")
    dtype = _TYPES[kind] if kind != 7 or isinstance(x, np.ndarray) else np.int32  # JAX has no longer ones here
    return elementwise(lambda _, x: x.astype(dtype), x)


def reshape(held: Held, x: Value, shape: Value) -> Value:
    """Returns the numbers in another shape: 0 keeps a size, -1 takes the rest."""
    X, wanted = plain(x), [*integers(shape, "a shape")]
    if not held.get("allowzero", 0):
        wanted = [X.shape[axis] if size == 0 and axis < X.ndim else size for axis, size in enumerate(wanted)]
    return X.reshape(wanted)


def flatten(held: Held, x: Value) -> Value:
    """Returns two axes: those before an axis, and the others."""
    X = plain(x)
    axis = int(held.get("axis", 1))
    axis = axis + X.ndim if axis < 0 else axis
    return X.reshape(math.prod(X.shape[:axis]), -1)


def transpose(held: Held, x: Value) -> Value:
    """Returns axes in another order."""
    X = plain(x)
    return library(X).transpose(X, held.get("perm", tuple(range(X.ndim))[::-1]))


def concat(held: Held, *values: Value) -> Value:
    """Returns values one after another along an axis."""
    axis = int(held["axis"])
    if all(isinstance(value, Maps) for value in values) and axis in (1, -3):
        return Maps(jnp.concatenate([value.array for value in values], 3))
    found = [plain(value) for value in values]
    return library(*found).concatenate(found, axis)


def _axes(held: Held, axes: Value, rank: int) -> tuple[int, ...]:
    stated = held.get("axes") if axes is None else integers(axes, "axes")
    return tuple(int(axis) + (rank if axis < 0 else 0) for axis in stated or ())


def unsqueeze(held: Held, x: Value, axes: Value = None) -> Value:
    """Returns a value with more axes of size 1."""
    X = plain(x)
    stated = held.get("axes") if axes is None else integers(axes, "axes")
    return library(X).expand_dims(X, _axes({"axes": stated}, None, X.ndim + len(stated or ())))


def squeeze(held: Held, x: Value, axes: Value = None) -> Value:
    """Returns a value without axes of size 1."""
    X = plain(x)
    return library(X).squeeze(X, _axes(held, axes, X.ndim) or tuple(i for i, n in enumerate(X.shape) if n == 1))


def expand(held: Held, x: Value, shape: Value) -> Value:
    """Returns a value broadcast to a shape."""
    X = plain(x)
    wanted = limited(np.broadcast_shapes(X.shape, integers(shape, "a shape")))
    return library(X).broadcast_to(X, wanted)


def tile(held: Held, x: Value, repeats: Value) -> Value:
    """Returns a value repeated along its axes."""
    X, counts = plain(x), integers(repeats, "repeats")
    limited([n * count for n, count in zip(X.shape, counts, strict=True)])
    return library(X).tile(X, counts)


def slice_(
    held: Held, x: Value, starts: Value = None, ends: Value = None, axes: Value = None, steps: Value = None
) -> Value:
    """Returns a part of a value along some axes."""
    X = plain(x)
    first, last = (
        tuple(held[name]) if value is None else integers(value, name)
        for name, value in (("starts", starts), ("ends", ends))
    )
    along = _axes(held, axes, X.ndim) or tuple(range(len(first)))
    step = (1,) * len(first) if steps is None else integers(steps, "steps")
    parts = [slice(None)] * X.ndim
    for axis, low, high, by in zip(along, first, last, step, strict=True):
        parts[axis] = slice(low, None if by < 0 and high < -X.shape[axis] else high, by)
    return X[tuple(parts)]


def split(held: Held, x: Value, sizes: Value = None) -> tuple[Value, ...]:
    """Returns parts of a value along an axis."""
    X, axis = plain(x), int(held.get("axis", 0))
    stated = held.get("split") if sizes is None else integers(sizes, "sizes")
    if not stated:
        count = int(held.get("num_outputs", held["outputs"]))
        each = -(-X.shape[axis] // count)
        stated = [each] * (count - 1)
    return tuple(library(X).split(X, np.cumsum(stated[: held["outputs"] - 1]), axis))


def gather(held: Held, x: Value, indices: Value) -> Value:
    """Returns the parts of a value with these indices along an axis."""
    X, axis = plain(x), int(held.get("axis", 0))
    found = constant(indices, "an index")
    count = X.shape[axis]
    if found.size and not (-count <= found.min() and found.max() < count):
        raise Refused(f"Expected indices below {count}; got {int(np.abs(found).max())}.")
    limited((*X.shape[:axis], *found.shape, *X.shape[axis:][1:]))
    return library(X).take(X, found % max(count, 1), axis)


def pad(held: Held, x: Value, pads: Value = None, number: Value = None, axes: Value = None) -> Value:
    """Returns a value with a margin: of a constant, of its edge, or reflected."""
    X, mode = plain(x), held.get("mode", "constant")
    margins = tuple(held["pads"]) if pads is None else integers(pads, "pads")
    along = _axes(held, axes, X.ndim) or tuple(range(X.ndim))
    widths = [(0, 0)] * X.ndim
    for place, axis in enumerate(along):
        widths[axis] = (margins[place], margins[place + len(along)])
    if mode not in ("constant", "edge", "reflect") or min(margins, default=0) < 0:
        raise Refused(f"Expected margins of a constant, an edge or a reflection; got {mode!r:.40}.")
    limited([n + sum(width) for n, width in zip(X.shape, widths, strict=True)])
    value = held.get("value", 0.0) if number is None else constant(number, "a margin").reshape(())
    how = {"constant_values": value} if mode == "constant" else {}
    return library(X).pad(X, widths, mode=mode, **how)


def range_(held: Held, start: Value, stop: Value, step: Value) -> Value:
    """Returns numbers at equal distances."""
    first, last, by = (constant(each, "a range").reshape(()) for each in (start, stop, step))
    dtype, first, last, by = first.dtype, first.item(), last.item(), by.item()
    limited((max(0, math.ceil((last - first) / by)) if by else -1,))
    return np.arange(first, last, by).astype(dtype)


ARRAYS = {
    "Constant": constant_node,
    "ConstantOfShape": constant_of_shape,
    "Shape": shape_of,
    "Size": size,
    "Cast": cast,
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Concat": concat,
    "Unsqueeze": unsqueeze,
    "Squeeze": squeeze,
    "Expand": expand,
    "Tile": tile,
    "Slice": slice_,
    "Split": split,
    "Gather": gather,
    "Pad": pad,
    "Range": range_,
    "Identity": identity,
    "Add": by_number(lambda _, a, b: a + b),
    "Sub": by_number(lambda _, a, b: a - b),
    "Mul": by_number(lambda _, a, b: a * b),
    "Div": by_number(_divide),
    "Pow": by_number(lambda xp, a, b: xp.power(a, b)),
    "Mod": modulo,
    "Neg": by_number(lambda _, a: -a),
    "Abs": by_number(lambda xp, a: xp.abs(a)),
    "Sqrt": by_number(lambda xp, a: xp.sqrt(a)),
    "Reciprocal": by_number(lambda _, a: 1 / a),
    "Exp": by_number(lambda xp, a: xp.exp(a)),
    "Log": by_number(lambda xp, a: xp.log(a)),
    "Floor": by_number(lambda xp, a: xp.floor(a)),
    "Ceil": by_number(lambda xp, a: xp.ceil(a)),
    "Equal": by_number(lambda _, a, b: a == b),
    "Greater": by_number(lambda _, a, b: a > b),
    "Less": by_number(lambda _, a, b: a < b),
    "And": by_number(lambda xp, a, b: xp.logical_and(a, b)),
    "Or": by_number(lambda xp, a, b: xp.logical_or(a, b)),
    "Not": by_number(lambda xp, a: xp.logical_not(a)),
    "Where": by_number(lambda xp, c, a, b: xp.where(c, a, b)),
    "Max": _extreme("maximum"),
    "Min": _extreme("minimum"),
    "Sum": _sum,
}
"""Operators by name; each takes the attributes, then the inputs."""
