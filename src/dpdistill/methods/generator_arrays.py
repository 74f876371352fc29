"""Shapes and arrays of a generator, read and checked without JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from dpdistill.methods.generator_shapes import kernels_of
from dpdistill.recipe.generators import GENERATORS
from dpdistill.schema import TableSchema

BINS = 64
"""Number of bins of a number's encoded range [-1, 1] in histograms."""
LEVELS = 257
"""Number of quantiles that describe a number's distribution."""


class Piece(NamedTuple):
    """Range of coordinates of one kind: numbers, gapped (a number and its indicator of missing), or categories."""

    kind: str
    start: int
    width: int


def pieces_of(schema: Any) -> tuple[Piece, ...]:
    """Returns the kinds of a flat encoded record's coordinates, in order; an image is one range of numbers."""
    if not isinstance(schema, TableSchema):
        return (Piece("numbers", 0, schema.dimension),)
    found: list[Piece] = []
    for column, start in zip(schema.columns, schema.offsets, strict=True):
        if column.kind == "categorical":
            found.append(Piece("categories", start, column.width))
        elif column.missing:
            found.append(Piece("gapped", start, 2))
        elif found and found[-1].kind == "numbers":
            found[-1] = found[-1]._replace(width=found[-1].width + 1)
        else:
            found.append(Piece("numbers", start, 1))
    return tuple(found)


def number_coordinates(schema: Any) -> np.ndarray:
    """Returns the coordinates that hold numbers, int32."""
    pieces = (p for p in pieces_of(schema) if p.kind != "categories")
    runs = [range(p.start, p.start + (1 if p.kind == "gapped" else p.width)) for p in pieces]
    return np.array([j for run in runs for j in run], np.int32)


def numbers_of(schema: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns coordinates of a schema's numbers, and of their indicators of missing or -1, int32."""
    numbers = number_coordinates(schema)
    gapped = {piece.start for piece in pieces_of(schema) if piece.kind == "gapped"}
    return numbers, np.array([j + 1 if j in gapped else -1 for j in numbers], np.int32)


class Marginals(NamedTuple):
    """Distributions of a generator's numbers: its own, and the released one.

    Args:
        own: increasing quantiles of the network's values, each at the centre of its bin, (numbers, LEVELS), float32.
        shares: released shares of the bins, (numbers, BINS), float32; they sum to 1.
    """

    own: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True, eq=False)
class GeneratorArrays:
    """Arrays of a generator and the schema of its records; `Generator` computes with them.

    Args:
        weights: W_1, b_1, ..., W_L, b_L, float32; W of a convolution is (side, side, channels, width).
        class_shares: released shares of the classes, (classes,), float64; they sum to 1.
        code_size: number of coordinates of a code.
        schema: public facts of the records that the generator makes.
        marginals: released marginals of the table's numbers, in the order of its columns; None for unchanged numbers.
    """

    weights: tuple[np.ndarray, ...]
    class_shares: np.ndarray
    code_size: int
    schema: Any
    marginals: Marginals | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays for an .npz file; the schema is stored separately."""
        layers = {f"weights_{i}": w for i, w in enumerate(self.weights)}
        if self.marginals is not None:
            layers |= {"marginals_own": self.marginals.own, "marginals_shares": self.marginals.shares}
        return {"class_shares": self.class_shares, "code_size": np.array(self.code_size, np.int64), **layers}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], schema: Any) -> Self:
        """Returns the generator of `to_arrays`, bit for bit.

        Raises:
            ValueError: missing arrays, or arrays that do not fit together or the schema.
        """
        try:
            shares, code_size = arrays["class_shares"], arrays["code_size"]
            marginals = None
            if "marginals_own" in arrays:
                marginals = Marginals(arrays["marginals_own"], arrays["marginals_shares"])
            weights = tuple(arrays[f"weights_{i}"] for i in range(len(arrays) - 2 - 2 * (marginals is not None)))
        except KeyError:
            raise ValueError("Expected class_shares, code_size and weights_0, weights_1, ... of a generator.") from None
        classes = len(schema.classes)
        if (shares.dtype, shares.shape, code_size.dtype, code_size.shape) != (np.float64, (classes,), np.int64, ()):
            raise ValueError(f"Expected class_shares of {classes} classes and code_size of a generator.")
        if not (shares.min() >= 0 and abs(shares.sum() - 1) < 1e-6):
            raise ValueError("Expected class_shares of a generator that are at least 0 and sum to 1.")
        if [w.shape for w in weights] not in _weight_shapes(weights, int(code_size) + classes, schema):
            raise ValueError(f"Expected a generator of {classes} classes and {schema.dimension} coordinates.")
        if not all(w.dtype == np.float32 and np.isfinite(w).all() for w in weights):
            raise ValueError("Expected finite weights of a generator in single precision.")
        if marginals is not None and not _are_marginals(marginals, schema):
            raise ValueError(
                "Expected marginals of a generator: quantiles in [-1, 1] and shares of each of its numbers."
            )
        return cls(weights, shares, int(code_size), schema, marginals)


def _are_marginals(marginals: Marginals, schema: Any) -> bool:
    if not isinstance(schema, TableSchema):
        return False
    (own, shares), k = marginals, len(numbers_of(schema)[0])
    if (own.shape, shares.shape) != ((k, LEVELS), (k, BINS)) or {own.dtype, shares.dtype} != {np.dtype(np.float32)}:
        return False
    rise = (np.abs(own) <= 1).all() and (np.diff(own) >= 0).all()
    return bool(rise and (shares >= 0).all() and (np.abs(shares.sum(1) - 1) < 1e-4).all())


def _weight_shapes(weights: tuple[np.ndarray, ...], inputs: int, schema: Any) -> list[list[tuple[int, ...]]]:
    """Returns the possible shapes of all weights, given the widths of their hidden layers."""
    hidden = tuple(w.shape[1] for w in weights[::2] if w.ndim == 2)[:-1]
    allowed = [kernels_of(architecture, inputs, hidden, schema) for architecture in GENERATORS]
    return [[shape for kernel in kernels for shape in (kernel, kernel[-1:])] for kernels in allowed]
