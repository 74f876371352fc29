"""Recipe of LDPDC: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, finish_field, release_field


@dataclass(frozen=True, kw_only=True)
class LDPDC(Recipe):
    """Noised means of random subsets of the records."""

    per_class: int = release_field(10, "synthetic records a class, each from one release", ge=1)
    sampling_prob: float = release_field(0.1, "share of the records used for one image", gt=0, le=1)
    count_coordinate: float = release_field(0.1, "share of the clip norm that counts records", ge=1e-3, lt=1)
    count_floor: float = finish_field(1.0, "smallest number of records assumed per class", gt=0)

    name = "ldpdc"
    title = "LDPDC: linear DP dataset condensation"
    references = ("Zheng, T., Li, B. (2024). Differentially Private Dataset Condensation.",)
    code = "dpdistill.methods.baselines.ldpdc"

    def plan(self) -> tuple[Stage, ...]:
        return (Stage(self.per_class, self.sampling_prob),)
