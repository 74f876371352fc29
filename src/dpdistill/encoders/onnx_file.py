"""Reads and writes the part of the ONNX format that fixed image networks use.

The reader is separate from the package `onnx`, so that files of strangers meet a few lines of Python instead of a
parser in C++, and the writer writes equal bytes on every machine, so that their hash can be pinned.

Source: ONNX, onnx.proto (https://onnx.ai/onnx/repo-docs/IR.html).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from dpdistill.encoders.protobuf import Damaged, Value, read_fields, read_varints, signed
from dpdistill.encoders.protobuf import field as wire
from dpdistill.errors import DataError

MOST_NODES = 20_000
MOST_BYTES = 2**31
"""Size of the largest file, as in the format itself, and of all its weights."""
_DTYPES = {
    **{1: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1"), 6: np.dtype("<i4"), 7: np.dtype("<i8")},
    **{9: np.dtype(bool), 10: np.dtype("<f2"), 11: np.dtype("<f8"), 16: np.dtype(ml_dtypes.bfloat16)},
}
Shape = tuple[int | None, ...]


class Refused(DataError):
    """A file that is no fixed function of one image, with the reason in one sentence."""


@dataclass(frozen=True, eq=False)
class Node:
    """One operation of a graph.

    Args:
        op: name of the operator.
        inputs: names of the inputs; empty for an omitted one.
        outputs: names of the outputs.
        attributes: numbers, texts, tuples of them, and arrays by name.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """A network: operations in order, with constants.

    Args:
        nodes: each uses inputs, constants and outputs of earlier nodes only.
        constants: arrays by name.
        inputs: shapes of the inputs by name; None for a size, or a shape, that the file leaves open.
        outputs: shapes of the outputs by name.
        opset: version of the operators.
    """

    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray]
    inputs: Mapping[str, Shape | None]
    outputs: Mapping[str, Shape | None]
    opset: int


def read_graph(content: bytes) -> Graph:
    """Returns the graph of an ONNX file.

    Raises:
        Refused: a damaged file, a cycle, weights in other files, own operators, or more than a network needs.
    """
    if len(content) > MOST_BYTES:
        raise Refused(f"Expected an ONNX file of at most 2 GiB; got {len(content) / 2**30:.1f} GiB.")
    try:
        return _model(memoryview(content))
    except (Damaged, UnicodeDecodeError, struct.error, RecursionError, OverflowError) as error:
        raise Refused(f"Expected an ONNX file; the file is damaged or of another format ({error!s:.60}).") from None


def _model(message: memoryview) -> Graph:
    graph, opset = None, 0
    for number, value in read_fields(message):
        if number == 7:
            graph = _bytes(value)
        elif number == 8:
            stated = dict(read_fields(_bytes(value)))
            domain = _text(stated.get(1, memoryview(b"")))
            if domain in ("", "ai.onnx"):
                opset = int(stated.get(2, 0))  # type: ignore[arg-type]
        elif number == 25:
            raise Refused("Expected an ONNX file without functions of its own: export the network inlined.")
    if graph is None or not 7 <= opset <= 25:
        raise Refused(f"Expected an ONNX file with operators of version 7 to 25; got {opset or 'none'}.")
    return _graph(graph, opset)


def _graph(message: memoryview, opset: int) -> Graph:
    nodes: list[Node] = []
    constants: dict[str, np.ndarray] = {}
    inputs: dict[str, Shape | None] = {}
    outputs: dict[str, Shape | None] = {}
    for number, value in read_fields(message):
        if number == 1:
            nodes.append(_node(_bytes(value)))
            if len(nodes) > MOST_NODES:
                raise Refused(f"Expected at most {MOST_NODES} operations.")
        elif number == 5:
            name, array = read_tensor(_bytes(value))
            constants[name] = array
        elif number == 11:
            name, shape = _value_info(_bytes(value))
            inputs[name] = shape
        elif number == 12:
            name, shape = _value_info(_bytes(value))
            outputs[name] = shape
        elif number == 15:
            raise Refused("Expected dense weights: sparse ones are not read.")
    inputs = {name: shape for name, shape in inputs.items() if name not in constants}
    return Graph(_in_order(nodes, {*inputs, *constants}), constants, inputs, outputs, opset)


def _in_order(nodes: Sequence[Node], known: set[str]) -> tuple[Node, ...]:
    """Returns the nodes, after checking that each uses earlier values only, so that there is no cycle."""
    known = {"", *known}
    for node in nodes:
        if missing := [name for name in node.inputs if name not in known]:
            raise Refused(f"Expected operations in order; {node.op:.40} uses {missing[0]!r:.60} before it is computed.")
        if again := [name for name in node.outputs if name and name in known]:
            raise Refused(f"Expected every value computed once; {again[0]!r:.60} is computed again.")
        known |= {*node.outputs}
    return tuple(nodes)


def _node(message: memoryview) -> Node:
    inputs, outputs, op, domain, attributes = [], [], "", "", {}
    for number, value in read_fields(message):
        if number == 1:
            inputs.append(_text(value))
        elif number == 2:
            outputs.append(_text(value))
        elif number == 4:
            op = _text(value)
        elif number == 5:
            name, held = _attribute(_bytes(value))
            attributes[name] = held
        elif number == 7:
            domain = _text(value)
    if domain not in ("", "ai.onnx"):
        raise Refused(f"Expected standard operators only; got {op!r:.60} of {domain!r:.60}.")
    return Node(op, tuple(inputs), tuple(outputs), attributes)


def _attribute(message: memoryview) -> tuple[str, Any]:
    name, kind, lists, one = "", 0, {7: [], 8: [], 9: []}, {}
    for number, value in read_fields(message):
        if number == 1:
            name = _text(value)
        elif number == 20:
            kind = int(value)  # type: ignore[arg-type]
        elif number == 7:
            lists[7] += np.frombuffer(_bytes(value), "<f4").tolist()
        elif number == 8:
            lists[8] += map(signed, read_varints(value))
        elif number == 9:
            lists[9].append(_text(value))
        else:
            one[number] = value
    if kind == 1:
        return name, struct.unpack("<f", one[2])[0] if 2 in one else 0.0
    if kind == 2:
        return name, signed(one.get(3, 0))
    if kind == 3:
        return name, _text(one.get(4, memoryview(b"")))
    if kind == 4 and 5 in one:
        return name, read_tensor(_bytes(one[5]))[1]
    if kind in (6, 7, 8):
        return name, tuple(lists[kind + 1])
    raise Refused(f"Expected operations without control flow or sequences; got the attribute {name!r:.60}.")


def read_tensor(message: memoryview) -> tuple[str, np.ndarray]:
    """Returns name and array of a tensor; floats of any width become float32, in which features are computed.

    Raises:
        Refused: data in another file, data of another size than the shape's, or an unknown type.
    """
    name, dims, kind, data, numbers = "", [], 0, None, None
    for number, value in read_fields(message):
        if number == 1:
            dims += map(signed, read_varints(value))
        elif number == 2:
            kind = int(value)  # type: ignore[arg-type]
        elif number == 8:
            name = _text(value)
        elif number == 9:
            data = _bytes(value)
        elif number in (4, 10):
            numbers = [*(numbers or []), *np.frombuffer(_bytes(value), "<f4" if number == 4 else "<f8").tolist()]
        elif number in (5, 7):
            numbers = [*(numbers or []), *map(signed, read_varints(value))]
        elif number == 13 or (number == 14 and value):
            raise Refused(f"Expected all weights inside the file; {name!r:.60} lies in another one: save as one file.")
    if kind not in _DTYPES:
        raise Refused(f"Expected weights as numbers; {name!r:.60} has the type {kind} of ONNX.")
    dtype, size = _DTYPES[kind], math.prod(dims)
    if any(d < 0 for d in dims) or size * dtype.itemsize > MOST_BYTES:
        raise Refused(f"Expected weights of a possible shape; {name!r:.60} has {dims!r:.60}.")
    if data is not None:
        array = np.frombuffer(data, dtype) if len(data) == size * dtype.itemsize else None
    elif kind in (10, 16):
        array = np.array(numbers or [], np.uint16).view(dtype)
    else:
        array = np.array(numbers or [], dtype)
    if array is None or array.size != size:
        raise Refused(f"Expected as many numbers as the shape of a weight says; {name!r:.60} has other ones.")
    floats = kind in (1, 10, 11, 16)
    return name, (array.astype(np.float32) if floats else array).reshape(dims)


def _value_info(message: memoryview) -> tuple[str, Shape | None]:
    """Returns the name of an input or output, and its shape if it is stated."""
    stated = dict(read_fields(message))
    name, shape = _text(stated.get(1, memoryview(b""))), None
    kinds = dict(read_fields(_bytes(stated[2]))) if 2 in stated else {}
    tensor = dict(read_fields(_bytes(kinds[1]))) if 1 in kinds else {}
    if 2 in tensor:
        dims = [dict(read_fields(_bytes(value))) for number, value in read_fields(_bytes(tensor[2])) if number == 1]
        shape = tuple(int(dim[1]) if 1 in dim else None for dim in dims)  # type: ignore[arg-type]
    return name, shape


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise Damaged("a number instead of a message")
    return value


def _text(value: Value) -> str:
    return bytes(_bytes(value)).decode()


def write_graph(graph: Graph) -> bytes:
    """Returns an ONNX file of a graph, with equal bytes on every machine."""
    parts = [wire(1, _node_bytes(node)) for node in graph.nodes] + [wire(2, "graph")]
    parts += [wire(5, _tensor_bytes(name, array)) for name, array in graph.constants.items()]
    for number, held in ((11, graph.inputs), (12, graph.outputs)):
        parts += [wire(number, _info_bytes(name, shape)) for name, shape in held.items()]
    opset = wire(8, wire(1, "") + wire(2, graph.opset))
    return wire(1, 8) + wire(2, "dpdistill") + wire(7, b"".join(parts)) + opset


def _node_bytes(node: Node) -> bytes:
    names = [*(wire(1, name) for name in node.inputs), *(wire(2, name) for name in node.outputs)]
    held = [wire(5, _attribute_bytes(name, value)) for name, value in node.attributes.items()]
    return b"".join([*names, wire(4, node.op), *held])


def _attribute_bytes(name: str, value: Any) -> bytes:
    if isinstance(value, float):
        return wire(1, name) + b"\x15" + struct.pack("<f", value) + wire(20, 1)
    if isinstance(value, int):
        return wire(1, name) + wire(3, value) + wire(20, 2)
    if isinstance(value, str):
        return wire(1, name) + wire(4, value) + wire(20, 3)
    if isinstance(value, np.ndarray):
        return wire(1, name) + wire(5, _tensor_bytes("", value)) + wire(20, 4)
    return wire(1, name) + b"".join(wire(8, each) for each in value) + wire(20, 7)


def _tensor_bytes(name: str, array: np.ndarray) -> bytes:
    kind = next(number for number, dtype in _DTYPES.items() if dtype == array.dtype)
    dims = b"".join(wire(1, size) for size in array.shape)
    return dims + wire(2, kind) + wire(8, name) + wire(9, np.ascontiguousarray(array).tobytes())


def _info_bytes(name: str, shape: Shape | None) -> bytes:
    dims = b"".join(wire(1, b"" if size is None else wire(1, size)) for size in shape or ())
    return wire(1, name) + wire(2, wire(1, wire(1, 1) + (b"" if shape is None else wire(2, dims))))
