"""Recipe of DPHP: its fields and rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import finish_field, release_field
from dpdistill.recipe.methods.generator_method import GeneratorRecipe


@dataclass(frozen=True, kw_only=True)
class DPHP(GeneratorRecipe):
    """Mean embeddings with Hermite features."""

    order: int = release_field(20, "highest Hermite order of a number in the sum kernel", ge=1)
    rho: float = release_field(0.9, "Gaussian kernel of length sqrt((1 - rho^2) / (2 rho))", ge=1e-3, lt=1)
    product_dims: int = release_field(2, "columns of a product kernel", ge=1)
    product_rounds: int = release_field(20, "number of product kernels, each on other columns; 0: none", ge=0)
    product_share: float = release_field(0.8, "product kernels' share of the budget of kernels", ge=1e-3, lt=1)
    product_weight: float = finish_field(0.2, "weight of a product kernel relative to the sum kernel", gt=0)
    steps: int = finish_field(1000, "steps of Adam, one product kernel each", ge=1)
    learning_rate: float = finish_field(0.003, "of Adam, decayed by a cosine", gt=0)

    name = "dp-hp"
    title = "DP-HP: mean embeddings with Hermite features"
    references = (
        "Vinaroz, M., Charusaie, M.-A., Harder, F., Adamczewski, K., Park, M. (2022). Hermite Polynomial Features for "
        "Private Data Generation. ICML.",
    )
    code = "dpdistill.methods.dp_hp"

    def embeddings(self) -> tuple[Stage, ...]:
        if not self.product_rounds:
            return (Stage(1),)
        # The cost of a round is weight^2: rounds weight^2 / (1 + rounds weight^2) = product_share.
        weight = math.sqrt(self.product_share / (1.0 - self.product_share) / self.product_rounds)
        return (Stage(1), Stage(self.product_rounds, 1.0, weight))
