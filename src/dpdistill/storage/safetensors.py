"""Writes arrays as a safetensors file, which any framework reads without running code."""

from __future__ import annotations

import json

import numpy as np


def safetensors_bytes(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """Returns a safetensors file of float32 arrays.

    Args:
        arrays: arrays by name.
        metadata: texts by name.

    Source: Hugging Face, safetensors: length of the header, header in JSON, then the numbers.
    """
    header: dict[str, object] = {"__metadata__": metadata}
    contents, at = [], 0
    for name, array in arrays.items():
        content = np.ascontiguousarray(array, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": [*array.shape], "data_offsets": [at, at + len(content)]}
        contents.append(content)
        at += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *contents])
