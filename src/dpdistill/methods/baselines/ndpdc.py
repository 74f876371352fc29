"""NDPDC: distribution matching with one image step per query of a fresh random network."""

from __future__ import annotations

from dpdistill.methods.descent import Descent
from dpdistill.methods.matching import EmbeddingQuery
from dpdistill.methods.stepwise import Stepwise
from dpdistill.recipe.methods import ndpdc as recipe


class NDPDC(recipe.NDPDC, Stepwise):
    """Distribution matching on noised signals, with one image step per query.

        x <- x - lr grad sum_c || S_c / (q count_c) - mean_j clip phi_t(s_cj) ||^2 / C^2

    Guarantee: rounds releases of sensitivity C (add-or-remove); network t is public.
    Source: Zheng & Li, 2024 (Differentially private dataset condensation), algorithm 2; Adam instead of SGD.
    """

    def query(self) -> EmbeddingQuery:
        return EmbeddingQuery(self.clip_norm, self.count_coordinate)

    def descent(self) -> Descent:
        return Descent(self.learning_rate, self.rounds, self.average)
