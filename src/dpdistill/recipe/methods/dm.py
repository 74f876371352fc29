"""Recipe of DM: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.recipe.choices import Strategy
from dpdistill.recipe.fields import release_field
from dpdistill.recipe.methods.stepwise import Stepwise


@dataclass(frozen=True, kw_only=True)
class DM(Stepwise):
    """Distribution matching without privacy."""

    per_class: int = release_field(10, "synthetic records a class", ge=1)
    rounds: int = release_field(2000, "steps, each with a fresh random network; 20,000 in the paper", ge=1)
    sampling_prob: float = release_field(0.05, "share of the records used in a step", gt=0, le=1)
    width: int = release_field(128, "filters of the random networks", ge=1)
    strategies: tuple[Strategy, ...] = release_field((), "DSA strategies, drawn once per step for all images")
    learning_rate: float = release_field(1.0, "of SGD", gt=0)
    momentum: float = release_field(0.5, "of SGD", ge=0, lt=1)
    count_floor: float = release_field(1.0, "smallest number of records assumed per class", gt=0)
    average: float = release_field(0.0, "exponential average of the images; 0: the last ones", ge=0, lt=1)

    name = "dm"
    title = "DM: distribution matching (no privacy)"
    references = ("Zhao, B., Bilen, H. (2023). Dataset Condensation with Distribution Matching. WACV.",)
    private = False
    code = "dpdistill.methods.baselines.dm"
