"""NDPDC: distribution matching, one step on the images for each query of a fresh random network."""

from __future__ import annotations

from dataclasses import dataclass

import optax

from dpdistill.method import release_field
from dpdistill.methods.matching import EmbeddingQuery, check_fields, check_share
from dpdistill.methods.stepwise import Stepwise


@dataclass(frozen=True, kw_only=True)
class NDPDC(Stepwise):
    """Distribution matching on noised signals, one image step a query.

        x <- x - lr grad sum_c || S_c / (q count_c) - mean_j clip phi_t(s_cj) ||^2 / C^2

    Guarantee: rounds releases of sensitivity C (add-or-remove); network t is public.
    Source: Zheng & Li, 2024 (Differentially private dataset condensation), algorithm 2; Adam in place of SGD.
    """

    per_class: int = release_field(10, "synthetic records a class")
    rounds: int = release_field(1000, "queries, each of a fresh random network")
    sampling_prob: float = release_field(0.05, "Poisson sampling probability of a query")
    width: int = release_field(64, "filters of the random networks")
    clip_norm: float = release_field(1.0, "L2 bound of one record's contribution")
    count_coordinate: float = release_field(0.1, "constant coordinate that counts records, as a share of the clip norm")
    learning_rate: float = release_field(0.05, "of Adam, decayed by a cosine")
    count_floor: float = release_field(1.0, "least number of records a class is taken to have")
    average: float = release_field(0.99, "exponential average of the images: they are what is handed out")

    title = "NDPDC: non-linear DP dataset condensation"
    references = (
        "Zheng, T., Li, B. (2024). Differentially Private Dataset Condensation.",
        "Zhao, B., Bilen, H. (2023). Dataset Condensation with Distribution Matching. WACV.",
    )
    private = True

    def __post_init__(self) -> None:
        check_fields(
            per_class=self.per_class,
            rounds=self.rounds,
            width=self.width,
            clip_norm=self.clip_norm,
            learning_rate=self.learning_rate,
            count_floor=self.count_floor,
        )
        check_share("count_coordinate", self.count_coordinate, low=1e-3)
        check_share("average", self.average)

    def query(self) -> EmbeddingQuery:
        return EmbeddingQuery(self.clip_norm, self.count_coordinate)

    def optimiser(self) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, self.rounds))
