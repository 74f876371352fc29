"""Scores a synthetic set on held-out records: mean and standard deviation over nets trained on the same set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from dpdistill.evaluation.chunks import Chunks
from dpdistill.method import Progress, no_progress
from dpdistill.networks.training import (
    LARGE,
    MIXUP,
    MUON,
    PAPER,
    PLATEAU,
    QUICK,
    AfterStep,
    Classifier,
    Training,
    train_classifier,
)
from dpdistill.recipe import choices
from dpdistill.schema import Schema
from dpdistill.storage.records import Records
from dpdistill.storage.test_set import check_test_set

TRAININGS: dict[str, Training] = dict(zip(choices.TRAININGS, (PLATEAU, QUICK, MIXUP, MUON, PAPER, LARGE), strict=True))
UNEVEN = 3.0
MANY = 20_000
"""Number of records above which the default training is that of large sets: PLATEAU would make too few passes."""


def training_for(records: int, name: str | None = None) -> str:
    """Returns the name of the stated training, or the default for a number of records."""
    return name or ("large" if records > MANY else "plateau")


@dataclass(frozen=True)
class Score:
    """Accuracies in percent, one per net; their spread is over nets alone, not over noise.

    Args:
        accuracies: accuracy of each net.
        recalls: percentage of each class's test records that are named rightly, mean over nets, by class; classes
            without test records are left out.
        uneven: whether the largest class of the test set has more than UNEVEN times the records of the smallest.
    """

    accuracies: tuple[float, ...]
    recalls: Mapping[str, float] = field(default_factory=dict)
    uneven: bool = False

    @classmethod
    def of(cls, named: Sequence[np.ndarray], y: np.ndarray, classes: Sequence[str]) -> Score:
        """Returns the score of the class indices (n,) that each net names, for test records of the classes y (n,)."""
        right = np.stack([each == y for each in named])
        present, sizes = np.unique(y, return_counts=True)
        recalls = {classes[int(k)]: 100.0 * float(right[:, y == k].mean()) for k in present}
        return cls(tuple((100.0 * right.mean(1)).tolist()), recalls, bool(sizes.max() > UNEVEN * sizes.min()))

    @property
    def balanced(self) -> float:
        """Returns the mean of the recalls: the accuracy if all classes had equally many records."""
        return float(np.mean([*self.recalls.values()]))

    @property
    def mean(self) -> float:
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float:
        """Returns the sample standard deviation; 0 for a single net."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else 0.0

    def __str__(self) -> str:
        """Returns the mean, with the spread of more than one net, and for uneven classes the recalls in short."""
        text = f"{self.mean:.2f} ± {self.std:.2f} %" if len(self.accuracies) > 1 else f"{self.mean:.2f} %"
        if not self.uneven:
            return text
        lowest = min(self.recalls, key=lambda name: self.recalls[name])
        return f"{text}, balanced {self.balanced:.2f} %, lowest recall {self.recalls[lowest]:.2f} % of {lowest!r}"


def score_network(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    test: Records | TestSet,
    *,
    nets: int = 3,
    training: Training = QUICK,
    flip: bool = False,
    soft_labels: np.ndarray | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Score:
    """Returns the test accuracy of networks trained on synthetic records.

    Args:
        X: synthetic records to train on, in [-1, 1], (m, h, w, c).
        y: class indices, (m,).
        schema: schema of the synthetic set.
        test: records of the same shape and classes; at least one.
        nets: number of independent nets, >= 1.
        training: options of their training.
        flip: add mirror images to the augmentation: for photographs, never for digits.
        soft_labels: probabilities of the classes for each record, (m, classes), which replace y.
        seed: seed of the nets.
        progress: receives the number of steps done, for each net.

    Raises:
        DataError: a test set of another shape or other classes, or without records.
        ValueError: nets < 1.
    """
    training = training.with_flip() if flip else training
    Y = np.eye(len(schema.classes), dtype=np.float32)[y] if soft_labels is None else soft_labels
    return score_nets(
        lambda key, after_step: train_classifier(key, X, Y, training, after_step=after_step),
        schema, test, nets, seed, progress,
    )  # fmt: skip


def score_nets(
    train: Callable[[jax.Array, AfterStep], Classifier],
    schema: Schema,
    test: Records | TestSet,
    nets: int,
    seed: int,
    progress: Progress,
    kind: str = "network",
    keep: Callable[[Classifier], None] | None = None,
) -> Score:
    """Returns the test accuracy of networks that `train(key, after_step)` returns from their random keys.

    `keep` receives each network.

    Raises:
        DataError: a test set of another shape or other classes, or without records.
        ValueError: nets < 1.
    """
    if nets < 1:
        raise ValueError(f"Expected nets={nets} >= 1.")
    X, y = test_set(schema, test)
    named = []
    for k in range(nets):
        net = train(
            jax.random.fold_in(jax.random.key(seed), k), partial(progress, f"training {kind} {k + 1} of {nets}")
        )
        if keep is not None:
            keep(net)
        named.append(named_by(net, X))
    return Score.of(named, y, schema.classes)


class TestSet(NamedTuple):
    """Held-out records in [-1, 1], (n, h, w, c), and their classes, (n,); read once for all scores."""

    X: np.ndarray
    y: np.ndarray


def test_set(schema: Schema, test: Records | TestSet) -> TestSet:
    """Returns all test records with a known label, after checking that they fit a synthetic set.

    Raises:
        DataError: records of another shape or other classes, or no record with a known label.
    """
    if isinstance(test, TestSet):
        return test
    check_test_set(schema, test)
    return TestSet(*scaled(test))


def scaled(records: Records) -> tuple[np.ndarray, np.ndarray]:
    """Returns all records with a known label, in [-1, 1]."""
    return records.take(np.flatnonzero(records.y >= 0))


def named_by(classifier: Classifier, X: np.ndarray, chunk: int = 64) -> np.ndarray:
    """Returns the class of the largest logit, (n,), of records X (n, h, w, c) in [-1, 1]."""
    return np.concatenate([np.asarray(classifier(part))[:rows].argmax(1) for part, rows in Chunks(X, chunk)])
