"""Distils scikit-learn's digits to one image per class, as a first result in seconds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.listener import SILENT, Listener

if TYPE_CHECKING:
    from dpdistill.run.result import Result

CLASSIFIER = "logistic regression"


@dataclass(frozen=True)
class Demo:
    """Result of `demo`, with the accuracy of a logistic regression trained on the synthetic digits.

    Args:
        path: folder of the result.
        result: result of the run.
        accuracy_with_guarantee: accuracy in percent after training on the synthetic digits.
        accuracy_without: accuracy in percent after training on the real digits.
        records: number of real digits.
    """

    path: Path
    result: Result
    accuracy_with_guarantee: float
    accuracy_without: float
    records: int


def demo(
    out: str | os.PathLike = "demo", epsilon: float = 1.0, *, overwrite: bool = False, listener: Listener = SILENT
) -> Demo:
    """Distils scikit-learn's digits to one image per class in seconds, and compares them with the real digits.

    Args:
        out: folder for the result.
        epsilon: epsilon of the budget, > 0; delta is 1e-5.
        overwrite: replace an earlier result.
        listener: receives progress.

    Returns:
        The result and two accuracies.

    Raises:
        DataError: a folder that exists already or cannot be written.
        ValueError: an invalid epsilon.
    """
    from dpdistill.run.output_folder import output_folder, owner_folder

    path, replaces = output_folder(out, overwrite)
    from dpdistill import run
    from dpdistill.accounting.schedule import Budget
    from dpdistill.evaluation.score import scaled
    from dpdistill.methods.baselines.ldpdc import LDPDC
    from dpdistill.sources.load import load

    budget, records, test = Budget(epsilon), load("digits:train"), load("digits:test")
    with listener.progress() as bar:
        paid: dict[str, Any] = {"run_dir": owner_folder(path), "label": path.name, "overwrite": overwrite}
        result = run.distill(records, LDPDC(per_class=1, sampling_prob=1.0), budget, progress=bar, **paid)
    result.save(path, replaces)
    made = result.distilled
    return Demo(path, result, accuracy_of(made.X, made.y, test), accuracy_of(*scaled(records), test), len(records))


def accuracy_of(X: Any, y: Any, test: Any) -> float:
    """Returns the accuracy on the test records in percent."""
    from dpdistill.evaluation import score_pixels

    return score_pixels(X, y, test.schema, test, name=CLASSIFIER).mean
