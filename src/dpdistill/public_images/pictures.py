"""Generates images procedurally, as a substitute for photographs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

SIDE = 64
SMALL = 28
TILE = 128
MOST_KEPT = 2000
"""Number of cached scenes, 12 kB each, for repeated requests of the same number and seed."""
BLOCK = 1000
"""Scenes that are in float32 at a time, 49 MB."""
MANY, FEWEST = 2000, 100
"""Largest and smallest number of generated images from which a constant of features is computed."""


def pictures_for(shape: tuple[int, ...]) -> int:
    """Returns the number of generated images (h, w, c) for a mean or second moment: fewer of large ones.

    Up to 64 x 64 pixels it is 2,000; above, so many that all together have as many pixels, and at least 100.
    """
    return min(MANY, max(FEWEST, MANY * SIDE**2 // (shape[0] * shape[1])))


def draw_pictures(n: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Returns n generated images (n, h, w, c) in [-1, 1], from scenes in colour or from `greys`; no record is used.

    Args:
        n: number of images, >= 1.
        shape: (h, w, c); 3 channels are colours, otherwise all channels are equal.
        seed: public seed.
    """
    h, w, c = shape
    X = photographs(n + n % 2, seed)[:n] if c == 3 else greys(max(n, 3), seed)[:n]
    if X.shape[1:3] != (h, w):
        X = np.stack([_resized(image, h, w) for image in X])
    return X if c == 3 else np.repeat(X, c, 3)


def _resized(image: np.ndarray, h: int, w: int) -> np.ndarray:
    """Returns an image (side, side, channels) at another size."""
    from PIL import Image  # recipes name these images without generating them

    channels = [
        Image.fromarray(channel).resize((w, h), Image.Resampling.BILINEAR) for channel in np.moveaxis(image, 2, 0)
    ]
    return np.stack([np.asarray(channel) for channel in channels], 2)


def photographs(n: int, seed: int) -> np.ndarray:
    """Returns (n, 32, 32, 3) in [-1, 1] at 256 levels: centres of n / 2 colour scenes, and n / 2 others at half the
    scale.

    Args:
        n: number of images, even.
        seed: public seed.
    """
    levels = _scenes(n, seed)
    middles = _in_blocks(lambda X: X[:, 16:48, 16:48], levels[: n // 2])
    halves = _in_blocks(lambda X: X.reshape(-1, 32, 2, 32, 2, 3).mean((2, 4)), levels[n // 2 :])
    return np.concatenate([middles, halves])


def greys(n: int, seed: int) -> np.ndarray:
    """Returns (n, 28, 28, 1) in [-1, 1]: a third each of strokes, of silhouettes on black, and of scenes without
    colour.

    Args:
        n: number of images.
        seed: public seed.
    """
    rng = np.random.default_rng(seed)
    a, b = int(0.34 * n), int(0.33 * n)
    full = _in_blocks(lambda X: X.mean(3), _scenes(n - a, seed))
    low, middle = full.reshape(-1, 32, 2, 32, 2).mean((2, 4)), full[:, 16:48, 16:48]
    X = np.where((np.arange(n - a) % 2 == 0)[:, None, None], low, middle)[:, 2:30, 2:30].copy()
    for image in X[:b]:
        texture = (image - image.mean()) * rng.uniform(0, 1) + rng.uniform(-0.3, 0.8)
        image[:] = np.clip((np.clip(texture, -1, 1) + 1) * _silhouette(rng) - 1, -1, 1)
    X = np.concatenate([np.stack([_strokes(rng) for _ in range(a)]), X])[..., None]
    return X[rng.permutation(n)].astype(np.float32)


def silhouettes(n: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Returns n images (n, h, w, c) in [-1, 1], all channels equal: large outlines on black, many of them symmetrical.

    An outline contains an image of `greys`, whose darkest shade is its own.

    Args:
        n: number of images.
        shape: (h, w, c).
        seed: public seed.
    """
    (h, w, c), rng = shape, np.random.default_rng(seed)
    light, least = (greys(max(n, 3), seed)[:n] + 1) / 2, rng.uniform(0, 0.6, (n, 1, 1, 1))
    outlines = np.stack([_outline(rng) for _ in range(n)])[..., None]
    X = (2 * outlines * (least + (1 - least) * light) - 1).astype(np.float32)
    if X.shape[1:3] != (h, w):
        X = np.stack([_resized(image, h, w) for image in X])
    return np.repeat(X, c, 3)


def _outline(rng: np.random.Generator) -> np.ndarray:
    """Returns the cover (28, 28) of one to four superellipses around the middle; half of the covers are symmetrised."""
    rows, columns = np.mgrid[:SMALL, :SMALL]
    cover = np.zeros((SMALL, SMALL))
    for _ in range(rng.integers(1, 5)):
        y, x = rng.normal(SMALL / 2 - 0.5, 5, 2)
        length, width = np.exp(rng.uniform(np.log(2), np.log(14), 2))
        u, v = _turned(rows - y, columns - x, rng.choice([0, 0, np.pi / 2, rng.uniform(0, np.pi)]))
        p = rng.choice([2, 8])
        distance = (np.abs(u / length) ** p + np.abs(v / width) ** p) ** (1 / p)
        cover = np.maximum(cover, _inside(distance, min(length, width) * 2))
        if rng.uniform() < 0.5:
            cover = np.maximum(cover, cover[:, ::-1])
    return cover


def scenes(n: int, seed: int) -> np.ndarray:
    """Returns n images (n, 64, 64, 3) in [-1, 1] of overlapping leaves with their own outline, texture, light and blur.

    Args:
        n: number of images.
        seed: public seed.

    Source: after Lee, Mumford & Huang, 2001 (Occlusion models for natural images); outlines and textures are ours.
    """
    return _unit(_scenes(n, seed))


def _scenes(n: int, seed: int) -> np.ndarray:
    """Returns the images of `scenes` as 256 levels, cached: a quarter of the memory."""
    return (_kept if n <= MOST_KEPT else _levels)(n, seed)


def _unit(levels: np.ndarray) -> np.ndarray:
    return levels.astype(np.float32) / 127.5 - 1


def _in_blocks(function: Callable[[np.ndarray], np.ndarray], levels: np.ndarray) -> np.ndarray:
    """Returns function(images) of scenes, BLOCK at a time: a hundred thousand in float32 would need 5 GB."""
    starts = range(0, max(len(levels), 1), BLOCK)
    return np.concatenate([function(_unit(levels[i : i + BLOCK])) for i in starts])


def _levels(n: int, seed: int) -> np.ndarray:
    """Returns the images of `scenes` as 256 levels."""
    rng = np.random.default_rng(seed)
    textures, (rows, columns) = _textures(400, rng), np.mgrid[:SIDE, :SIDE].astype(np.float32)
    X = np.empty((n, SIDE, SIDE, 3), np.uint8)
    for picture in X:
        image = _fill(textures, rows, columns, rng).astype(np.float32)
        for _ in range(rng.integers(1, 14)):
            cover = _leaf(rows, columns, rng)
            image[:] = image * (1 - cover) + cover * _fill(textures, rows, columns, rng)
        picture[:] = np.moveaxis(np.clip((image * 0.7 + 1) * 127.5, 0, 255).astype(np.uint8), 0, 2)
    return X


_kept = lru_cache(maxsize=4)(_levels)


def _turned(y: np.ndarray, x: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
    return y * np.cos(angle) + x * np.sin(angle), x * np.cos(angle) - y * np.sin(angle)


def _inside(distance: np.ndarray, sharpness: float) -> np.ndarray:
    """Returns 1 for a distance below 1 and 0 above, with an edge of width 1 / sharpness."""
    return 1 / (1 + np.exp(np.clip((distance - 1) * sharpness, -20, 20)))


def _textures(n: int, rng: np.random.Generator) -> np.ndarray:
    """Returns noise of power spectra, oriented or not, of bands of frequencies, and gratings; mean 0, deviation 1."""
    rows, columns = np.mgrid[:TILE, :TILE]
    fy, fx = np.fft.fftfreq(TILE)[:, None], np.fft.fftfreq(TILE)[None]
    f = np.hypot(fx, fy)
    f[0, 0] = 1 / TILE
    out = np.empty((n, TILE, TILE), np.float32)
    for texture in out:
        angle, kind = rng.uniform(0, np.pi), rng.integers(4)
        amplitude, centre = f ** -rng.uniform(0.4, 2.2), np.exp(rng.uniform(np.log(0.03), np.log(0.35)))
        if kind == 1:
            amplitude = amplitude * np.exp(-rng.uniform(1, 6) * np.abs(_turned(fy, fx, angle)[0]) / f)
        if kind == 2:
            amplitude = np.exp(-(((f - centre) / (centre * rng.uniform(0.1, 0.5))) ** 2))
        z = np.fft.ifft2(np.fft.fft2(rng.normal(size=f.shape)) * amplitude).real
        if kind == 3:
            z = np.sin(2 * np.pi * centre * _turned(rows, columns, angle)[0] + 0.5 * z / z.std() * rng.uniform())
            z = np.tanh(5 * z) if rng.uniform() < 0.5 else z
        texture[:] = (z - z.mean()) / z.std()
    return out


def _fill(textures: np.ndarray, rows: np.ndarray, columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns (3, 64, 64): a colour, a texture in shades of another, and a light that falls from one side."""
    colour, texture = rng.uniform(-1, 1, 3) * rng.uniform(0.2, 1), textures[rng.integers(len(textures))]
    a, b = rng.integers(0, TILE - SIDE, 2)
    texture = texture[a : a + SIDE, b : b + SIDE]
    texture = texture.T if rng.uniform() < 0.5 else texture
    shade, strength = rng.normal(size=3) * 0.15 + rng.normal() * 0.25, rng.uniform() ** 2
    light = ((rows / SIDE - 0.5) * rng.normal() + (columns / SIDE - 0.5) * rng.normal()) * 0.5 * rng.uniform()
    # Colours are the first axis: numpy's innermost loops run along rows of pixels instead of three colours.
    return colour[:, None, None] + strength * texture * shade[:, None, None] + light


def _leaf(rows: np.ndarray, columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the cover (64, 64) of an ellipse, a rectangle, a flower or a triangle at a random place."""
    radius, aspect = SIDE * np.exp(rng.uniform(-2.8, -0.6)), rng.uniform(0.25, 1)
    along, across = _turned(rows - rng.uniform(0, SIDE), columns - rng.uniform(0, SIDE), rng.uniform(0, np.pi))
    u, v, kind = along / radius, across / (radius * aspect), rng.integers(4)
    if kind == 0:
        distance = np.hypot(u, v)
    elif kind == 1:
        distance = np.maximum(np.abs(u), np.abs(v))
    elif kind == 2:
        waves = rng.uniform(0.1, 0.5), int(rng.integers(2, 7)), rng.uniform(0, 6)
        ripples = rng.uniform(0, 0.2), int(rng.integers(5, 12)), rng.uniform(0, 6)
        angle = np.arctan2(v, u)
        outline = 1 + sum(size * np.cos(count * angle + phase) for size, count, phase in (waves, ripples))
        distance = np.hypot(u, v) / outline
    else:
        distance = np.maximum(np.maximum(-v, 0.87 * u + 0.5 * v), -0.87 * u + 0.5 * v) * 1.6
    return _inside(distance, radius * aspect * rng.choice([0.4, 1.0, 3.0]))


def _silhouette(rng: np.random.Generator) -> np.ndarray:
    """Returns the cover (28, 28) of one to three superellipses together, upright or turned."""
    rows, columns = np.mgrid[:SMALL, :SMALL]
    cover = np.zeros((SMALL, SMALL))
    for _ in range(rng.integers(1, 4)):
        angle = rng.uniform(0, np.pi) if rng.uniform() < 0.5 else 0.0
        u, v = _turned(rows - rng.uniform(8, 20), columns - rng.uniform(8, 20), angle)
        length, width, p = rng.uniform(3, 12), rng.uniform(1.5, 12), rng.choice([2, 4, 8])
        distance = (np.abs(u / length) ** p + np.abs(v / width) ** p) ** (1 / p)
        cover = np.maximum(cover, _inside(distance, min(length, width) * 2))
    return cover


def _strokes(rng: np.random.Generator) -> np.ndarray:
    """Returns (28, 28) in [-1, 1]: one to three bent strokes of a pen."""
    rows, columns = np.mgrid[:SMALL, :SMALL]
    ink, width = np.zeros((SMALL, SMALL)), rng.uniform(0.6, 1.8)
    for _ in range(rng.integers(1, 4)):
        place, angle, bend = rng.uniform(4, SMALL - 4, 2), rng.uniform(0, 2 * np.pi), rng.normal() * 0.25
        points = []
        for _ in range(rng.integers(5, 28)):
            points.append(place)
            place = np.clip(place + 0.9 * np.array([np.sin(angle), np.cos(angle)]), 3, SMALL - 4)
            angle += bend + rng.normal() * 0.1
        y, x = np.array(points).T
        distance = np.hypot(rows[..., None] - y, columns[..., None] - x).min(-1)
        ink = np.maximum(ink, _inside(distance - width + 1, 3.0))
    return ink * rng.uniform(0.8, 1) * 2 - 1
