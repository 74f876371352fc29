"""Shapes of the kernels of generators, without JAX, which checks of generator files do not need."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from dpdistill.schema import Schema


class MapShapes(Protocol):
    """Shapes of the layers that double small maps to images."""

    @property
    def channels(self) -> int:
        """Returns the number of channels of the small maps."""
        ...

    def doublings(self, shape: tuple[int, ...]) -> int:
        """Returns how often sides double up to images of a shape, >= 1; images are cropped to the shape."""
        ...

    def kernels(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Returns the shapes of the kernels."""
        ...


@dataclass(frozen=True)
class ConvolutionShapes(MapShapes):
    """Convolutions, one after each doubling.

    Args:
        widths: numbers of channels before each doubling.
        side: side of the kernels, odd.
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
    """Residual blocks, one after each doubling, from maps of about 4 x 4; then a convolution.

    Args:
        channels: number of channels of all maps but the last.
        last: number of channels of the last block's maps.
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
    """Returns the shapes of the kernels of a generator, outputs last.

    Args:
        architecture: one of GENERATORS.
        inputs: number of coordinates of a code and its label.
        hidden: widths of the dense layers.
        schema: schema of the records; tables have only dense layers.
    """
    if architecture == "dense" or not isinstance(schema, Schema):
        return list(pairwise((inputs, *hidden, schema.dimension)))
    maps, shape = SHAPES[architecture], schema.shape
    rows, columns = start_of(maps, shape)
    return [*pairwise((inputs, *hidden, rows * columns * maps.channels)), *maps.kernels(shape)]


def start_of(maps: MapShapes, shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns the sides of the small maps, which double to at least the sides of an image."""
    rows, columns = (-(-side // 2 ** maps.doublings(shape)) for side in shape[:2])
    return rows, columns
