"""NDPDC: distribution matching, one step on the images for each query of a fresh random network."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.method import release_field
from dpdistill.methods.descent import Descent
from dpdistill.methods.matching import EmbeddingQuery
from dpdistill.methods.stepwise import Stepwise


@dataclass(frozen=True, kw_only=True)
class NDPDC(Stepwise):
    """Distribution matching on noised signals, one image step a query.

        x <- x - lr grad sum_c || S_c / (q count_c) - mean_j clip phi_t(s_cj) ||^2 / C^2

    Guarantee: rounds releases of sensitivity C (add-or-remove); network t is public.
    Source: Zheng & Li, 2024 (Differentially private dataset condensation), algorithm 2; Adam in place of SGD.
    """

    per_class: int = release_field(10, "synthetic records a class", at_least=1)
    rounds: int = release_field(1000, "queries, each of a fresh random network", at_least=1)
    sampling_prob: float = release_field(0.05, "Poisson sampling probability of a query", above=0, at_most=1)
    width: int = release_field(64, "filters of the random networks", at_least=1)
    clip_norm: float = release_field(1.0, "L2 bound of one record's contribution", above=0)
    count_coordinate: float = release_field(0.1, "share of the clip norm that counts records", at_least=1e-3, below=1)
    learning_rate: float = release_field(0.05, "of Adam, decayed by a cosine", above=0)
    count_floor: float = release_field(1.0, "least number of records a class is taken to have", above=0)
    average: float = release_field(0.99, "exponential average of the images, which is handed out", at_least=0, below=1)

    name = "ndpdc"
    title = "NDPDC: non-linear DP dataset condensation"
    references = (
        "Zheng, T., Li, B. (2024). Differentially Private Dataset Condensation.",
        "Zhao, B., Bilen, H. (2023). Dataset Condensation with Distribution Matching. WACV.",
    )

    def query(self) -> EmbeddingQuery:
        return EmbeddingQuery(self.clip_norm, self.count_coordinate)

    def descent(self) -> Descent:
        return Descent(self.learning_rate, self.rounds, self.average)
