"""Cells (subclasses): divides a class by how a coarse view of its records differs from the class mean."""

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
"""Pixels per side of the coarse view, which holds nearly all scatter within a class."""
REACH = 0.3
"""Clip norm of a record's difference from its class mean, as a share of the norm of a record of ones."""
NEAR = 0.1
"""Factor on the first offsets: near the mean directions decide, so that all cells have records."""
PICTURES = 2000


@dataclass(frozen=True)
class CellMeans(PixelQuery):
    """Query u = e_k (a, (x - mean_y) clipped to REACH of its bound), k the cell of the record.

    Params: cells, with the means (classes, h, w, c) and offsets (classes, cells, v) for `cell_of`.

    Guarantee:
        Sensitivity C = REACH sqrt(d) / sqrt(1 - (a/C)^2) under add-or-remove, max(2 REACH sqrt(d), sqrt(2) C) under
        replace-one: a record adds to one cell of one class.
    """

    @property
    def clip_norm(self) -> float:
        return REACH * super().clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        moved = clip((x - params["cells"]["means"][y]).ravel(), self.bound)
        return place_in_cell(self.beside_count(moved), params["cells"], x, y)


@dataclass(frozen=True)
class CellSignals(EmbeddingQuery):
    """Query u = e_k times the contribution of an EmbeddingQuery, k the cell of the record.

    Guarantee:
        As for EmbeddingQuery: a record adds to one cell of one class. Cells are functions of earlier releases.
    """

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return place_in_cell(super().contribution(params, x, y), params["cells"], x, y)


def place_in_cell(v: Array, cells: Any, x: Array, y: Array) -> Array:
    """Returns a contribution (d,) in the block of the record's cell, with zeros elsewhere, (cells d,)."""
    offsets = cells["offsets"]
    return jnp.where(jnp.arange(offsets.shape[1])[:, None] == cell_of(cells, x, y), v, 0.0).ravel()


def cell_of(cells: Any, x: Array, y: Array) -> Array:
    """Returns the cell of one record (h, w, c) of class y: that with the offset nearest to the view of x - mean_y."""
    seen = view((x - cells["means"][y])[None])[0]
    return jnp.argmin(jnp.sum(jnp.square(seen - cells["offsets"][y]), -1))


def view(X: Array) -> Array:
    """Returns the coarse view of images (n, h, w, c), (n, v): VIEW x VIEW mean colours."""
    n, h, w, c = X.shape
    return jax.image.resize(X, (n, min(h, VIEW), min(w, VIEW), c), "linear").reshape(n, -1)


@lru_cache(maxsize=8)
def first_offsets(shape: tuple[int, ...], cells: int) -> np.ndarray:
    """Returns offsets (cells, v) of the cluster centres of generated images from their mean."""
    with jax.ensure_compile_time_eval():
        seen = np.asarray(view(jnp.asarray(draw_pictures(PICTURES, shape, 0))), np.float64)
    centres, _ = kmeans2(seen - seen.mean(0), cells, iter=20, minit="++", rng=np.random.default_rng(0))
    return (NEAR * (centres - centres.mean(0))).astype(np.float32)


def shares(counts: np.ndarray, tiles: int) -> np.ndarray:
    """Returns the number of tiles per cell, (classes, cells), by released counts and largest remainders.

    Args:
        counts: released counts, (classes, cells), >= 0, with a positive sum per class.
        tiles: number of tiles of a class.
    """
    wanted = tiles * counts / counts.sum(1, keepdims=True)
    found = np.floor(wanted).astype(int)
    for row, left in zip(found, np.argsort(found - wanted, 1, kind="stable"), strict=True):
        row[left[: tiles - row.sum()]] += 1
    return found


def averaging(found: np.ndarray) -> np.ndarray:
    """Returns matrices (classes, cells, tiles) that average a class's tiles, ordered by cell, into its cells."""
    which = np.stack([np.repeat(np.arange(len(row)), row) for row in found])
    own = which[:, None, :] == np.arange(found.shape[1])[None, :, None]
    return (own / np.maximum(found[:, :, None], 1)).astype(np.float32)
