"""Recipe of TableRegression: its fields and rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.recipe.methods.dp_merf import DPMERF
from dpdistill.recipe.stages import cost_of
from dpdistill.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class TableRegression(Recipe):
    """A released ridge regression of a number in a table, and generated rows whose number it draws."""

    share: float = release_field(0.8, "share of the budget for the regression; the rest is for the rows", gt=0, lt=1)
    knots: int = release_field(3, "knots of a number, at equal distances between its bounds", ge=2, le=100)
    groups: int = release_field(16, "most groups of a column's categories, dealt by a public seed", ge=2, le=1000)
    weight: float = release_field(0.7, "length of the number to predict compared with the features", gt=0, le=100)
    ridge: float = finish_field(0.3, "ridge, in multiples of the norm of the noise of the second moments", gt=0, le=100)
    samples: int = finish_field(20_000, "synthetic rows to store", ge=1)
    steps: int = finish_field(DPMERF().steps, "steps of Adam on the generator of rows", ge=1)
    sample_seed: int = finish_field(0, "public seed of the generator's start, and of the rows and their numbers", ge=0)

    name = "table-regression"
    title = "Table regression: a ridge regression released from a table, and rows whose number it draws"
    references = (
        "Wang, Y.-X. (2018). Revisiting differentially private linear regression: optimal and adaptive prediction & "
        "estimation in unbounded domain. UAI.",
        *DPMERF.references,
    )
    origin = "package default, selected on held-out parts of the training rows of flights and four other tables"
    linear = True
    schemas = (TableSchema,)
    target = "only"
    code = "dpdistill.methods.table_regression"

    @property
    def generator(self) -> DPMERF:
        """Recipe of the part that makes rows."""
        return DPMERF()

    def plan(self) -> tuple[Stage, ...]:
        rows = self.generator.plan()
        return (Stage(1, weight=math.sqrt(cost_of(rows) * self.share / (1.0 - self.share))), *rows)
