"""Draws real records for comparison, and measures distances between synthetic and real records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpdistill.method import Distilled, Progress, no_progress
from dpdistill.schema import DataError
from dpdistill.storage.records import Records

ROWS = 1000
"""Number of records compared at once."""
NEAR = 0.01
"""Share of the held-out records that counts as strikingly near to a real record."""
SAME = 1e-5
"""Distances below which records are equal: the least one, and the factor of the root of their size."""
ROUNDED = 1e-6
"""Exceeds the rounding error of a stored number; two of an image's 256 levels differ by 8e-3."""


@dataclass(frozen=True)
class Nearness:
    """Distances to the nearest real record, in units of the encoding.

    Args:
        synthetic: distance of each synthetic record, (m,).
        held_out: distance of each held-out record, (n,), as a baseline.
        same: distance below which two records are equal.
    """

    synthetic: np.ndarray
    held_out: np.ndarray
    same: float = SAME

    @property
    def copies(self) -> tuple[float, float]:
        """Returns the shares of synthetic and held-out records that equal a real record."""
        return tuple(float((side < self.same).mean()) for side in (self.synthetic, self.held_out))  # type: ignore

    @property
    def strikingly(self) -> float:
        """Returns the share of synthetic records that are nearer than all but 1 % of the held-out records.

        If 1 % of the held-out records equal a real record, none can be nearer; `copies` shows that case.
        """
        return float((self.synthetic < np.quantile(self.held_out, NEAR)).mean())

    @property
    def text(self) -> str:
        """Returns one line with both medians and the shares of strikingly near records and copies."""
        return (
            f"Distance to the nearest real record, median: synthetic {np.median(self.synthetic):.3g}, held-out "
            f"{np.median(self.held_out):.3g}; {100 * self.strikingly:.1f} % of the synthetic records are nearer than "
            f"all but 1 % of the held-out ones. Copies of a real one: {100 * self.copies[0]:.1f} % of the synthetic, "
            f"{100 * self.copies[1]:.1f} % of the held-out."
        )


def random_real(records: Records, y: np.ndarray, seed: int = 0) -> Records:
    """Returns random real records, for each class as many as in y, or all if there are fewer.

    Args:
        records: the real records.
        y: class indices of the synthetic records, (m,).
        seed: seed of the draw.

    Raises:
        DataError: no real record of any class of y.
    """
    rng, rows = np.random.default_rng((seed, 3)), []
    for label, wanted in zip(*np.unique(y, return_counts=True), strict=True):
        there = np.flatnonzero(np.asarray(records.y) == label)
        rows.append(rng.choice(there, min(int(wanted), len(there)), replace=False))
    chosen = np.sort(np.concatenate(rows))
    if not len(chosen):
        raise DataError("Expected real records of the set's classes; got none.")
    return Records(records.X[chosen], records.y[chosen], records.schema)


def nearest_real(distilled: Distilled, real: Records, held_out: Records, progress: Progress = no_progress) -> Nearness:
    """Returns the distance of each synthetic and each held-out record to the nearest real record.

    A set with copies is nearer to the real records than held-out records are. Large distances do not prove privacy: a
    set far from all records may still reveal members.

    Args:
        distilled: the set.
        real: real records of the set.
        held_out: records of the same kind, not used for the set.
        progress: receives the percentage of the real records done.

    Raises:
        DataError: records of a different kind than the set, or no records.
    """

    def known(records: Records) -> np.ndarray:
        return np.flatnonzero(records.y >= 0)

    schema = distilled.schema
    for records in (real, held_out):
        if (records.schema.shape, records.schema.classes) != (schema.shape, schema.classes) or not known(records).size:
            raise DataError(f"Expected records as {schema}, at least one; got {records.schema}.")
    asked, rows = [_flat(distilled.train_set[0]), _flat(held_out.take(known(held_out))[0])], known(real)
    found = [np.full(len(A), np.inf) for A in asked]
    for i in range(0, len(rows), ROWS):
        B = _flat(real.take(rows[i : i + ROWS])[0])
        for best, A in zip(found, asked, strict=True):
            squared = np.square(A).sum(1)[:, None] - 2.0 * A @ B.T + np.square(B).sum(1)
            np.minimum(best, squared.min(1), out=best)
        progress("nearest real records", 100 * min(i + ROWS, len(rows)) // len(rows), 100)
    same = max(SAME, ROUNDED * asked[0].shape[1] ** 0.5)
    return Nearness(*(np.sqrt(np.maximum(best, 0.0)) for best in found), same=same)


def _flat(X: np.ndarray) -> np.ndarray:
    # In single precision, rounding errors of squares exceed the distances of nearly equal records.
    return np.nan_to_num(np.asarray(X, np.float64).reshape(len(X), -1))
