"""Public images for methods that need general facts about images: generated, or named by the caller."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from dpdistill.public_images.pictures import draw_pictures, silhouettes

MOST = 4000
"""Largest number of public images that are kept; the others only enter the hash."""
MOST_DRAWN = 100_000
"""Largest number of generated images for a method."""


class ImageSource(ABC):
    """Images in [-1, 1] that no guarantee covers, since no person's privacy depends on them. Frozen and hashable."""

    @abstractmethod
    def images(self, shape: tuple[int, ...]) -> np.ndarray:
        """Returns the images, (n, *shape), float32.

        Raises:
            ValueError: the images have another shape, or are not available.
        """


@dataclass(frozen=True)
class _Program(ImageSource):
    """Parameters of procedurally generated images."""

    pictures: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("pictures", 2, MOST_DRAWN), ("seed", 0, 2**32 - 1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"Expected {name}={value!r} as a whole number from {least} to {most}.")


@dataclass(frozen=True)
class Drawn(_Program):
    """Procedurally generated images from a public seed.

    Args:
        pictures: number of images, 2 to MOST_DRAWN.
        seed: public seed, 0 to 2**32 - 1.

    Raises:
        ValueError: other numbers.
    """

    seed: int = 7

    def images(self, shape: tuple[int, ...]) -> np.ndarray:
        return _kept(draw_pictures, self.pictures, shape, self.seed)


@dataclass(frozen=True)
class Silhouettes(_Program):
    """Procedurally generated textured outlines on black from a public seed, for light objects on black.

    Args:
        pictures: number of images, 2 to MOST_DRAWN.
        seed: public seed, 0 to 2**32 - 1.

    Raises:
        ValueError: other numbers.
    """

    def images(self, shape: tuple[int, ...]) -> np.ndarray:
        return _kept(silhouettes, self.pictures, shape, self.seed)


@lru_cache(maxsize=4)
def _kept(draw: Callable[..., np.ndarray], pictures: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    return draw(pictures, shape, seed)


@dataclass(frozen=True)
class PublicImages(ImageSource):
    """Images that a person declares public. A recipe has their hash, their number and the name of that person.

    Args:
        sha256: hash of all images, in [-1, 1], in their order, and of the number of images in each chunk.
        pictures: number of the images.
        declared_by: the person who declares them public.
        X: the images that are used, (at most MOST, h, w, c); None in a recipe that was read from a file.
    """

    sha256: str
    pictures: int
    declared_by: str = "the caller"
    X: np.ndarray | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, chunks: Iterable[np.ndarray], declared_by: str = "the caller") -> PublicImages:
        """Returns public images from chunks (m, h, w, c) in [-1, 1]; the choice of kept ones does not depend on values.

        Raises:
            ValueError: fewer than two images, or values that are not finite.
        """
        digest, kept, count = hashlib.sha256(), [], 0
        for chunk in chunks:
            X = np.ascontiguousarray(chunk, "<f4")
            if not np.isfinite(X).all():
                raise ValueError("Expected public images of finite values.")
            digest.update(f"{X.shape}".encode() + X.tobytes())
            kept, count = [*kept, X], count + len(X)
        if count < 2:
            raise ValueError(f"Expected at least two public images; got {count}.")
        X = np.concatenate(kept)
        rows = np.sort(np.random.default_rng(0).permutation(count)[:MOST])
        return cls(digest.hexdigest(), count, declared_by, X[rows])

    @classmethod
    def of_records(cls, records: Any) -> PublicImages:
        """Returns all images of a data set (`Records`), in chunks of a thousand, so that the hash is always equal."""
        return cls.of(X[:valid] for X, _, valid in records.chunks(None, 1000))

    def images(self, shape: tuple[int, ...]) -> np.ndarray:
        if self.X is None:
            raise ValueError(f"Name the public images with sha256 {self.sha256} again: a recipe holds only their hash.")
        if self.X.shape[1:] != shape:
            raise ValueError(f"Expected public images of shape {shape}, as the records have; got {self.X.shape[1:]}.")
        return self.X
