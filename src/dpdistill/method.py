"""The contract that every distiller signs, and what a distiller hands out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpdistill.query import Array, Params, Query, Release, Stage, State
from dpdistill.schema import AnySchema

Progress = Callable[[str, int, int], None]
"""progress(stage, done, total): counts rounds or steps of public loops, never records."""


@dataclass(frozen=True, eq=False)
class Distilled:
    """A synthetic set.

    Args:
        X: stored records in [-1, 1] of the schema's shape, (m, ...), float32.
        y: class indices, (m,), int32.
        schema: public facts of the data set it stands for.
        training: (X, y) to train on when it differs from what is stored (partition and expand), else None.
        targets: regression targets of the records when they were learned, (m, classes), float32; None stands for
            one-hot minus 1 / classes of y.
        classifier: a linear classifier on the features phi of the recipe's kernel, if one was released, (d, classes),
            float32: scores = phi(X) classifier.
        generator: what made the records, where it can make more at no further cost.
    """

    X: np.ndarray
    y: np.ndarray
    schema: AnySchema
    training: tuple[np.ndarray, np.ndarray] | None = None
    targets: np.ndarray | None = None
    classifier: np.ndarray | None = None
    generator: Any = None


@runtime_checkable
class Method(Protocol):
    """A distiller: a frozen dataclass whose fields are the recipe. All of it is post-processing of releases."""

    def plan(self) -> tuple[Stage, ...]:
        """The rounds it promises, before any record is read."""
        ...

    def init(self, key: Array, schema: AnySchema, public: np.ndarray | None = None) -> State:
        """The state before the first round: a pytree of arrays."""
        ...

    def ask(self, state: State) -> tuple[Query, Params]:
        """The next query and its parameters (a pytree of arrays); in all rounds a LinearQuery, or in none."""
        ...

    def tell(self, state: State, release: Release) -> State:
        """The state after a release."""
        ...

    def finish(self, state: State, schema: AnySchema, progress: Progress = ...) -> Distilled:
        """The synthetic set from what was released; free, as often as wished."""
        ...


def no_progress(stage: str, done: int, total: int) -> None:
    """A silent Progress."""


def finish_field(default: Any, help: str) -> Any:
    """A recipe field that only `finish` reads: it may change when paid releases are used again."""
    return field(default=default, metadata={"help": help, "finish": True})


def release_field(default: Any, help: str) -> Any:
    """A recipe field that shapes the releases: it is fixed once they are paid."""
    return field(default=default, metadata={"help": help, "finish": False})


def to_json(value: Any) -> Any:
    """A recipe field as JSON has it: a dataclass as {"kind": its class, field: value, ...}, a tuple as a list.

    Example:
        >>> to_json(Stage(2))
        {'kind': 'Stage', 'rounds': 2, 'sampling_prob': 1.0, 'weight': 1.0}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **{f.name: to_json(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value
