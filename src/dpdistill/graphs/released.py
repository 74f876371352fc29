"""The released classifier of a set as an ONNX file, and the comparison of two such files."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from dpdistill.graphs.refusal import NotExported
from dpdistill.method import Distilled
from dpdistill.recipe.build import kernel_of
from dpdistill.recipe.parts import implement
from dpdistill.schema import DataError, Schema

WITHOUT_ONNX = "pip install 'dpdistill[onnx]' first"
TOLERANCE = 1e-4
"""Relative difference of constants that another machine may compute."""


def released_model(distilled: Distilled, encoder: Callable[[Any], Any]) -> bytes:
    """Returns the ONNX file of a released classifier on the features of an encoder.

    Raises:
        NotExported: onnx is not installed, or the features have no translation.
        DataError: a set without a released classifier, or a classifier of another number of features.
    """
    if distilled.classifier is None or not isinstance(distilled.schema, Schema):
        raise DataError("Expected a set with a released classifier, classifier.npz; it has none.")
    return _writer().classifier_model(encoder, distilled.classifier, distilled.schema)


def function_model(scores: Callable[[Any], Any], schema: Schema) -> bytes:
    """Returns the ONNX file of a function of images in [-1, 1], such as a network.

    Raises:
        NotExported: onnx is not installed, or the function has no translation.
    """
    return _writer().model_bytes(scores, schema)


def _writer() -> ModuleType:
    """Returns the module that writes ONNX files, imported late because onnx is optional."""
    try:
        from dpdistill.graphs import classifier
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise NotExported(WITHOUT_ONNX) from None
    return classifier


def encoder_in(fields: dict[str, Any]) -> Callable[[Any], Any]:
    """Returns the feature map of the kernel in a recipe's fields.

    Raises:
        DataError: no kernel with features.
    """
    try:
        features = implement(kernel_of(fields["kernel"])).features  # type: ignore[attr-defined]
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError):
        features = None
    if features is None:
        raise DataError("Expected a recipe with a kernel of fixed features; it has none.")
    return features


def same_model(content: bytes, expected: bytes) -> bool:
    """Returns whether an ONNX file is another: the same graph, and constants that agree up to rounding."""
    if content == expected:
        return True
    import numpy as np
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, numpy_helper

    one, other = ModelProto(), ModelProto()
    try:
        one.ParseFromString(content)
    except DecodeError:
        return False
    other.ParseFromString(expected)
    if one.SerializeToString(deterministic=True) != content:
        return False  # bytes that the format does not read
    pairs = [[*model.graph.initializer] for model in (one, other)]
    if len(pairs[0]) != len(pairs[1]):
        return False
    for found, wanted in zip(*pairs, strict=True):
        if (found.name, found.data_type, [*found.dims]) != (wanted.name, wanted.data_type, [*wanted.dims]):
            return False
        if len(found.raw_data) != len(wanted.raw_data):
            return False
        a, b = numpy_helper.to_array(found), numpy_helper.to_array(wanted)
        largest = np.abs(b).max(initial=0) if b.dtype.kind == "f" else 0.0
        if not (np.array_equal(a, b) or (largest and np.allclose(a, b, TOLERANCE, TOLERANCE * largest))):
            return False
        found.CopyFrom(wanted)
    return one.SerializeToString(deterministic=True) == expected
