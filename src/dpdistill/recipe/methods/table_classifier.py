"""Recipe of TableClassifier: its fields and rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.recipe.methods.dp_merf import DPMERF
from dpdistill.recipe.stages import cost_of
from dpdistill.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class TableClassifier(Recipe):
    """A released linear classifier of rows, and generated rows that it labels."""

    share: float = release_field(0.8, "share of the budget for the classifier; the rest is for the rows", gt=0, lt=1)
    sums: float = release_field(0.1, "part of the classifier's share for the classes' sums of features", gt=0, lt=1)
    knots: int = release_field(8, "knots of a number, at equal distances between its bounds", ge=2, le=100)
    rounds: int = release_field(60, "full-batch gradients of the classifier", ge=1)
    clip_norm: float = release_field(0.1, "L2 bound of one record's gradient; features have norm 1 at most", gt=0)
    pace: float = release_field(
        0.3, "length of all steps together, per record outside the largest class and unit of noise", gt=0
    )
    step: float = release_field(14.0, "largest norm of a step, decayed by a cosine", gt=0)
    momentum: float = release_field(0.9, "of the classifier's steps", ge=0, lt=1)
    samples: int = finish_field(20_000, "synthetic rows to store", ge=1)
    steps: int = finish_field(DPMERF().steps, "steps of Adam on the generator of rows", ge=1)
    sample_seed: int = finish_field(0, "public seed of the generator's start, and of the rows and their labels", ge=0)

    name = "table-classifier"
    title = "Table classifier: a classifier released from a table, and rows that it labels"
    references = (
        "Tramer, F., Boneh, D. (2021). Differentially Private Learning Needs Better Features (or Much More Data). "
        "ICLR.",
        *DPMERF.references,
    )
    origin = "package default, selected on held-out parts of the training rows of Adult and four other tables"
    linear = True
    schemas = (TableSchema,)
    code = "dpdistill.methods.table_classifier"

    @property
    def generator(self) -> DPMERF:
        """Recipe of the part that makes rows."""
        return DPMERF()

    def plan(self) -> tuple[Stage, ...]:
        rows = self.generator.plan()
        classifier = cost_of(rows) * self.share / (1.0 - self.share)
        sums, gradient = classifier * self.sums, classifier * (1.0 - self.sums) / self.rounds
        return (Stage(1, weight=math.sqrt(sums)), Stage(self.rounds, weight=math.sqrt(gradient)), *rows)

    @property
    def main_stage(self) -> int:
        return 1
