"""What real records reach in the place of synthetic ones, and how near synthetic records are to real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpdistill.method import Distilled, Progress, no_progress
from dpdistill.schema import DataError
from dpdistill.storage.records import Records

ROWS = 1000
"""Records that are compared at once."""
NEAR = 0.01
"""Share of the held-out records that is taken for strikingly near to a real one."""
SAME = 1e-5
"""Distance below which two records are the same, and that of each root of their numbers ROUNDED."""
ROUNDED = 1e-6
"""More than storing a number of a record moves it by; two levels of an image's 256 are 8e-3 apart."""


@dataclass(frozen=True)
class Nearness:
    """Distances to the nearest real record, of a unit that a record's encoding has.

    Args:
        synthetic: of each synthetic record, (m,).
        held_out: of each held-out record, (n,): what records of nobody in the set have.
        same: distance below which two records are the same.
    """

    synthetic: np.ndarray
    held_out: np.ndarray
    same: float = SAME

    @property
    def copies(self) -> tuple[float, float]:
        """Shares of the synthetic and of the held-out records that are a real one."""
        return tuple(float((side < self.same).mean()) for side in (self.synthetic, self.held_out))  # type: ignore

    @property
    def strikingly(self) -> float:
        """Share of the synthetic records that are nearer than all but 1 % of the held-out ones.

        Where so many held-out records are a real one, none is nearer: `copies` tells.
        """
        return float((self.synthetic < np.quantile(self.held_out, NEAR)).mean())

    @property
    def text(self) -> str:
        """Returns both medians, and the shares of records that are strikingly near or copies, as one line."""
        return (
            f"Distance to the nearest real record, median: synthetic {np.median(self.synthetic):.3g}, held-out "
            f"{np.median(self.held_out):.3g}; {100 * self.strikingly:.1f} % of the synthetic records are nearer than "
            f"all but 1 % of the held-out ones. Copies of a real one: {100 * self.copies[0]:.1f} % of the synthetic, "
            f"{100 * self.copies[1]:.1f} % of the held-out."
        )


def random_real(records: Records, y: np.ndarray, seed: int = 0) -> Records:
    """As many real records of each class as there are of y, at most all of a class, drawn at random.

    Args:
        records: real ones.
        y: class indices of the synthetic records, (m,).
        seed: which are drawn.

    Raises:
        DataError: no real record of any class of y.
    """
    rng, rows = np.random.default_rng((seed, 3)), []
    for label, wanted in zip(*np.unique(y, return_counts=True), strict=True):
        there = np.flatnonzero(np.asarray(records.y) == label)
        rows.append(rng.choice(there, min(int(wanted), len(there)), replace=False))
    chosen = np.sort(np.concatenate(rows))
    if not len(chosen):
        raise DataError("Expected real records of the classes of the set; there are none.")
    return Records(records.X[chosen], records.y[chosen], records.schema)


def nearest_real(distilled: Distilled, real: Records, held_out: Records, progress: Progress = no_progress) -> Nearness:
    """How near each synthetic and each held-out record is to the nearest real one.

    A set that copies records is nearer to them than records are that it has never seen. This proves no privacy: sets
    that are far from all records may still tell who was among them.

    Args:
        distilled: the set.
        real: records that it was made from.
        held_out: records of the same kind that it was not made from.
        progress: told the percentage of the real records done.

    Raises:
        DataError: records of another kind than the set's, or none.
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
    # In single precision the squares of equal records differ by more than the records do.
    return np.nan_to_num(np.asarray(X, np.float64).reshape(len(X), -1))
