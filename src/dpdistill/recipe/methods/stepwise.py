"""Recipes whose every release is followed by one step of the images."""

from __future__ import annotations

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe


class Stepwise(Recipe):
    """Rounds that are all alike."""

    rounds: int
    sampling_prob: float

    def plan(self) -> tuple[Stage, ...]:
        return (Stage(self.rounds, self.sampling_prob),)
