"""Splits records into chunks of one shape, so that a program compiles once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpdistill.method import Progress

CHUNK = 50
"""Records per compiled call, whose scattering transforms fit a processor's cache."""


class Chunks:
    """Chunks of one shape, the last one padded: (chunk, number of valid rows)."""

    def __init__(self, X: np.ndarray, size: int) -> None:
        if size < 1:
            raise ValueError(f"Expected chunk={size} >= 1.")
        self._X, self._size = np.asarray(X, np.float32), size

    def __len__(self) -> int:
        return -(-len(self._X) // self._size)

    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        for start in range(0, len(self._X), self._size):
            part = self._X[start : start + self._size]
            missing = self._size - len(part)
            yield np.pad(part, ((0, missing), *[(0, 0)] * (part.ndim - 1)), mode="edge"), len(part)


def counted(progress: Progress, stage: str, total: int) -> Callable[[Any], np.ndarray]:
    """Returns a function that moves an array to the host, and reports the count of calls."""
    done = 0

    def tell(array: object) -> np.ndarray:
        nonlocal done
        array, done = np.asarray(array), done + 1
        progress(stage, done, total)
        return array

    progress(stage, 0, total)
    return tell
