"""Small networks as ONNX files, for tests: one of convolutions, one of attention, and single operations."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dpdistill.encoders.onnx_file import Graph, Node, write_graph

OPSET = 17


def single(
    op: str, *inputs: Any, opset: int = OPSET, shape: tuple = (1, 3, 8, 9), outputs: int = 1, **held: Any
) -> Graph:
    """A graph of one operation: the image "x", or constants, as inputs; None is an omitted one."""
    constants, names = {}, []
    for k, value in enumerate(inputs):
        names.append("" if value is None else value if isinstance(value, str) else f"c{k}")
        if names[-1] == f"c{k}":
            constants[f"c{k}"] = np.asarray(value)
    made = tuple(f"y{k}" for k in range(outputs))
    return Graph((Node(op, tuple(names), made, held),), constants, {"x": (1, 3, 8, 9)}, dict.fromkeys(made), opset)


def small_cnn(seed: int = 0, classes: int = 12, side: int | None = None) -> Graph:
    """Convolutions plain, by channel and of one pixel; batch normalisation, a residual sum, pools and a dense layer."""
    rng = np.random.default_rng(seed)

    def weight(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    constants = {
        "W1": weight(8, 3, 3, 3), "b1": weight(8), "s": 1 + weight(8), "o": weight(8), "m": weight(8),
        "v": np.abs(weight(8)) + np.float32(0.5), "W2": weight(8, 1, 3, 3), "W3": weight(16, 8, 1, 1), "b3": weight(16),
        "low": np.zeros((), np.float32), "high": np.full((), 6, np.float32),
        "D": weight(classes, 16), "d": weight(classes),
    }  # fmt: skip
    nodes = (
        Node("Conv", ("image", "W1", "b1"), ("a",), {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
        Node("BatchNormalization", ("a", "s", "o", "m", "v"), ("n",), {"epsilon": 1e-3}),
        Node("Clip", ("n", "low", "high"), ("r",)),
        Node("Conv", ("r", "W2"), ("e",), {"group": 8, "auto_pad": "SAME_UPPER"}),
        Node("Add", ("r", "e"), ("f",)),
        Node("Conv", ("f", "W3", "b3"), ("g",)),
        Node("HardSwish", ("g",), ("block",)),
        Node("GlobalAveragePool", ("block",), ("p",)),
        Node("Flatten", ("p",), ("q",)),
        Node("Gemm", ("q", "D", "d"), ("features",), {"transB": 1}),
    )
    shape = (None, 3, side, side)
    return Graph(nodes, constants, {"image": shape}, {"features": (None, classes)}, OPSET)


def small_vit(seed: int = 1, width: int = 16, heads: int = 2) -> Graph:
    """Patches, a class token, attention and two dense layers, with shapes that are computed in the graph."""
    rng = np.random.default_rng(seed)

    def weight(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)

    def whole(*numbers: int) -> np.ndarray:
        return np.array(numbers, np.int64)

    constants = {
        "P": weight(width, 3, 4, 4), "token": weight(1, 1, width), "position": weight(1, 17, width),
        "g1": 1 + weight(width), "o1": weight(width), "Q": weight(width, 3 * width), "q": weight(3 * width),
        "O": weight(width, width), "g2": 1 + weight(width), "o2": weight(width), "U": weight(width, 32),
        "V": weight(32, width),
        "zero": whole(0), "one": whole(1), "three": whole(width), "rest": whole(-1), "first": np.array(0, np.int64),
        "scale": np.float32(width / heads) ** np.float32(-0.5), "root": np.float32(2**0.5), "plus": np.float32(1),
        "half": np.float32(0.5), "heads": whole(3, heads, width // heads),
    }  # fmt: skip
    nodes = (
        Node("Conv", ("image", "P"), ("patches",), {"strides": (4, 4)}),
        Node("Shape", ("patches",), ("shape",)),
        Node("Slice", ("shape", "zero", "one", "zero"), ("batch",)),
        Node("Concat", ("batch", "three", "rest"), ("flat",), {"axis": 0}),
        Node("Reshape", ("patches", "flat"), ("columns",)),
        Node("Transpose", ("columns",), ("rows",), {"perm": (0, 2, 1)}),
        Node("Concat", ("batch", "one", "three"), ("wide",), {"axis": 0}),
        Node("Expand", ("token", "wide"), ("tokens",)),
        Node("Concat", ("tokens", "rows"), ("all",), {"axis": 1}),
        Node("Add", ("all", "position"), ("x0",)),
        Node("LayerNormalization", ("x0", "g1", "o1"), ("n1",), {"axis": -1, "epsilon": 1e-6}),
        Node("MatMul", ("n1", "Q"), ("m1",)),
        Node("Add", ("m1", "q"), ("qkv",)),
        Node("Shape", ("qkv",), ("long",)),
        Node("Gather", ("long", "one"), ("length",), {"axis": 0}),
        Node("Concat", ("batch", "length", "heads"), ("split",), {"axis": 0}),
        Node("Reshape", ("qkv", "split"), ("five",)),
        Node("Transpose", ("five",), ("by",), {"perm": (2, 0, 3, 1, 4)}),
        *(Node("Gather", ("by", f"i{k}"), (name,), {"axis": 0}) for k, name in enumerate("abc")),
        Node("Transpose", ("b",), ("bT",), {"perm": (0, 1, 3, 2)}),
        Node("Mul", ("a", "scale"), ("scaled",)),
        Node("MatMul", ("scaled", "bT"), ("scores",)),
        Node("Softmax", ("scores",), ("weights",), {"axis": -1}),
        Node("MatMul", ("weights", "c"), ("heard",)),
        Node("Transpose", ("heard",), ("back",), {"perm": (0, 2, 1, 3)}),
        Node("Concat", ("batch", "length", "three"), ("joined",), {"axis": 0}),
        Node("Reshape", ("back", "joined"), ("said",)),
        Node("MatMul", ("said", "O"), ("out",)),
        Node("Add", ("x0", "out"), ("x1",)),
        Node("LayerNormalization", ("x1", "g2", "o2"), ("n2",), {"axis": -1, "epsilon": 1e-6}),
        Node("MatMul", ("n2", "U"), ("u",)),
        Node("Div", ("u", "root"), ("u1",)),
        Node("Erf", ("u1",), ("u2",)),
        Node("Add", ("u2", "plus"), ("u3",)),
        Node("Mul", ("u", "u3"), ("u4",)),
        Node("Mul", ("u4", "half"), ("u5",)),
        Node("MatMul", ("u5", "V"), ("v",)),
        Node("Add", ("x1", "v"), ("x2",)),
        Node("Gather", ("x2", "first"), ("features",), {"axis": 1}),
    )
    constants |= {f"i{k}": np.array(k, np.int64) for k in range(3)}
    return Graph(nodes, constants, {"image": (1, 3, 16, 16)}, {"features": (1, width)}, OPSET)


CARD = {
    "name": "small", "size": 16, "mean": [0.5, 0.5, 0.5], "scale": [0.25, 0.25, 0.5], "outputs": ["block", "features"],
    "source": "random weights of a test", "licence": "CC0-1.0", "training_data": "no data", "declared_by": "a test",
}  # fmt: skip


def write_encoder(folder: Path, graph: Graph | None = None, name: str = "small", **changed: Any) -> Path:
    """Writes FILE.onnx and its card, and returns the path of the first."""
    file = folder / f"{name}.onnx"
    file.write_bytes(write_graph(graph or small_cnn()))
    (folder / f"{name}.card.yaml").write_text(yaml.safe_dump({**CARD, "name": name, **changed}))
    return file


def sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
