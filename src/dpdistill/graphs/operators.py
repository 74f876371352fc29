"""The table from JAX's primitives to ONNX's operators."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from dpdistill.graphs.graph import Graph, Value, has_records
from dpdistill.graphs.refusal import NotExported

Translate = Callable[[Graph, Sequence[Value], dict[str, Any], tuple[int, ...], Any], Value]
"""Function of (graph, inputs, parameters of the primitive, shape of the output, type of the output)."""

ELEMENTWISE = {
    "abs": "Abs", "add": "Add", "and": "And", "div": "Div", "eq": "Equal", "erf": "Erf", "exp": "Exp",
    "floor": "Floor", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "log": "Log",
    "logistic": "Sigmoid", "lt": "Less", "max": "Max", "min": "Min", "mul": "Mul", "neg": "Neg", "not": "Not",
    "or": "Or", "pow": "Pow", "round": "Round", "sign": "Sign", "sqrt": "Sqrt", "sub": "Sub", "tanh": "Tanh",
}  # fmt: skip
"""Primitives with an operator of the same meaning, number by number."""
REDUCTIONS = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_sum": "ReduceSum"}


def elementwise(graph: Graph, operator: str, values: Sequence[Value], shape: tuple[int, ...], dtype: Any) -> Value:
    """Adds an operator that works number by number; inputs that are only broadcast stay small."""
    stored = np.broadcast_shapes(*(value.stored for value in values))
    return graph.add(operator, values, shape, dtype, (1,) * (len(shape) - len(stored)) + stored)


def _elementwise(operator: str) -> Translate:
    return lambda graph, values, params, shape, dtype: elementwise(graph, operator, values, shape, dtype)


def _reduction(operator: str) -> Translate:
    def translate(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
        axes = graph.integers(params["axes"])
        return graph.add(operator, [graph.full(values[0]), axes], shape, dtype, keepdims=0)

    return translate


def _select(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    which, *cases = values
    if which.dtype != bool or len(cases) != 2:
        raise NotExported("it would need a choice among more than two cases")
    return elementwise(graph, "Where", [which, cases[1], cases[0]], shape, dtype)


def _square(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    return elementwise(graph, "Mul", [values[0], values[0]], shape, dtype)


def _rsqrt(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    return elementwise(graph, "Reciprocal", [elementwise(graph, "Sqrt", values, shape, dtype)], shape, dtype)


def _integer_pow(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    exponent = graph.store(np.asarray(params["y"], dtype))
    return graph.add("Pow", [values[0], exponent], shape, dtype, values[0].stored)


def _clamp(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    low, x, high = values
    return elementwise(graph, "Min", [elementwise(graph, "Max", [low, x], shape, dtype), high], shape, dtype)


def _convert(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    (value,) = values
    if value.dtype == dtype:
        return value
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return graph.add("Cast", [value], shape, dtype, value.stored, to=to)


def _same(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    return values[0]


def _broadcast(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    value, axes = values[0], params["broadcast_dimensions"]
    stored = [1] * len(shape)
    for axis, side in zip(axes, value.stored, strict=True):
        stored[axis] = side
    if not value.name:
        return Value(shape, value.dtype, tuple(stored), constant=np.asarray(value.constant).reshape(stored))
    added = [axis for axis in range(len(shape)) if axis not in axes]
    if not added:
        return Value(shape, value.dtype, tuple(stored), value.name)
    return graph.add("Unsqueeze", [value, graph.integers(added)], shape, dtype, stored)


def _reshape(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    return graph.reshape(values[0], shape)


def _transpose(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    return transposed(graph, values[0], params["permutation"])


def transposed(graph: Graph, value: Value, permutation: Sequence[int]) -> Value:
    """Returns a value with its axes in another order."""
    shape, stored = (tuple(sides[axis] for axis in permutation) for sides in (value.shape, value.stored))
    return graph.add("Transpose", [value], shape, value.dtype, stored, perm=[int(axis) for axis in permutation])


def _slice(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    value, steps = values[0], params["strides"] or (1,) * len(shape)
    rows = zip(params["start_indices"], params["limit_indices"], steps, value.shape, strict=True)
    cut = [(axis, *row[:3]) for axis, row in enumerate(rows) if row[:3] != (0, row[3], 1)]
    return _sliced(graph, value, cut, shape)


def _sliced(graph: Graph, value: Value, cut: list[tuple[int, ...]], shape: tuple[int, ...]) -> Value:
    """Returns a part of a value; `cut` holds (axis, start, limit, step) of the axes that change."""
    if not cut:
        return value
    if has_records([value.shape[axis] for axis, *_ in cut]):
        raise NotExported("it would need a part of the records")
    axes, *ends = zip(*cut, strict=True)
    starts, limits, steps = map(graph.integers, ends)
    return graph.add("Slice", [graph.full(value), starts, limits, graph.integers(axes), steps], shape, value.dtype)


def _rev(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    last = np.iinfo(np.int64).min
    return _sliced(graph, values[0], [(axis, -1, last, -1) for axis in params["dimensions"]], shape)


def _concatenate(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    parts = [graph.full(value) for value in values if 0 not in value.shape]
    return graph.add("Concat", parts, shape, dtype, axis=int(params["dimension"])) if len(parts) > 1 else parts[0]


def _stack(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    axis = int(params["axis"])
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    parts = [graph.add("Unsqueeze", [graph.full(v), graph.integers([axis])], one, dtype) for v in values]
    return graph.add("Concat", parts, shape, dtype, axis=axis)


def _squeeze(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    axes, value = params["dimensions"], values[0]
    stored = tuple(side for axis, side in enumerate(value.stored) if axis not in axes)
    return graph.add("Squeeze", [value, graph.integers(axes)], shape, dtype, stored)


def _pad(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    value, filling = values
    before, after, inside = zip(*params["padding_config"], strict=True)
    grown = [axis for axis in range(len(shape)) if before[axis] or after[axis]]
    if any(inside) or min(*before, *after) < 0 or has_records([value.shape[axis] for axis in grown]):
        raise NotExported(
            "it would need margins between numbers, margins of a negative width, or margins of the records"
        )
    pads = graph.integers([*before, *after])
    return graph.add("Pad", [graph.full(value), pads, filling], shape, dtype, mode="constant")


def _dot(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    (left, right), ((inner_l, inner_r), (batch_l, batch_r)) = values, params["dimension_numbers"]
    letters = iter(string.ascii_letters)
    names_l = [next(letters) for _ in left.shape]
    names_r = [next(letters) for _ in right.shape]
    for i, j in zip((*inner_l, *batch_l), (*inner_r, *batch_r), strict=True):
        names_r[j] = names_l[i]
    free_l = [name for axis, name in enumerate(names_l) if axis not in (*inner_l, *batch_l)]
    free_r = [name for axis, name in enumerate(names_r) if axis not in (*inner_r, *batch_r)]
    output = "".join([*(names_l[i] for i in batch_l), *free_l, *free_r])
    left, names_l = _without_copies(graph, left, names_l, batch_l)
    right, names_r = _without_copies(graph, right, names_r, () if len(names_l) < len(values[0].shape) else batch_r)
    equation = f"{''.join(names_l)},{''.join(names_r)}->{output}"
    return graph.add("Einsum", [left, right], shape, dtype, equation=equation)


def _without_copies(graph: Graph, value: Value, names: list[str], axes: Sequence[int]) -> tuple[Value, list[str]]:
    """Removes axes along which a factor is only broadcast, as far as they are among the given ones."""
    copies = [axis for axis in axes if value.stored[axis] != value.shape[axis]]
    if not copies:
        return graph.full(value), names
    kept = [axis for axis in range(len(names)) if axis not in copies]
    shape, stored = (tuple(sides[axis] for axis in kept) for sides in (value.shape, value.stored))
    small = graph.add("Squeeze", [value, graph.integers(copies)], shape, value.dtype, stored)
    if not value.name:
        small = Value(shape, value.dtype, stored, constant=np.asarray(value.constant).reshape(stored))
    return graph.full(small), [names[axis] for axis in kept]


def _gather(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    (value, indices), numbers = (graph.full(v) for v in values), params["dimension_numbers"]
    indexed, sizes = tuple(map(int, numbers.start_index_map)), params["slice_sizes"]
    offsets = tuple(map(int, numbers.offset_dims))
    batch, parts = tuple(numbers.operand_batching_dims), len(indices.shape) - 1
    rest = [axis for axis in range(len(value.shape)) if axis not in (*indexed, *batch)]
    whole = all(sizes[axis] == value.shape[axis] for axis in rest) and all(sizes[axis] == 1 for axis in indexed)
    if whole and indexed == tuple(map(int, numbers.collapsed_slice_dims)):
        if len(indexed) == 1 and not batch:
            (axis,) = indexed
            at = range(axis, axis + parts)
            if offsets == tuple(i for i in range(len(shape)) if i not in at):
                rows = graph.reshape(indices, indices.shape[:-1])
                return graph.add("Gather", [value, rows], shape, dtype, axis=axis)
        leading = tuple(range(len(batch)))
        ordered = indexed == tuple(range(len(batch), len(batch) + len(indexed)))
        behind = offsets == tuple(range(parts, len(shape)))
        if batch == leading == tuple(numbers.start_indices_batching_dims) and ordered and behind:
            whole_numbers = _convert(graph, [indices], {}, indices.shape, np.dtype(np.int64))
            return graph.add("GatherND", [value, whole_numbers], shape, dtype, batch_dims=len(batch))
    raise NotExported("it would need a choice of numbers by their index in this form")


def _convolution(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    numbers = params["dimension_numbers"]
    if {*params["lhs_dilation"]} != {1} or params["batch_group_count"] != 1:
        raise NotExported("it would need a transposed convolution")
    images = transposed(graph, graph.full(values[0]), numbers.lhs_spec)
    filters = transposed(graph, graph.full(values[1]), numbers.rhs_spec)
    before, after = zip(*params["padding"], strict=True)
    by_channel = [shape[axis] for axis in numbers.out_spec]
    result = graph.add(
        "Conv", [images, filters], by_channel, dtype, strides=[*params["window_strides"]], pads=[*before, *after],
        dilations=[*params["rhs_dilation"]], group=params["feature_group_count"],
    )  # fmt: skip
    return transposed(graph, result, np.argsort(numbers.out_spec).tolist())


def _max_pool(graph: Graph, values: Sequence[Value], params: dict, shape: tuple[int, ...], dtype: Any) -> Value:
    windows, strides = params["window_dimensions"], params["window_strides"]
    plain = not np.any(params["padding"]) and {*params["base_dilation"], *params["window_dilation"]} == {1}
    if not plain or len(windows) != 4 or (windows[0], windows[3], strides[0], strides[3]) != (1, 1, 1, 1):
        raise NotExported("it would need a pool with margins or over channels")
    images = transposed(graph, graph.full(values[0]), (0, 3, 1, 2))
    by_channel = [shape[axis] for axis in (0, 3, 1, 2)]
    kernel = {"kernel_shape": [*windows[1:3]], "strides": [*strides[1:3]]}
    return transposed(graph, graph.add("MaxPool", [images], by_channel, dtype, **kernel), (0, 2, 3, 1))


OPERATORS: dict[str, Translate] = {
    **{primitive: _elementwise(operator) for primitive, operator in ELEMENTWISE.items()},
    **{primitive: _reduction(operator) for primitive, operator in REDUCTIONS.items()},
    **dict.fromkeys(("copy", "copy_p", "optimization_barrier", "stop_gradient", "reduce_precision"), _same),
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "concatenate": _concatenate,
    "conv_general_dilated": _convolution,
    "convert_element_type": _convert,
    "dot_general": _dot,
    "gather": _gather,
    "integer_pow": _integer_pow,
    "pad": _pad,
    "reduce_window_max": _max_pool,
    "reshape": _reshape,
    "rev": _rev,
    "rsqrt": _rsqrt,
    "select_n": _select,
    "slice": _slice,
    "square": _square,
    "squeeze": _squeeze,
    "stack": _stack,
    "transpose": _transpose,
}
"""Translations of JAX's primitives."""
