"""Makes the twelve classifiers that score synthetic tables in papers, with current scikit-learn."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dpdistill.schema import DataError

SETTINGS: dict[str, dict[str, Any]] = {
    "logistic regression": {"solver": "lbfgs", "max_iter": 5000},
    "Gaussian naive Bayes": {},
    "Bernoulli naive Bayes": {"binarize": 0.5},
    "linear SVC": {"max_iter": 10_000, "tol": 1e-8, "loss": "hinge"},
    "decision tree": {"class_weight": "balanced"},
    "LDA": {"solver": "eigen", "tol": 1e-8, "shrinkage": 0.5},
    "AdaBoost": {"n_estimators": 1000, "learning_rate": 0.7},
    "bagging": {"max_samples": 0.1, "n_estimators": 20},
    "random forest": {"n_estimators": 100, "class_weight": "balanced"},
    "gradient boosting": {"subsample": 0.1, "n_estimators": 50},
    "MLP": {},
    "XGBoost": {"colsample_bytree": 0.1, "n_estimators": 50},
}
"""Settings of Vinaroz and Park (2023), table 16, for scikit-learn 0.24.2 and xgboost 0.90; others are defaults."""

COSTS: dict[str, float] = {
    "Gaussian naive Bayes": 0.02,
    "LDA": 0.04,
    "Bernoulli naive Bayes": 0.1,
    "decision tree": 0.13,
    "linear SVC": 0.17,
    "bagging": 0.22,
    "XGBoost": 1.2,
    "random forest": 1.6,
    "gradient boosting": 1.6,
    "MLP": 2.1,
    "logistic regression": 2.4,
    "AdaBoost": 30.0,
}
"""Seconds on one core for 4,000 rows of 50 numbers and seven classes, one run: order and weight of the classifiers'
progress; AdaBoost's is an estimate."""
FAST, FAST_COST = "fast", 5.0
"""Name for all classifiers up to this number of SECONDS."""

CLOSEST: dict[str, str] = {
    "logistic regression": "multi_class=auto is gone; it is what lbfgs does now.",
    "LDA": "n_components=9 is refused for fewer than ten classes; it changes no prediction and is left out.",
    "AdaBoost": "algorithm=SAMME.R is gone; SAMME, which votes with hard predictions, takes its place.",
    "XGBoost": "objective=multi:softprob for more than two classes; it is refused for two: binary:logistic.",
}
"""Replacements of removed settings."""


def chosen(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Returns names of classifiers in the order of SETTINGS; FAST means all fast ones.

    Args:
        names: names of classifiers, or FAST; None or empty for all available ones.

    Raises:
        DataError: an unknown name, or scikit-learn is not installed.
    """
    known, wanted = available(), set(names or ())
    if unknown := sorted(wanted - {*known, FAST}):
        raise DataError(f"Unknown classifier {', '.join(map(repr, unknown))}: choose among {', '.join(known)}, {FAST}.")
    wanted |= {name for name in known if FAST in wanted and COSTS[name] <= FAST_COST}
    return tuple(name for name in known if name in wanted or not wanted)


def available() -> tuple[str, ...]:
    """Returns the names of the available classifiers: all, or all but XGBoost.

    Raises:
        DataError: scikit-learn is not installed.
    """
    types = _types()
    return tuple(name for name in SETTINGS if name in types)


def make_classifier(name: str, *, seed: int, rows: int, plain: bool = False) -> Any:
    """Returns an unfitted classifier with the settings of SETTINGS.

    Args:
        name: one of available().
        seed: seed of its random numbers, if any.
        rows: number of rows to fit; a share of rows becomes a number >= 1.
        plain: use the library's defaults instead of SETTINGS.

    Example:
        >>> make_classifier("bagging", seed=0, rows=20).max_samples
        2
    """
    settings = {} if plain else dict(SETTINGS[name])
    if "max_samples" in settings:
        settings["max_samples"] = max(1, int(settings["max_samples"] * rows))
    if name == "XGBoost":
        settings |= {"n_jobs": 1, "random_state": seed}
    model = _types()[name](**settings)
    return model.set_params(random_state=seed) if "random_state" in model.get_params() else model


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Silences convergence warnings; not for threads, since Python has one list of warning filters."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def answers(
    model: Any, X: np.ndarray, y: np.ndarray, X_t: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns scores (n, classes) and predicted classes (n,) of test rows; None if fitting fails."""
    known, codes = np.unique(y, return_inverse=True)  # XGBoost requires 0, 1, ... without gaps
    if len(known) == 1:
        return None
    try:
        model.fit(X, codes)
    except (ValueError, np.linalg.LinAlgError):
        return None
    if hasattr(model, "predict_proba"):
        found = model.predict_proba(X_t)
    else:
        found = model.decision_function(X_t)
        found = np.stack([-found, found], 1) if found.ndim == 1 else found
    if not np.isfinite(found).all():
        return None
    scores = np.zeros((len(X_t), classes))
    scores[:, known] = found
    return scores, known[np.asarray(model.predict(X_t), np.intp)]


def _types() -> dict[str, Any]:
    """Returns classifier types by name, imported late because the import takes a second."""
    try:
        from sklearn import ensemble, linear_model, naive_bayes, neural_network, svm, tree
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    except ImportError:
        raise DataError("Scores of tables need scikit-learn: pip install 'dpdistill[tables]'.") from None
    types: dict[str, Any] = {
        "logistic regression": linear_model.LogisticRegression,
        "Gaussian naive Bayes": naive_bayes.GaussianNB,
        "Bernoulli naive Bayes": naive_bayes.BernoulliNB,
        "linear SVC": svm.LinearSVC,
        "decision tree": tree.DecisionTreeClassifier,
        "LDA": LinearDiscriminantAnalysis,
        "AdaBoost": ensemble.AdaBoostClassifier,
        "bagging": ensemble.BaggingClassifier,
        "random forest": ensemble.RandomForestClassifier,
        "gradient boosting": ensemble.GradientBoostingClassifier,
        "MLP": neural_network.MLPClassifier,
    }
    with contextlib.suppress(ImportError):
        from xgboost import XGBClassifier

        types["XGBoost"] = XGBClassifier
    return types
