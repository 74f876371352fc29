"""Recipes of methods that take one step of the images after every release."""

from __future__ import annotations

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe


class Stepwise(Recipe):
    """Recipe with equal rounds."""

    rounds: int
    sampling_prob: float

    def plan(self) -> tuple[Stage, ...]:
        return (Stage(self.rounds, self.sampling_prob),)
