"""Shapes of the kernels of generators: known without JAX, so that a file of a generator can be checked without it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from dpdistill.schema import Schema


class MapShapes(Protocol):
    """Shapes of the layers between small maps and images; sides double on the way."""

    @property
    def channels(self) -> int:
        """Of the small maps."""
        ...

    def doublings(self, shape: tuple[int, ...]) -> int:
        """How often the sides double on the way to images of a shape, >= 1; what is beyond them is cut off."""
        ...

    def kernels(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Shapes of the kernels."""
        ...


@dataclass(frozen=True)
class ConvolutionShapes(MapShapes):
    """A convolution behind each doubling.

    Args:
        widths: channels before each doubling.
        side: of the kernels, odd.
    """

    widths: tuple[int, ...] = (32, 16)
    side: int = 5

    @property
    def channels(self) -> int:
        return self.widths[0]

    def doublings(self, shape: tuple[int, ...]) -> int:
        return len(self.widths)

    def kernels(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [(self.side, self.side, a, b) for a, b in pairwise((*self.widths, shape[2]))]


@dataclass(frozen=True)
class ResidualShapes(MapShapes):
    """Residual blocks, each behind a doubling, from maps of about 4 x 4; then a convolution.

    Args:
        channels: of all maps but the last.
        last: of the last block's maps.
    """

    channels: int = 64
    last: int = 32

    def doublings(self, shape: tuple[int, ...]) -> int:
        return max(1, (max(shape[:2]) - 1).bit_length() - 2)

    def kernels(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        widths = (*(self.channels,) * self.doublings(shape), self.last)
        blocks = [[(3, 3, a, b), (3, 3, b, b), (1, 1, a, b)] for a, b in pairwise(widths)]
        return [*(kernel for block in blocks for kernel in block), (3, 3, self.last, shape[2])]


SHAPES: dict[str, MapShapes] = {"convolutional": ConvolutionShapes(), "residual": ResidualShapes()}


def kernels_of(architecture: str, inputs: int, hidden: tuple[int, ...], schema: Any) -> list[tuple[int, ...]]:
    """Shapes of the kernels of a generator, outputs last.

    Args:
        architecture: one of GENERATORS.
        inputs: coordinates of a code and its label.
        hidden: widths of the dense layers.
        schema: of the records; a table has dense layers alone.
    """
    if architecture == "dense" or not isinstance(schema, Schema):
        return list(pairwise((inputs, *hidden, schema.dimension)))
    maps, shape = SHAPES[architecture], schema.shape
    rows, columns = start_of(maps, shape)
    return [*pairwise((inputs, *hidden, rows * columns * maps.channels)), *maps.kernels(shape)]


def start_of(maps: MapShapes, shape: tuple[int, ...]) -> tuple[int, int]:
    """Sides of the small maps: they grow to an image's, or beyond them."""
    rows, columns = (-(-side // 2 ** maps.doublings(shape)) for side in shape[:2])
    return rows, columns
