"""Scores with name, value in scores.json and printed sentence; and the networks to score."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

from dpdistill.evaluation.distances import Distances
from dpdistill.evaluation.regression import RegressionScores
from dpdistill.evaluation.score import Score
from dpdistill.evaluation.table_scores import TableScores
from dpdistill.evaluation.unlabelled import Resemblance
from dpdistill.evaluation.workload import WorkloadErrors
from dpdistill.method import Progress, no_progress
from dpdistill.networks.network import Network

Bars = Callable[[], AbstractContextManager[Progress]]
"""Type of a function that returns a context with a progress function, new for each score."""
Kind = Literal["network", "regression", "classifier", "generated", "pixels", "distance", "student", "table"]


def no_bars() -> AbstractContextManager[Progress]:
    """Returns a context with a silent progress function, as `Bars`."""
    return nullcontext(no_progress)


@dataclass(frozen=True)
class Scored:
    """Score of a synthetic set, or of real records.

    Args:
        kind: kind of the model: "network" and "generated" (networks trained on the set and on generated images),
            "regression" (KRR), "classifier" (the released one), "pixels", "student"; "distance"; "table".
        name: key in scores.json.
        value: value in scores.json; accuracies in percent.
        text: printed line.
        score: the accuracy of every net, both distances, or of a table: scores of every classifier, errors of counts.
    """

    kind: Kind
    name: str
    value: Any
    text: str
    score: Score | Distances | TableScores | RegressionScores | Resemblance | WorkloadErrors = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Nets:
    """Networks to train, one architecture after another.

    Args:
        architectures: architectures, each trained `number` times.
        number: number of independent nets per architecture, >= 1.
        flip: mirror images while training: for photographs.
        seed: seed of the nets.
    """

    architectures: tuple[Network, ...]
    number: int = 1
    flip: bool = False
    seed: int = 0


def image_scores(found: Iterable[Scored], nets: Nets, training: str) -> dict[str, Any]:
    """Returns the scores of a set of images for scores.json.

    Args:
        found: the scores.
        nets: trained networks.
        training: name of their training on the set.
    """
    scores: dict[str, Any] = {"nets": nets.number, "training": training} if nets.architectures else {}
    regressions, recalls = {}, {}
    for each in found:
        (regressions if each.kind == "regression" else scores)[each.name] = each.value
        if isinstance(each.score, Score):
            recalls[each.name] = {name: round(recall, 2) for name, recall in each.score.recalls.items()}
    by_class = {"recall by class, %": recalls} if recalls else {}
    return scores | {"KRR accuracy, %": regressions} | by_class
