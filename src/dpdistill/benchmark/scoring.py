"""Options of scoring the synthetic sets of a suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpdistill.recipe.choices import CLASSIFIERS, TEACHERS, TRAININGS
from dpdistill.recipe.kernel_names import kernel_named
from dpdistill.recipe.names import PICTURES, check_names, kinds_of
from dpdistill.recipe.networks import ARCHITECTURES
from dpdistill.schema import DataError
from dpdistill.schema.facts import STRICT

RECIPE = "recipe"
"""Name that stands for the recipe's kernel."""


@dataclass(frozen=True, kw_only=True)
class Student:
    """Options of training networks on a teacher's scores of images instead of the set.

    Args:
        pictures: kind of images, as in `dpdistill student --teacher`.
        number: number of images.
        taught_by: the released classifier, or krr: kernel ridge regression on the set, with the recipe's kernel.
        slopes: also learn the gradients of the scores.
        then_set: train the networks further on the set itself.
        epochs: number of epochs.
        architectures: architectures of the networks.
    """

    __pydantic_config__ = STRICT
    pictures: str
    number: int
    taught_by: str
    slopes: bool = False
    then_set: bool = False
    epochs: int = 4
    architectures: tuple[str, ...] = ("convnet",)

    def __post_init__(self) -> None:
        check_names("teacher", [self.taught_by], TEACHERS)
        check_names("architecture", self.architectures, ARCHITECTURES)
        if not kinds_of(self.pictures):
            raise DataError(f"Expected pictures among {', '.join(PICTURES)}, or several as a+b; got {self.pictures!r}.")
        if self.number < 1 or self.epochs < 1 or not self.architectures:
            raise DataError(
                f"Expected a student with number={self.number} >= 1, epochs={self.epochs} >= 1 and an architecture."
            )


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Options of scoring a synthetic set on held-out records.

    Args:
        training: training of networks, as in `dpdistill evaluate`.
        nets: number of independent networks per architecture.
        architectures: architectures of the networks; several for a table of transfer.
        kernels: kernels of kernel ridge regression; "recipe" for the recipe's, or scatternet where it has none.
        classifiers: table classifiers on the pixels of images.
        mode: mode of a table's scores.
        student: options of further networks that learn a teacher's scores of images.
    """

    __pydantic_config__ = STRICT
    training: str = "quick"
    nets: int = 1
    architectures: tuple[str, ...] = ("convnet",)
    kernels: tuple[str, ...] = (RECIPE,)
    classifiers: tuple[str, ...] = ()
    mode: Literal["honest", "paper"] = "honest"
    student: Student | None = None

    def __post_init__(self) -> None:
        if self.nets < 1:
            raise DataError(f"Expected nets={self.nets} >= 1.")
        check_names("training", [self.training], TRAININGS)
        check_names("architecture", self.architectures, ARCHITECTURES)
        check_names("classifier", self.classifiers, CLASSIFIERS)
        for name in self.kernels:
            if name != RECIPE:
                kernel_named(name)
