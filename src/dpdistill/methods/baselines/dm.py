"""DM: distribution matching without privacy, the baseline of its family."""

from __future__ import annotations

from dpdistill.methods.descent import Descent
from dpdistill.methods.matching import PlainEmbeddingQuery
from dpdistill.methods.stepwise import Stepwise
from dpdistill.recipe.methods import dm as recipe


class DM(recipe.DM, Stepwise):
    """x <- x - lr grad sum_c || mean phi_t(real_c) - mean phi_t(s_c) ||^2, phi_t a fresh random network.

    Guarantee: none; only the non-private curator answers this query.
    Source: Zhao & Bilen, 2023 (Dataset condensation with distribution matching).
    """

    def query(self) -> PlainEmbeddingQuery:
        return PlainEmbeddingQuery()

    def descent(self) -> Descent:
        return Descent(self.learning_rate, self.rounds, self.average, momentum=self.momentum)
