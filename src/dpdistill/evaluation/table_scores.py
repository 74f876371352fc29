"""Scores of classifiers on the rows of a table: texts, tables and JSON of what `score_tables` finds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

RELEASED = "released classifier"
"""Name of the score of the classifier that was released with a table."""

MODES = {
    "honest": "Mode honest: probabilities, natural prevalence, fixed settings, all test rows.",
    "paper": (
        "Mode paper: too optimistic, only for comparison with published tables. ROC is the balanced accuracy of hard"
        " predictions and PRC their average precision; {keep:g} of the test set's majority class is kept, which raises"
        " PRC; the better of two settings a classifier was chosen on the test set itself."
    ),
}
"""Description of each mode, printed with every table of its scores."""


@dataclass(frozen=True)
class ClassifierScore:
    """Scores of one classifier, shares from 0 to 1.

    Args:
        name: name of the classifier, or of a mean.
        values: one value per metric; NaN if undefined on the test set.
        accuracy: recall of each class; NaN for a class without test rows.
        fitted: False if fitting failed and the most frequent class is always predicted.
    """

    name: str
    values: tuple[float, ...]
    accuracy: tuple[float, ...]
    fitted: bool = True


@dataclass(frozen=True)
class TableScores:
    """Scores of one training set by several classifiers, in one mode; scores of two modes never share a table.

    Args:
        mode: "honest" or "paper".
        metrics: ROC and PRC for two classes; weighted F1 for more, in mode honest macro one-vs-rest ROC too.
        classes: names of the classes, in the order of ClassifierScore.accuracy.
        classifiers: one score per classifier.
        training_rows: number of training rows of each classifier.
        keep: kept share of the majority class; 1 in mode honest.
        left_out: names of classifiers whose package is not installed.
        released: score of the classifier that was released with a synthetic table, in mode honest; else None.
        positive: positive class of ROC and PRC; None for more than two classes.
        rarer: whether the positive class was chosen as the rarer class of the test set.
    """

    mode: str
    metrics: tuple[str, ...]
    classes: tuple[str, ...]
    classifiers: tuple[ClassifierScore, ...]
    training_rows: int
    keep: float = 1.0
    left_out: tuple[str, ...] = ()
    released: ClassifierScore | None = None
    positive: str | None = None
    rarer: bool = False

    @property
    def mean(self) -> ClassifierScore:
        """Returns the mean over the classifiers."""
        values = np.mean([score.values for score in self.classifiers], 0)
        accuracy = np.mean([score.accuracy for score in self.classifiers], 0)
        return ClassifierScore(f"mean of {len(self.classifiers)}", tuple(values.tolist()), tuple(accuracy.tolist()))

    @property
    def best(self) -> ClassifierScore:
        """Returns the classifier with the largest first metric; chosen on the test set, hence slightly optimistic."""
        return max(self.classifiers, key=lambda score: -1.0 if math.isnan(score.values[0]) else score.values[0])

    @property
    def text(self) -> str:
        """Returns the description to print with every table of the scores."""
        sentences = [MODES[self.mode].format(keep=self.keep)]
        if self.positive is not None:
            chosen = ", the rarer one of the test set" if self.rarer else ""
            sentences.append(f"Positive class: {self.positive}{chosen}.")
        sentences.append(f"Each classifier was trained on {self.training_rows:,} rows.")
        if self.left_out:
            sentences.append(f"Left out, since not installed: {', '.join(self.left_out)}.")
        constant = [score.name for score in self.classifiers if not score.fitted]
        if constant:
            sentences.append(f"Could not be fitted, answer with one class: {', '.join(constant)}.")
        return " ".join(sentences)

    @property
    def header(self) -> tuple[str, ...]:
        """Returns the column names of rows(); the first name holds the mode."""
        return (f"classifier ({self.mode})", *self.metrics, *(f"accuracy of {name}" for name in self.classes))

    def rows(self) -> list[tuple[str, ...]]:
        """Returns one row of texts per classifier, the mean of several, and the released classifier if there is one."""
        listed = (*self.classifiers, self.mean) if len(self.classifiers) > 1 else self.classifiers
        listed = listed if self.released is None else (*listed, self.released)
        return [(s.name, *map(_text, s.values), *map(_text, s.accuracy)) for s in listed]

    @property
    def listed(self) -> str:
        """Returns header and rows as aligned text, with the description."""
        lines = [self.header, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*texts, self.text])

    def to_json(self) -> dict[str, Any]:
        """Returns the scores for scores.json; undefined values are null."""
        return {
            "mode": self.mode,
            "text": self.text,
            "positive class": self.positive,
            "training rows": self.training_rows,
            "kept share of the majority class": self.keep,
            "left out": list(self.left_out),
            "mean": self._json(self.mean),
            "best": {"classifier": self.best.name, **self._json(self.best)},
            **({} if self.released is None else {RELEASED: self._json(self.released)}),
            "classifiers": {score.name: {"fitted": score.fitted, **self._json(score)} for score in self.classifiers},
        }

    def _json(self, score: ClassifierScore) -> dict[str, Any]:
        accuracy = dict(zip(self.classes, map(_rounded, score.accuracy), strict=True))
        return {**dict(zip(self.metrics, map(_rounded, score.values), strict=True)), "accuracy": accuracy}


def _text(value: float) -> str:
    return "not defined" if math.isnan(value) else f"{value:.3f}"


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
