"""Recipe of AIM: its fields and rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class AIM(Recipe):
    """Marginals chosen by earlier releases, and a graphical model of them."""

    bins: int = release_field(32, "bins of a number with more than 128 values; groups of a column's bins", ge=2, le=256)
    one_way: float = release_field(0.1, "share of the budget for the one-way marginals", gt=0, lt=0.5)
    coarse: float = release_field(0.2, "share of the budget for coarse tables of all pairs of columns", gt=0, lt=0.5)
    groups: int = release_field(6, "most groups of a column's bins in a coarse table", ge=2, le=32)
    rounds: int = release_field(3, "rounds of chosen marginals", ge=1, le=64)
    tables: int = release_field(12, "most marginals of a round", ge=1, le=256)
    model_size: float = release_field(10.0, "largest graphical model in megabytes", gt=0, le=10_000)
    iterations: int = finish_field(1000, "steps of mirror descent on the graphical model", ge=1)
    samples: int = finish_field(30_000, "synthetic rows to store", ge=1)
    sample_seed: int = finish_field(0, "public seed of the rows", ge=0)

    name = "aim"
    title = "AIM: adaptively chosen marginals and a graphical model"
    references = (
        "McKenna, R., Mullins, B., Sheldon, D., Miklau, G. (2022). AIM: An Adaptive and Iterative Mechanism for "
        "Differentially Private Synthetic Data. PVLDB.",
        "McKenna, R., Sheldon, D., Miklau, G. (2019). Graphical-model based estimation and inference for differential "
        "privacy. ICML.",
    )
    origin = "package default, selected on the training rows of Adult"
    linear = True
    schemas = (TableSchema,)
    target = "also"
    code = "dpdistill.methods.aim"

    def plan(self) -> tuple[Stage, ...]:
        shares = self.one_way, self.coarse, (1.0 - self.one_way - self.coarse) / self.rounds
        one, coarse, chosen = (math.sqrt(share) for share in shares)
        return (Stage(1, weight=one), Stage(1, weight=coarse), Stage(self.rounds, weight=chosen))

    @property
    def main_stage(self) -> int:
        return 2

    @property
    def cell_noise(self) -> float:
        return math.sqrt(self.tables)
