"""The error of a function that cannot be written as an ONNX file."""

from __future__ import annotations

from dpdistill.schema import DataError


class NotExported(DataError):
    """A function that cannot be written as an ONNX file.

    Args:
        reason: why, such as "it would need a transposed convolution".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"No ONNX file can be written: {reason}.")
