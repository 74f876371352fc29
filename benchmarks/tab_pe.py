"""Private evolution of tables (Tab-PE), as its authors' example for adult sets it: a peer that needs no other program.

The first rows are uniform within the public bounds. Then follow thirty populations: every record votes for its nearest
row, the votes are released with Gaussian noise, and the rows with most votes and their variations are kept. Numbers are
scaled to [0, 1] and categories count a third. Each class evolves by itself, with a number of rows by its true share,
which the authors do not release either. For comparison only: the noise is NumPy's, so never share the rows.

Source: microsoft/DPSDA, example/tabular/adult.py: 1,000 rows; five populations drawn in proportion to their votes, each
row replaced by one variation; then the rows with most votes kept with three variations of each.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import bisect
from scipy.stats import norm

ROWS, POPULATIONS, DRAWN, VARIATIONS = 1_000, 30, 5, 3
FIRST_RATE, LAST_RATE, DECAY = 0.5, 0.01, 0.2
CATEGORY = 1 / 3
PIECE = 2_000


Rows = tuple[np.ndarray, np.ndarray]


def evolve(records: Rows, sizes: np.ndarray, n: int, epsilon: float, delta: float, seed: int) -> Rows:
    """Rows of one class that follow the votes of its records.

    Args:
        records: numbers in [0, 1], (m, numbers), and codes of categories, (m, categories).
        sizes: number of codes of each category.
        n: number of rows.
        epsilon, delta: budget of the votes of all populations together, add-or-remove.
        seed: seed of rows, variations and noise.

    Returns:
        Numbers (n, numbers) and codes (n, categories).
    """
    rng = np.random.default_rng(seed)
    deviation = np.sqrt(POPULATIONS - 1) / _signal(epsilon, delta)
    real, numbers = _embed(*records, sizes), rng.random((n, records[0].shape[1]))
    rows = chosen = numbers, np.stack([rng.integers(size, size=n) for size in sizes], 1)
    for population in range(1, POPULATIONS):
        votes = np.bincount(_nearest(real, _embed(*rows, sizes)), minlength=len(rows[0]))
        noisy = votes + rng.normal(scale=deviation, size=len(votes))
        rate = FIRST_RATE - (FIRST_RATE - LAST_RATE) * ((population - 1) / POPULATIONS) ** DECAY
        if population < DRAWN:
            weights = np.maximum(noisy, 0.0)
            best = rng.choice(len(votes), n, p=weights / weights.sum())
        else:
            best = np.argsort(-noisy)[:n]
        chosen = rows[0][best], rows[1][best]
        made = [_vary(chosen, sizes, rate, rng) for _ in range(1 if population < DRAWN else VARIATIONS)]
        made += [] if population < DRAWN else [chosen]
        rows = np.concatenate([m[0] for m in made]), np.concatenate([m[1] for m in made])
    return chosen


def _signal(epsilon: float, delta: float) -> float:
    """Sensitivity / deviation at which one Gaussian release is (epsilon, delta)-private."""

    def excess(mu: float) -> float:
        return norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - delta

    return bisect(excess, 1e-3, 50.0)  # pyright: ignore


def _vary(rows: Rows, sizes: np.ndarray, rate: float, rng: np.random.Generator) -> Rows:
    numbers = np.clip(rows[0] + rng.uniform(-rate, rate, rows[0].shape), 0.0, 1.0)
    others = np.stack([rng.integers(size, size=len(rows[1])) for size in sizes], 1)
    return numbers, np.where(rng.random(rows[1].shape) < rate, others, rows[1])


def _embed(numbers: np.ndarray, codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    one_hot = [CATEGORY * np.eye(size, dtype=np.float32)[column] for size, column in zip(sizes, codes.T, strict=True)]
    return np.concatenate([numbers.astype(np.float32), *one_hot], 1)


def _nearest(records: np.ndarray, rows: np.ndarray) -> np.ndarray:
    length = (rows**2).sum(1) / 2
    return np.concatenate(
        [np.argmin(length - records[i : i + PIECE] @ rows.T, 1) for i in range(0, len(records), PIECE)]
    )
