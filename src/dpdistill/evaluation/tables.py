"""Scores a synthetic table by twelve classifiers tested on real rows, in an honest mode and in the papers' mode."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from dpdistill.evaluation.classifiers import COSTS, SETTINGS, answers, available, make_classifier, without_warnings
from dpdistill.evaluation.score import scaled
from dpdistill.evaluation.table_scores import MODES, RELEASED, ClassifierScore, TableScores
from dpdistill.method import Distilled, Progress, no_progress
from dpdistill.methods.row_labels import scores_of
from dpdistill.schema import DataError, TableSchema
from dpdistill.storage.records import Records

MOST_ROWS = 20_000
"""Maximum number of training rows of a classifier; larger tables are subsampled."""

Told = Callable[[ClassifierScore, tuple[str, ...], float], None]
"""Type of a callback (score, names of its values, share of work done)."""


def untold(score: ClassifierScore, metrics: tuple[str, ...], done: float) -> None:
    """Ignores a score, as a silent Told."""


def score_tables(
    training: Distilled | Records,
    test: Records,
    *,
    mode: str = "honest",
    keep: float = 1.0,
    seed: int = 0,
    names: Iterable[str] | None = None,
    positive: str | None = None,
    progress: Progress = no_progress,
    told: Told = untold,
) -> TableScores:
    """Returns the scores of twelve classifiers, trained on a synthetic or real table and tested on real rows.

    Scores of real records are the baseline, for the owner only: epsilon does not cover them.

    Synthetic rows are scored as published: decoded to values and categories and encoded again, so that categories are
    exactly one-hot. In mode honest, for two classes, ROC and PRC are the area under the ROC curve and
    the average precision of the positive class's probability (for the linear SVC, of its decision function); for more,
    F1 is that of the predictions, weighted by the classes' test rows, and ROC the mean of one class against the rest.
    A classifier that cannot be fitted (a set with one class, a singular covariance) answers with the most frequent
    class of the set.

    Mode paper does what published code does, for comparison with its tables only. It is too optimistic: hard
    predictions (ROC is their balanced accuracy), the majority class of the test set undersampled, which raises PRC,
    and of two settings a classifier (that of the papers, the package's defaults) the better one on the test set
    itself, for each metric.

    Args:
        training: a synthetic table, or private records; in mode paper, the same class is undersampled in records as in
            the test set.
        test: rows of the same columns and classes; those without a label or with a value that is not finite are left
            out; at least one other.
        mode: "honest" or "paper".
        keep: share of the test set's majority class that is kept, 0 < keep <= 1; 1 in mode honest.
        seed: seed of the classifiers, the subset of at most 20,000 rows and the undersampling.
        names: names of the classifiers, see `available`; None for all.
        positive: positive class of two; None for the rarer one of the test set, or the second of equally many.
        progress: receives the number of classifiers done.
        told: receives each score as soon as it is computed, with the share of work done.

    Raises:
        DataError: an unknown positive class, or one of more than two classes; rows that are no table's or do not fit
            the schema, or none that can be used; a test set with other columns or classes, or without rows; an unknown
            classifier; scikit-learn is not installed.
        ValueError: an unknown mode, or a keep that does not fit it.

    Source:
        Vinaroz and Park (2023), section 5.2 and table 16; the papers' way of scoring: Harder et al. (2021).
    """
    _check_mode(mode, keep)
    schema = training.schema
    if not isinstance(schema, TableSchema):
        raise DataError(f"Expected training records of a table; got {schema}.")
    X_t, y_t = _test_rows(schema, test)
    chosen = _positive(schema.classes, y_t, positive)
    majority = int(np.bincount(y_t).argmax())
    X_t, y_t = _undersampled(X_t, y_t, majority, keep, seed)
    if isinstance(training, Distilled):
        X, y = _decoded(training.X, training.y, schema)
    else:
        X, y = _undersampled(*_usable(training, "training"), majority, keep, seed)
    if len(X) > MOST_ROWS:
        rows = np.sort(np.random.default_rng((seed, 0)).choice(len(X), MOST_ROWS, replace=False))
        X, y = X[rows], y[rows]
    known = available()
    asked = known if names is None else tuple(name for name in known if name in set(names))
    if unknown := sorted({*(names or ())} - {*known}):
        raise DataError(f"Unknown classifier {', '.join(map(repr, unknown))}: choose among {', '.join(known)}.")

    task = _Task(X, y, X_t, y_t, len(schema.classes), mode, chosen)

    def score(name: str) -> ClassifierScore:
        return _best_of(name, task, seed)

    metrics, done, scores = _metrics(mode, len(schema.classes)), 0.0, {}
    progress("classifiers", 0, len(asked))
    for found in _side_by_side(score, asked):
        scores[found.name], done = found, done + COSTS[found.name]
        progress("classifiers", len(scores), len(asked))
        told(found, metrics, done / sum(COSTS[name] for name in asked))
    left_out = tuple(name for name in SETTINGS if name not in known)
    ordered, two = tuple(scores[name] for name in asked), len(schema.classes) == 2
    stated = {"positive": schema.classes[chosen] if two else None, "rarer": two and positive is None}
    released = None
    if isinstance(training, Distilled) and mode == "honest":
        released = _score_released(training, X_t, y_t, chosen)
    return TableScores(mode, metrics, schema.classes, ordered, len(X), keep, left_out, released, **stated)


def _score_released(distilled: Distilled, X_t: np.ndarray, y_t: np.ndarray, positive: int) -> ClassifierScore | None:
    """Returns the score of the classifier that was released with a table; None if none was."""
    schema = distilled.schema
    if distilled.classifier is None or not isinstance(schema, TableSchema):
        return None
    scores = softmax(scores_of(distilled.classifier, schema, X_t), 1)
    return _score(RELEASED, scores, scores.argmax(1), y_t, "honest", positive)


def _positive(classes: tuple[str, ...], y: np.ndarray, stated: str | None) -> int:
    """Returns the index of the positive class: the stated one, or the rarer one of two in the test set."""
    if stated is None:
        first, *others = np.bincount(y, minlength=2)
        return int(len(classes) == 2 and first >= others[0])
    if len(classes) != 2 or stated not in classes:
        wanted = f"{classes[0]!r} or {classes[1]!r}" if len(classes) == 2 else "no class: there are more than two"
        raise DataError(f"Expected as positive class {wanted}; got {stated!r}.")
    return classes.index(stated)


def _side_by_side(score: Callable[[str], ClassifierScore], names: Iterable[str]) -> Iterable[ClassifierScore]:
    """Yields scores as computed: the slowest classifier on one core, the others from fast to slow on the other cores.

    Threads are enough: the time goes into compiled code, which lets other threads run.
    """
    ordered = sorted(names, key=COSTS.__getitem__)
    if cores() < 2 or len(ordered) < 3:
        with without_warnings():
            for name in ordered:
                yield score(name)
        return
    with without_warnings(), ThreadPoolExecutor(cores()) as pool:
        waiting = [pool.submit(score, name) for name in (ordered[-1], *ordered[:-1])]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Task(NamedTuple):
    """Rows and labels to train on and to test on, number of classes, mode, and index of the positive class."""

    X: np.ndarray
    y: np.ndarray
    X_t: np.ndarray
    y_t: np.ndarray
    classes: int
    mode: str
    positive: int


def _best_of(name: str, task: _Task, seed: int) -> ClassifierScore:
    """Returns the score of a classifier; in mode paper the better of two settings for each metric."""
    plain = (False,) if task.mode == "honest" or not SETTINGS[name] else (False, True)
    variants = [make_classifier(name, seed=seed, rows=len(task.X), plain=each) for each in plain]
    tried = [_score_one(name, model, task) for model in variants]
    best = max(tried, key=lambda score: score.values[0])
    values = tuple(map(float, np.max([score.values for score in tried], 0)))
    return ClassifierScore(name, values, best.accuracy, best.fitted)


def _check_mode(mode: str, keep: float) -> None:
    if mode not in MODES:
        raise ValueError(f"Expected mode among {', '.join(MODES)}; got {mode!r}.")
    if not 0.0 < keep <= 1.0:
        raise ValueError(f"Expected 0 < keep={keep} <= 1.")
    if mode == "honest" and keep != 1.0:
        raise ValueError(f"Expected keep=1 in mode honest, which keeps the natural prevalence; got {keep}.")


def _decoded(X: np.ndarray, y: np.ndarray, schema: TableSchema) -> tuple[np.ndarray, np.ndarray]:
    """Returns synthetic rows, decoded and encoded again, with their labels."""
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim != 2 or X.shape[1:] != schema.shape or not len(X) or not np.isfinite(X).all():
        raise DataError(f"Expected finite encoded rows X of shape (m, {schema.dimension}), m >= 1; got {X.shape}.")
    if y.shape != X.shape[:1] or y.dtype.kind not in "ui" or not 0 <= y.min() <= y.max() < len(schema.classes):
        raise DataError(f"Expected {len(X)} class indices y from 0 to {len(schema.classes) - 1}.")
    return schema.to_unit(schema.from_unit(X)), y.astype(np.int64)


def _usable(records: Records, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns encoded rows with a known label and finite values, at least one."""
    if (records.y >= 0).any():
        X, y = scaled(records)
        finite = np.isfinite(X).all(1)
        if finite.any():
            return X[finite], y[finite]
    raise DataError(f"Expected at least one {part} row with a known label; got none.")


def _test_rows(schema: TableSchema, test: Records) -> tuple[np.ndarray, np.ndarray]:
    """Returns encoded test rows and their labels."""
    if not isinstance(test.schema, TableSchema) or test.schema.columns != schema.columns:
        raise DataError(f"Expected test rows with the same columns as the training set ({schema}); got {test.schema}.")
    if test.schema.classes != schema.classes:
        raise DataError("Expected test rows with the same classes, in the same order, as the training set.")
    return _usable(test, "test")


def _undersampled(X: np.ndarray, y: np.ndarray, label: int, keep: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows without a random share 1 - keep of one class, in order."""
    if keep == 1.0:
        return X, y
    rows = np.random.default_rng((seed, 1)).permutation(np.flatnonzero(y == label))
    rows = np.sort(np.concatenate([np.flatnonzero(y != label), rows[: max(1, int(keep * len(rows)))]]))
    return X[rows], y[rows]


def _metrics(mode: str, classes: int) -> tuple[str, ...]:
    if classes == 2:
        return "ROC", "PRC"
    return ("weighted F1", "macro ROC") if mode == "honest" else ("weighted F1",)


def _score_one(name: str, model: object, task: _Task) -> ClassifierScore:
    """Fits and scores one classifier."""
    found = answers(model, task.X, task.y, task.X_t, task.classes)
    scores, predicted = found or (None, np.full(len(task.X_t), np.bincount(task.y).argmax()))
    if scores is None or task.mode == "paper":
        scores = np.eye(task.classes)[predicted]
    score = _score(name, scores, predicted, task.y_t, task.mode, task.positive)
    return score if found is not None else replace(score, fitted=False)


def _score(
    name: str, scores: np.ndarray, predicted: np.ndarray, y_t: np.ndarray, mode: str, positive: int
) -> ClassifierScore:
    """Returns the score of scores (n, classes) and predicted classes (n,)."""
    from sklearn.metrics import f1_score

    classes = scores.shape[1]
    if classes == 2:
        values = tuple(measure(y_t == positive, scores[:, positive]) for measure in (_roc, _prc))
    else:
        f1 = float(f1_score(y_t, predicted, average="weighted", zero_division=0))  # type: ignore[arg-type]
        rocs = [_roc(y_t == k, scores[:, k]) for k in range(classes)]
        defined = [roc for roc in rocs if not math.isnan(roc)]
        values = (f1, float(np.mean(defined)) if defined else math.nan)[: len(_metrics(mode, classes))]
    hits = [predicted[y_t == k] == k for k in range(classes)]
    return ClassifierScore(name, values, tuple(float(hit.mean()) if len(hit) else math.nan for hit in hits))


def _roc(is_class: np.ndarray, scores: np.ndarray) -> float:
    """Returns the area under the ROC curve; NaN if all or no test rows are of the class."""
    from sklearn.metrics import roc_auc_score

    return math.nan if is_class.all() or not is_class.any() else float(roc_auc_score(is_class, scores))


def _prc(is_class: np.ndarray, scores: np.ndarray) -> float:
    """Returns the average precision; NaN if no test row is of the class."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(is_class, scores)) if is_class.any() else math.nan
