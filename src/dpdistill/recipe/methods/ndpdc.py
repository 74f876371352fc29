"""Recipe of NDPDC: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.recipe.fields import release_field
from dpdistill.recipe.methods.stepwise import Stepwise


@dataclass(frozen=True, kw_only=True)
class NDPDC(Stepwise):
    """Distribution matching on noised signals, one step per release."""

    per_class: int = release_field(10, "synthetic records a class", ge=1)
    rounds: int = release_field(1000, "queries, each of a fresh random network", ge=1)
    sampling_prob: float = release_field(0.05, "Poisson sampling probability of a query", gt=0, le=1)
    width: int = release_field(64, "filters of the random networks", ge=1)
    clip_norm: float = release_field(1.0, "L2 bound of one record's contribution", gt=0)
    count_coordinate: float = release_field(0.1, "share of the clip norm that counts records", ge=1e-3, lt=1)
    learning_rate: float = release_field(0.05, "of Adam, decayed by a cosine", gt=0)
    count_floor: float = release_field(1.0, "smallest number of records assumed per class", gt=0)
    average: float = release_field(0.99, "exponential average of the images, which is released", ge=0, lt=1)

    name = "ndpdc"
    title = "NDPDC: non-linear DP dataset condensation"
    references = (
        "Zheng, T., Li, B. (2024). Differentially Private Dataset Condensation.",
        "Zhao, B., Bilen, H. (2023). Dataset Condensation with Distribution Matching. WACV.",
    )
    code = "dpdistill.methods.baselines.ndpdc"
