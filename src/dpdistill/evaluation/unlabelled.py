"""Scores a synthetic table without a label: columns, pairs of columns, and a detector of synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpdistill.evaluation.bins import bin_indices, bin_names
from dpdistill.evaluation.workload import WorkloadCounts, rows_of
from dpdistill.method import Distilled
from dpdistill.storage.records import Records

MOST_ROWS = 10_000
"""Most rows of each side for the detector."""
LEAST_ROWS = 30
"""Rows of each side below which no detector is trained."""


@dataclass(frozen=True)
class Resemblance:
    """Distances of a synthetic table without a label from real rows; epsilon does not cover them.

    Args:
        columns: total variation distance of each column by its name, in [0, 1].
        pairs: mean total variation distance of pairs of columns, in [0, 1]; None for a single column.
        detector: area under the ROC curve of logistic regression and boosted trees that tell synthetic rows from real
            ones, on rows they were not trained on: 0.5 if they cannot. None with few rows.
        rows: numbers of synthetic and real rows.
    """

    columns: dict[str, float]
    pairs: float | None
    detector: dict[str, float] | None
    rows: tuple[int, int]

    @property
    def mean(self) -> float:
        """Returns the mean distance of the columns."""
        return float(np.mean([*self.columns.values()]))

    @property
    def listed(self) -> str:
        """Returns the lines to print."""
        worst = max(self.columns, key=self.columns.__getitem__)
        lines = [
            f"Distance of columns from the test rows (total variation): mean {self.mean:.3f}, largest "
            f"{self.columns[worst]:.3f} ({worst}).",
            *([] if self.pairs is None else [f"Distance of pairs of columns: mean {self.pairs:.3f}."]),
        ]
        if self.detector is not None:
            found = ", ".join(f"{value:.3f} by {name}" for name, value in self.detector.items())
            lines.append(f"Detector of synthetic rows, ROC (0.5: not told apart, 1: always): {found}.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Returns the distances for scores.json."""
        return {
            "mean distance of columns": round(self.mean, 4),
            "mean distance of pairs": None if self.pairs is None else round(self.pairs, 4),
            "detector ROC": self.detector and {name: round(value, 4) for name, value in self.detector.items()},
            "distance of columns": {name: round(value, 4) for name, value in self.columns.items()},
        }


def score_unlabelled(distilled: Distilled, test: Records, seed: int = 0) -> Resemblance:
    """Returns the distances of a synthetic table without a label from real rows.

    Numbers fall into 20 equal bins of their encoding; each category and a missing value are further bins. Synthetic
    rows are scored as published: decoded, with all constraints, and encoded again.

    Args:
        distilled: a synthetic table.
        test: real rows of the same columns; those with a value that is not finite are left out.
        seed: seed of the rows and models of the detector.

    Raises:
        DataError: other columns, or no rows.
    """
    schema, (made, _), (real, _) = rows_of(distilled, test)
    sizes = [len(bin_names(column)) for column in schema.columns]
    counted = [WorkloadCounts(sizes, most_columns=2) for _ in (made, real)]
    for counts, U in zip(counted, (made, real), strict=True):
        counts.add(bin_indices(U, schema))
    distances = counted[0].distances(counted[1])
    columns = {column.name: distances[(i,)] for i, column in enumerate(schema.columns)}
    pairs = [distance for table, distance in distances.items() if len(table) == 2]
    mean = float(np.mean(pairs)) if pairs else None
    return Resemblance(columns, mean, _detector(made, real, seed), (len(made), len(real)))


def _detector(made: np.ndarray, real: np.ndarray, seed: int) -> dict[str, float] | None:
    """Returns the ROC of classifiers of real against synthetic rows, equally many of each, on a third of the rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    n, rng = min(len(made), len(real), MOST_ROWS), np.random.default_rng(seed)
    if n < LEAST_ROWS:
        return None
    X = np.concatenate([each[rng.permutation(len(each))[:n]] for each in (made, real)])
    y, held_out = np.repeat([0, 1], n), np.tile(np.arange(n) % 3 == 0, 2)
    models = {
        "logistic regression": LogisticRegression(max_iter=500),
        "boosted trees": HistGradientBoostingClassifier(random_state=seed),
    }
    found = {}
    for name, model in models.items():
        model.fit(X[~held_out], y[~held_out])
        found[name] = float(roc_auc_score(y[held_out], model.predict_proba(X[held_out])[:, 1]))
    return found
