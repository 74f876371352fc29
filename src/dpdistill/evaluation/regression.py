"""Scores a synthetic table with a number to predict: models trained on it, tested on real rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpdistill.evaluation.classifiers import without_warnings
from dpdistill.method import Distilled
from dpdistill.methods.row_numbers import predicted
from dpdistill.schema import DataError, TableSchema
from dpdistill.schema.table import from_share
from dpdistill.storage.records import Records

QUANTILES = (0.1, 0.5, 0.9)
METRICS = ("R2", "MAE", "RMSE", *(f"pinball {level:g}" for level in QUANTILES))
MOST_ROWS = 20_000
"""Maximum number of training rows of a model; larger tables are subsampled."""
TRIVIAL = "mean, quantiles"
"""Name of the predictor that ignores the other columns: mean and quantiles of the training rows' numbers."""
RELEASED_REGRESSION = "released regression"


@dataclass(frozen=True)
class RegressionScore:
    """Scores of one model.

    Args:
        name: name of the model.
        values: a value for each of METRICS, in the units of the number; NaN where the model does not predict it.
    """

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class RegressionScores:
    """Scores of models that predict a number, trained on one table; epsilon does not cover them.

    Args:
        target: name of the number.
        models: one score a model; the last is the predictor that ignores the other columns.
        training_rows: number of training rows.
        left_out: names of models whose package is not installed.
        released: score of the regression that was released with a synthetic table; None if none was.
    """

    target: str
    models: tuple[RegressionScore, ...]
    training_rows: int
    left_out: tuple[str, ...] = ()
    released: RegressionScore | None = None

    @property
    def text(self) -> str:
        """Returns the description to print with the scores."""
        sentences = [
            f"Number to predict: {self.target}. MAE, RMSE and pinball losses are in its units.",
            f"Each model was trained on {self.training_rows:,} rows. {TRIVIAL!r} ignores the other columns: a model "
            "that is not better has learned nothing.",
        ]
        if self.left_out:
            sentences.append(f"Left out, since not installed: {', '.join(self.left_out)}.")
        return " ".join(sentences)

    @property
    def header(self) -> tuple[str, ...]:
        """Returns the column names of rows()."""
        return ("model", *METRICS)

    def rows(self) -> list[tuple[str, ...]]:
        """Returns one row of texts per model, and of the released regression if there is one."""
        listed = self.models if self.released is None else (*self.models, self.released)
        return [(score.name, *map(_text, score.values)) for score in listed]

    @property
    def listed(self) -> str:
        """Returns header and rows as aligned text, with the description."""
        lines = [self.header, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join([*("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines), self.text])

    def to_json(self) -> dict[str, Any]:
        """Returns the scores for scores.json; values that a model does not have are null."""
        return {
            "number to predict": self.target,
            "text": self.text,
            "training rows": self.training_rows,
            "left out": list(self.left_out),
            **({} if self.released is None else {RELEASED_REGRESSION: _json(self.released)}),
            "models": {score.name: _json(score) for score in self.models},
        }


def score_numbers(training: Distilled | Records, test: Records, seed: int = 0) -> RegressionScores:
    """Returns the scores of models that predict a number, trained on a synthetic or real table and tested on real rows.

    Ridge regression (ridge 1), quantile regression by boosted trees at 0.1, 0.5 and 0.9, and XGBoost. Inputs are the
    encoded columns without the number. Synthetic rows are scored as published: decoded and encoded again.

    Args:
        training: a synthetic table with a number to predict, or private records.
        test: rows of the same columns; those without the number or with a value that is not finite are left out.
        seed: seed of the models and of the subset of at most 20,000 rows.

    Raises:
        DataError: a table without a number to predict, other columns, or no rows; scikit-learn is not installed.
    """
    schema = training.schema
    if not isinstance(schema, TableSchema) or schema.target_column is None:
        raise DataError(f"Expected a table with a number to predict; got {schema}.")
    if not isinstance(test.schema, TableSchema) or test.schema.columns != schema.columns:
        raise DataError(f"Expected test rows with the same columns as the training set ({schema}); got {test.schema}.")
    raw = schema.from_unit(training.X) if isinstance(training, Distilled) else _usable(training, schema, "training")
    real = _usable(test, schema, "test")
    if len(raw) > MOST_ROWS:
        raw = raw[np.sort(np.random.default_rng((seed, 0)).choice(len(raw), MOST_ROWS, replace=False))]
    (X, y), (X_t, y_t) = _parts(raw, schema), _parts(real, schema)
    found = [_score("ridge", y_t, _ridge(X, y, X_t))]
    lows = [_quantile(X, y, X_t, level, seed) for level in QUANTILES]
    found.append(_score("quantile trees", y_t, lows[1], lows))
    boosted = _xgboost(X, y, X_t, seed)
    if boosted is not None:
        found.append(_score("XGBoost", y_t, boosted))
    constant = [np.full(len(y_t), np.quantile(y, level)) for level in QUANTILES]
    found.append(_score(TRIVIAL, y_t, np.full(len(y_t), y.mean()), constant, median=constant[1]))
    released = None
    if isinstance(training, Distilled) and training.classifier is not None:
        released = _released(training.classifier, schema, real, y_t)
    return RegressionScores(
        schema.target or "", tuple(found), len(X), () if boosted is not None else ("XGBoost",), released
    )


def _released(points: np.ndarray, schema: TableSchema, real: np.ndarray, y_t: np.ndarray) -> RegressionScore:
    """Returns the score of a released regression: its mean, and quantiles of a normal distribution around it."""
    from scipy.stats import norm

    column = schema.columns[schema.target_column or 0]
    mean, spread = predicted(points, schema, schema.to_unit(real)).T

    def number(scaled: np.ndarray) -> np.ndarray:
        share = (np.clip(scaled, -1.0, 1.0) + 1.0) / 2.0
        return from_share(share, *(column.bounds or (0.0, 0.0)), column.scale == "log")

    quantiles = [number(mean + spread * norm.ppf(level)) for level in QUANTILES]
    return _score(RELEASED_REGRESSION, y_t, number(mean), quantiles)


def _usable(records: Records, schema: TableSchema, part: str) -> np.ndarray:
    """Returns raw rows, clamped to the bounds, whose values can be used."""
    X = np.asarray(records.X, np.float64)[np.asarray(records.y) >= 0]
    X = X[np.isfinite(schema.to_unit(X)).all(1)] if len(X) else X
    if not len(X):
        raise DataError(f"Expected at least one {part} row with the number to predict; got none.")
    at, low, high = schema.target_column, *(schema.columns[schema.target_column or 0].bounds or (0.0, 0.0))
    X[:, at] = np.clip(X[:, at], low, high)
    return X


def _parts(raw: np.ndarray, schema: TableSchema) -> tuple[np.ndarray, np.ndarray]:
    """Returns encoded inputs and the number of raw rows."""
    return schema.inputs.to_unit(np.delete(raw, schema.target_column or 0, 1)), raw[:, schema.target_column or 0]


def _ridge(X: np.ndarray, y: np.ndarray, X_t: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import Ridge

    return Ridge().fit(X, y).predict(X_t)


def _quantile(X: np.ndarray, y: np.ndarray, X_t: np.ndarray, level: float, seed: int) -> np.ndarray:
    from sklearn.ensemble import HistGradientBoostingRegressor

    settings: Any = {"loss": "quantile", "early_stopping": False}
    model = HistGradientBoostingRegressor(quantile=level, random_state=seed, **settings)
    return model.fit(X, y).predict(X_t)


def _xgboost(X: np.ndarray, y: np.ndarray, X_t: np.ndarray, seed: int) -> np.ndarray | None:
    """Returns the predictions of XGBoost, or None if it is not installed."""
    try:
        import xgboost
    except ModuleNotFoundError:
        return None
    with without_warnings():
        return xgboost.XGBRegressor(random_state=seed, n_estimators=100, max_depth=4).fit(X, y).predict(X_t)


def _score(
    name: str,
    y: np.ndarray,
    found: np.ndarray,
    quantiles: list[np.ndarray] | None = None,
    median: np.ndarray | None = None,
) -> RegressionScore:
    """Returns the scores of predictions (n,); the absolute error is that of `median`, if given."""
    error = y - found
    spread = float(np.square(y - y.mean()).sum())
    r2 = 1.0 - float(np.square(error).sum()) / spread if spread else math.nan
    absolute = float(np.abs(error if median is None else y - median).mean())
    losses = [math.nan] * len(QUANTILES)
    if quantiles is not None:
        losses = [pinball(y, q, level) for q, level in zip(quantiles, QUANTILES, strict=True)]
    return RegressionScore(name, (r2, absolute, math.sqrt(float(np.square(error).mean())), *losses))


def pinball(y: np.ndarray, found: np.ndarray, level: float) -> float:
    """Returns the mean of max(level (y - q), (level - 1) (y - q)) over numbers and their predicted quantiles q."""
    error = y - found
    return float(np.maximum(level * error, (level - 1.0) * error).mean())


def _text(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"


def _json(score: RegressionScore) -> dict[str, float | None]:
    return {
        name: None if math.isnan(value) else float(f"{value:.5g}")
        for name, value in zip(METRICS, score.values, strict=True)
    }
