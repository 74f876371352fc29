"""The contract of every distiller: its queries, its state and its output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.query import Array, Params, Query, Release, State
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.recipe.parts import Part, implement
from dpdistill.schema import AnySchema

__all__ = ["Distilled", "Method", "Progress", "finish_field", "no_progress", "release_field"]

Progress = Callable[[str, int, int], None]
"""progress(stage, done, total): counts rounds or steps of public loops, never records."""
SCRATCH: ContextVar[Path | None] = ContextVar("scratch", default=None)
"""File of the run for public data of a method that are too large for memory; None for a temporary file."""


@contextmanager
def scratch(path: Path | None) -> Iterator[None]:
    """A context in which a method keeps large public data in this file: a resumed run finds them there."""
    token = SCRATCH.set(path)
    try:
        yield
    finally:
        SCRATCH.reset(token)


@dataclass(frozen=True, eq=False)
class Distilled:
    """A synthetic set.

    Args:
        X: stored records in [-1, 1] of the schema's shape, (m, ...), float32.
        y: class indices, (m,), int32.
        schema: public facts of the data set.
        training: (X, y) to train on if it differs from the stored records (partition and expand), else None.
        targets: regression targets of the records if they were learned, (m, classes), float32; None stands for
            one-hot minus 1 / classes of y.
        classifier: a linear classifier on the features phi of the recipe's kernel, if one was released, (d, classes),
            float32: scores = phi(X) classifier.
        encoder: those features phi, X (n, ...) in [-1, 1] -> (n, d); not stored, since the recipe names them.
        soft_labels: a probability of every class, float32, for each record that a network is trained on, those of
            `training` if given: the network learns these probabilities instead of y.
        generator: the generator of the records, if it can make more at no further cost.
        counts: released numbers of records that each candidate of the recipe names rightly, (candidates,), float64; the
            kernel is that of the largest number.
        accuracy: released numbers of records and of those that the classifier misses, and the standard deviations of
            the noise of both: a row per class and one for all together, (classes + 1, 4), float64.
        marginals: released counts of a table's cells (`ReleasedCounts`), if the method measured any.
    """

    X: np.ndarray
    y: np.ndarray
    schema: AnySchema
    training: tuple[np.ndarray, np.ndarray] | None = None
    targets: np.ndarray | None = None
    classifier: np.ndarray | None = None
    encoder: Any = None
    soft_labels: np.ndarray | None = None
    generator: Any = None
    counts: np.ndarray | None = None
    accuracy: np.ndarray | None = None
    marginals: Any = None

    @property
    def train_set(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (X, y) for training networks: the expanded records if the set has any."""
        return self.training or (self.X, self.y)

    @property
    def support_set(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (X, y) for kernels: the records for networks, or the records with learned targets."""
        return self.train_set if self.targets is None else (self.X, self.y)


def no_progress(stage: str, done: int, total: int) -> None:
    """Reports no progress."""


@dataclass(frozen=True, kw_only=True)
class Method(Recipe, ABC):
    """A distiller: a recipe (`Recipe`) with the code that asks, learns and finishes. It post-processes releases.

    The package's methods have their fields in `dpdistill.recipe.methods`; a caller's own method may state its fields
    here. Kernels, feature maps and public images that a recipe names are replaced by the computing classes.
    """

    def __post_init__(self) -> None:
        for each in fields(self):
            if isinstance(value := getattr(self, each.name), Part):
                object.__setattr__(self, each.name, implement(value))
        super().__post_init__()

    @abstractmethod
    def init(self, key: Array, schema: Any) -> State:
        """Returns the state before the first round: a pytree of arrays."""

    @abstractmethod
    def ask(self, state: State) -> tuple[Query, Params]:
        """Returns the next query and its parameters (a pytree of arrays)."""

    def at_round(self, state: object, t: int) -> Any:
        """Returns a state with the round number t, so that queries of later rounds can be checked before the run.

        Only the kinds of its queries, and the shapes and types of their parameters, equal those of a run.

        Raises:
            TypeError: a method with several stages neither counts its rounds in state["round"] nor has its own
                `at_round`.
        """
        if not t:
            return state
        if not isinstance(state, dict) or "round" not in state:
            raise TypeError(
                f"Expected {type(self).__name__}, which has several stages, to count its rounds as state['round'], or "
                "to override at_round."
            )
        return {**state, "round": state["round"] + t}

    @abstractmethod
    def tell(self, state: State, release: Release) -> State:
        """Returns the state after a release."""

    def example(self, state: State, value: np.ndarray, stddev: float, records: float) -> np.ndarray:
        """Returns an example of the next release, for a forecast of time and memory; no run uses it.

        Args:
            state: the state before the release.
            value: normal random numbers of the release's shape: the example, unless the work of later rounds depends on
                what is released.
            stddev: standard deviation of the noise.
            records: number of records.
        """
        return value

    def finish_bytes(self, schema: Any) -> int:
        """Returns a lower bound of the memory that `finish` needs besides the synthetic records and their kernel
        matrix.
        """
        return 0

    def disk_bytes(self, schema: Any) -> int:
        """Returns the bytes of public data that the method keeps in the file of the run (`scratch`)."""
        return 0

    @abstractmethod
    def finish(self, state: State, schema: Any, progress: Progress = no_progress) -> Distilled:
        """Returns the synthetic set from the releases; costs nothing and can be repeated."""
