"""Fields and rounds that all recipes of generators share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.recipe.generators import Architecture
from dpdistill.recipe.generators import GeneratorSettings as Defaults
from dpdistill.recipe.stages import cost_of
from dpdistill.schema import Schema, TableSchema


@dataclass(frozen=True, kw_only=True)
class GeneratorRecipe(Recipe):
    """Mean embeddings that a generator follows; the last round releases histograms of numbers."""

    marginal_share: float = release_field(0.0, "share of the budget for histograms of numbers", ge=0, lt=1)
    count_coordinate: float = release_field(0.1, "share of the clip norm that counts records", ge=1e-3, lt=1)
    count_floor: float = finish_field(1.0, "smallest number of records assumed per class", gt=0)
    samples: int = finish_field(10_000, "synthetic records to store", ge=1)
    hidden: int = finish_field(Defaults.hidden, "width of the generator's hidden layers", ge=1)
    layers: int = finish_field(Defaults.layers, "hidden layers of the generator", ge=1)
    architecture: Architecture = finish_field(
        Defaults.architecture, "architecture of an image generator; table generators are dense"
    )
    code_size: int = finish_field(Defaults.code_size, "random coordinates per synthetic record", ge=1)
    batch: int = finish_field(Defaults.batch, "generated records a step, shared evenly by the classes", ge=1)
    steps: int = finish_field(Defaults.steps, "steps of Adam", ge=1)
    learning_rate: float = finish_field(Defaults.learning_rate, "of Adam, decayed by a cosine", gt=0)
    hard: bool = finish_field(Defaults.hard, "draw categories while training; false: use their probabilities")
    sample_seed: int = finish_field(0, "public seed of the generator's start, codes and stored sample", ge=0)

    origin = "package default, selected on a held-out part of Adult's training set"
    schemas = (Schema, TableSchema)
    least_classes = 1
    target = "also"

    def embeddings(self) -> tuple[Stage, ...]:
        """Returns the rounds of mean embeddings, all records in each; the first has weight 1, for S_c."""
        return (Stage(1),)

    def plan(self) -> tuple[Stage, ...]:
        if not self.marginal_share:
            return self.embeddings()
        return (*self.embeddings(), Stage(1, weight=math.sqrt(self._precision)))

    @property
    def _precision(self) -> float:
        """Returns the precision (1 / variance) of the last release's noise, divided by the first release's."""
        return cost_of(self.embeddings()) * self.marginal_share / (1.0 - self.marginal_share)

    @property
    def _rounds(self) -> int:
        """Number of rounds of mean embeddings."""
        return sum(stage.rounds for stage in self.embeddings())
