"""An ONNX graph under construction: nodes, constants, and values with a records' axis of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 18, 8
"""Versions of ONNX's operators and file format: those of 2022, so that programs of 2023 and later read the files."""
RECORDS = 1009
"""Number of records of a traced function: a prime, so that its multiples mark the axis of the records."""
INPUT, OUTPUT = "images", "scores"


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a traced function.

    Args:
        shape: shape in the traced function, where RECORDS stands for any number of records.
        dtype: type of its numbers.
        stored: shape of the value in the graph: the same, or 1 at axes along which it is only broadcast.
        name: name in the graph; empty for a constant.
        constant: the constant, of the shape `stored`; None for other values.
    """

    shape: tuple[int, ...]
    dtype: Any
    stored: tuple[int, ...]
    name: str = ""
    constant: Any = None


def constant_of(array: Any) -> Value:
    """Returns a constant value."""
    return Value(tuple(array.shape), array.dtype, tuple(array.shape), constant=array)


def has_records(shape: Sequence[int]) -> bool:
    """Returns whether an axis has a length that depends on the number of records."""
    return any(_of_records(side) for side in shape)


def _of_records(side: int) -> bool:
    return side > 0 and side % RECORDS == 0


class Graph:
    """Nodes and constants of a graph with the input `images`, (n, height, width, channels), float32."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: dict[Any, str] = {}
        self._tensors: list[TensorProto] = []
        self._held: list[Any] = []
        self._count = ""

    @property
    def size(self) -> int:
        """Bytes of all constants."""
        return sum(len(tensor.raw_data) for tensor in self._tensors)

    def add(
        self,
        operator: str,
        inputs: Sequence[Value | str],
        shape: Sequence[int],
        dtype: Any,
        stored: Sequence[int] | None = None,
        **attributes: Any,
    ) -> Value:
        """Adds a node with one output, and returns the output."""
        name = f"v{len(self._nodes)}"
        names = [each if isinstance(each, str) else self.name_of(each) for each in inputs]
        self._nodes.append(helper.make_node(operator, names, [name], **attributes))
        return Value(tuple(shape), np.dtype(dtype), tuple(shape if stored is None else stored), name)

    def name_of(self, value: Value) -> str:
        """Returns the name of a value; a constant gets one."""
        return value.name or self.store(value.constant)

    def store(self, constant: Any) -> str:
        """Returns the name of a constant array; one object, or equal whole numbers or scalars, are stored once.

        Equal arrays of floats are stored twice: rounding on another machine may make them differ, and the graph must
        not depend on this.
        """
        array = np.ascontiguousarray(constant)
        exact = array.dtype.kind in "biu" or array.size == 1
        key = (array.dtype.str, array.shape, array.tobytes()) if exact else id(constant)
        if key not in self._constants:
            self._held.append(constant)  # an id is unique among objects that exist
            self._constants[key] = f"c{len(self._constants)}"
            self._tensors.append(numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    def integers(self, numbers: Sequence[int]) -> str:
        """Returns the name of a constant vector of whole numbers, such as axes."""
        return self.store(np.asarray(numbers, np.int64).reshape(len(numbers)))

    def full(self, value: Value) -> Value:
        """Returns the value with all of its axes at their length."""
        if value.stored == value.shape:
            return value
        if not value.name and not has_records(value.shape):
            return constant_of(np.broadcast_to(np.asarray(value.constant), value.shape))
        return self.add("Expand", [value, self.lengths(value.shape)], value.shape, value.dtype)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Returns the value in another shape."""
        open_sides = [i for i, side in enumerate(shape) if _of_records(side)]
        sides = [-1 if i in open_sides else side for i, side in enumerate(shape)]
        target = self.integers(sides) if len(open_sides) < 2 else self.lengths(shape)
        return self.add("Reshape", [self.full(value), target], shape, value.dtype)

    def lengths(self, shape: Sequence[int]) -> str:
        """Returns the name of the vector of the lengths of a shape, for the number of records at hand."""
        if not has_records(shape):
            return self.integers(shape)
        if not self._count:
            self._count = self.add("Shape", [INPUT], (1,), np.int64, start=0, end=1).name
        parts = []
        for side in shape:
            if not _of_records(side):
                parts.append(self.integers([side]))
            elif side == RECORDS:
                parts.append(self._count)
            else:
                times = self.integers([side // RECORDS])
                parts.append(self.add("Mul", [self._count, times], (1,), np.int64).name)
        return self.add("Concat", parts, (len(shape),), np.int64, axis=0).name

    def model(self, scores: Value, shape: Sequence[int], facts: dict[str, str]) -> ModelProto:
        """Returns the model.

        Args:
            scores: the output, (n, classes).
            shape: (height, width, channels) of the input.
            facts: texts for the file's metadata.
        """
        self._nodes.append(helper.make_node("Identity", [self.name_of(self.full(scores))], [OUTPUT]))
        inputs = [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["n", *shape])]
        outputs = [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["n", *scores.shape[1:]])]
        graph = helper.make_graph(self._nodes, "classifier", inputs, outputs, self._tensors)
        versions = {"opset_imports": [helper.make_opsetid("", OPSET)], "ir_version": IR_VERSION}
        model = helper.make_model(graph, producer_name="dpdistill", **versions)
        helper.set_model_props(model, facts)
        return model
