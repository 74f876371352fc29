"""Cells: the records of a class in a few parts, by how a coarse view of them differs from the mean of their class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.cluster.vq import kmeans2

from dpdistill.methods.matching import EmbeddingQuery, PixelQuery, clip
from dpdistill.public_images.pictures import draw_pictures

VIEW = 7
"""Pixels along a side of the view that decides; scatter within a class is nearly all in it."""
REACH = 0.3
"""Length to which a record's difference from its class's mean is clipped, of that of a record of ones."""
NEAR = 0.1
"""First offsets, of the pictures' own: so near the mean that directions decide, and all parts have records."""
PICTURES = 2000


@dataclass(frozen=True)
class CellMeans(PixelQuery):
    """u = e_k (a, (x - mean_y) clipped to REACH of its bound), k the cell of the record.

    Params: cells, the means (classes, h, w, c) and offsets (classes, cells, v) that `cell_of` asks for.

    Guarantee:
        Sensitivity C = REACH sqrt(d) / sqrt(1 - (a/C)^2) under add-or-remove, max(2 REACH sqrt(d), sqrt(2) C) under
        replace-one: a record adds to one cell of one class.
    """

    @property
    def clip_norm(self) -> float:
        return REACH * super().clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        moved = clip((x - params["cells"]["means"][y]).ravel(), self.bound)
        return in_cell(self.beside_count(moved), params["cells"], x, y)


@dataclass(frozen=True)
class CellSignals(EmbeddingQuery):
    """e_k times the contribution of an EmbeddingQuery, k the cell of the record; params: those, and cells.

    Guarantee:
        That of an EmbeddingQuery: a record adds to one cell of one class. What cells are made of was released before.
    """

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return in_cell(super().contribution(params, x, y), params["cells"], x, y)


def in_cell(v: Array, cells: Any, x: Array, y: Array) -> Array:
    """A contribution (d,) of a record in the block of its cell, zeros in the others, (cells d,): of the same norm."""
    offsets = cells["offsets"]
    return jnp.where(jnp.arange(offsets.shape[1])[:, None] == cell_of(cells, x, y), v, 0.0).ravel()


def cell_of(cells: Any, x: Array, y: Array) -> Array:
    """The cell of one record (h, w, c) of class y: whose offset is nearest to the view of x - mean_y."""
    seen = view((x - cells["means"][y])[None])[0]
    return jnp.argmin(jnp.sum(jnp.square(seen - cells["offsets"][y]), -1))


def view(X: Array) -> Array:
    """Returns what of images (n, h, w, c) decides, (n, v): VIEW x VIEW mean colours."""
    n, h, w, c = X.shape
    return jax.image.resize(X, (n, min(h, VIEW), min(w, VIEW), c), "linear").reshape(n, -1)


@lru_cache(maxsize=8)
def first_offsets(shape: tuple[int, ...], cells: int) -> np.ndarray:
    """Nobody's offsets (cells, v): of the centres of drawn pictures from their mean."""
    with jax.ensure_compile_time_eval():
        seen = np.asarray(view(jnp.asarray(draw_pictures(PICTURES, shape, 0))), np.float64)
    centres, _ = kmeans2(seen - seen.mean(0), cells, iter=20, minit="++", rng=np.random.default_rng(0))
    return (NEAR * (centres - centres.mean(0))).astype(np.float32)


def shares(counts: np.ndarray, tiles: int) -> np.ndarray:
    """How many of a class's tiles stand for each cell, (classes, cells): by released counts, largest remainders first.

    Args:
        counts: of records, (classes, cells), >= 0, some of each class.
        tiles: of a class.
    """
    wanted = tiles * counts / counts.sum(1, keepdims=True)
    found = np.floor(wanted).astype(int)
    for row, left in zip(found, np.argsort(found - wanted, 1, kind="stable"), strict=True):
        row[left[: tiles - row.sum()]] += 1
    return found


def averaging(found: np.ndarray) -> np.ndarray:
    """Matrices (classes, cells, tiles) that bring a class's tiles, ordered by cell, to the means of its cells."""
    which = np.stack([np.repeat(np.arange(len(row)), row) for row in found])
    own = which[:, None, :] == np.arange(found.shape[1])[None, :, None]
    return (own / np.maximum(found[:, :, None], 1)).astype(np.float32)
