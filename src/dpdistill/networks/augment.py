"""Differentiable Siamese augmentation (DSA) and partition-and-expand (PEA): public maps of one image."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dpdistill.recipe.choices import STRATEGIES


class Draw(NamedTuple):
    """One draw of DSA; unchosen augmentations are the identity."""

    affine: Array
    brightness: Array
    saturation: Array
    contrast: Array
    cut: Array


def draw_augmentation(key: Array, strategies: tuple[str, ...]) -> Draw:
    """Chooses one of the strategies and draws its parameters.

    Args:
        key: public random key.
        strategies: subset of STRATEGIES; empty for the identity.

    Source: Zhao & Bilen, 2021 (Dataset condensation with differentiable Siamese augmentation), ratios of its code.
    """
    unknown = set(strategies) - set(STRATEGIES)
    if unknown:
        raise ValueError(f"Expected augmentations among {', '.join(STRATEGIES)}; got {', '.join(sorted(unknown))}.")
    which, a, b, c, d = jax.random.split(key, 5)
    pick = jax.random.randint(which, (), 0, max(len(strategies), 1))

    def on(name: str) -> Array:
        return jnp.where(pick == strategies.index(name), 1.0, 0.0) if name in strategies else jnp.zeros(())

    shift = on("crop") * jax.random.uniform(a, (2,), minval=-0.25, maxval=0.25)
    zoom = 1.2 ** (on("scale") * jax.random.uniform(b, (2,), minval=-1.0, maxval=1.0))
    angle = on("rotate") * jnp.deg2rad(15.0) * jax.random.uniform(c, (), minval=-1.0, maxval=1.0)
    mirror = 1.0 - 2.0 * on("flip") * jax.random.bernoulli(d)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    affine = jnp.array(
        [[cos * zoom[0], -sin * zoom[1], shift[0]], [sin * zoom[0] * mirror, cos * zoom[1] * mirror, shift[1]]]
    )
    tone = jax.random.uniform(a, (3,))
    return Draw(
        affine,
        brightness=on("color") * (tone[0] - 0.5),
        saturation=1.0 + on("color") * (2.0 * tone[1] - 1.0),
        contrast=1.0 + on("color") * (tone[2] - 0.5),
        cut=jnp.where(on("cutout") > 0, jax.random.uniform(b, (2,)), jnp.full((2,), jnp.inf)),
    )


def resample(affine: Array, x: Array, fill: Array) -> Array:
    """Samples x (h, w, c) bilinearly at affine (2, 3) in coordinates of [-1, 1]; outside is fill (c,)."""
    h, w, _ = x.shape
    rows, cols = jnp.meshgrid(jnp.linspace(-1, 1, h), jnp.linspace(-1, 1, w), indexing="ij")
    points = jnp.stack([rows, cols, jnp.ones_like(rows)], -1) @ affine.T
    at = jnp.stack([(points[..., 0] + 1) * (h - 1) / 2, (points[..., 1] + 1) * (w - 1) / 2])
    low = jnp.floor(at)
    part = at - low
    out = jnp.zeros_like(x)
    for dr in (0, 1):
        for dc in (0, 1):
            r, c = low[0] + dr, low[1] + dc
            inside = (r >= 0) & (r < h) & (c >= 0) & (c < w)
            value = x[jnp.clip(r, 0, h - 1).astype(int), jnp.clip(c, 0, w - 1).astype(int)]
            weight = (part[0] if dr else 1 - part[0]) * (part[1] if dc else 1 - part[1])
            out = out + weight[..., None] * jnp.where(inside[..., None], value, fill)
    return out


def apply_augmentation(draw: Draw, x: Array) -> Array:
    """Returns one image (h, w, c) under one draw; cut-out and uncovered pixels take the image's mean colour."""
    h, w, _ = x.shape
    fill = x.mean((0, 1))
    x = resample(draw.affine, x, fill)
    x = x + draw.brightness
    grey = x.mean(-1, keepdims=True)
    x = (x - grey) * draw.saturation + grey
    middle = x.mean()
    x = (x - middle) * draw.contrast + middle
    rows, cols = (jnp.arange(h) + 0.5) / h, (jnp.arange(w) + 0.5) / w
    hole = (jnp.abs(rows - draw.cut[0]) < 0.25)[:, None] & (jnp.abs(cols - draw.cut[1]) < 0.25)[None, :]
    return jnp.where(hole[..., None], fill, x)


def augment_each(key: Array, X: Array, strategies: tuple[str, ...]) -> Array:
    """Returns every image of (n, h, w, c) under its own draw, for training a classifier."""
    if not strategies:
        return X
    draws = jax.vmap(lambda k: draw_augmentation(k, strategies))(jax.random.split(key, X.shape[0]))
    return jax.vmap(apply_augmentation)(draws, X)


def partition_expand(X: Array, parts: int = 2) -> Array:
    """Cuts each image in parts x parts tiles and upsamples each tile bilinearly to the image's size (PEA).

    Args:
        X: images, (n, h, w, c); tiles differ by a pixel if parts does not divide a side.
        parts: tiles a side, at most h and w; 1 returns X.

    Returns:
        (n parts^2, h, w, c); the tiles of one image follow one another.

    Source: Zhao et al., 2023 (Improved distribution matching for dataset condensation).
    """
    if parts == 1:
        return X
    n, h, w, c = X.shape
    rows, columns = _cuts(h, w, parts)
    tiles = [jax.image.resize(X[:, r, s], X.shape, "bilinear") for r in rows for s in columns]
    return jnp.stack(tiles, 1).reshape(n * parts * parts, h, w, c)


def mosaic(X: Array, parts: int = 2) -> Array:
    """Shrinks images to the parts x parts tiles that `partition_expand` enlarges.

    Args:
        X: images for the tiles, (n, parts^2, h, w, c).
        parts: tiles a side.

    Returns:
        (n, h, w, c).

    Raises:
        ValueError: images of fewer pixels than tiles.
    """
    if parts == 1:
        return X[:, 0]
    h, w, c = X.shape[2:]
    rows, columns = _cuts(h, w, parts)

    def small(i: int, j: int) -> Array:
        r, s, tile = rows[i], columns[j], X[:, i * parts + j]
        return jax.image.resize(tile, (len(X), r.stop - r.start, s.stop - s.start, c), "bilinear")

    return jnp.concatenate([jnp.concatenate([small(i, j) for j in range(parts)], 2) for i in range(parts)], 1)


def _cuts(h: int, w: int, parts: int) -> list[list[slice]]:
    """Returns slices of rows and columns for the tiles; sizes differ by a pixel if parts does not divide a side."""
    if min(h, w) < parts:
        raise ValueError(f"Expected images of at least {parts}x{parts} pixels for as many tiles; got {h}x{w}.")
    return [[slice(i * side // parts, (i + 1) * side // parts) for i in range(parts)] for side in (h, w)]
