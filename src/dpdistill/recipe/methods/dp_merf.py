"""Recipe of DPMERF: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.recipe.fields import release_field
from dpdistill.recipe.methods.generator_method import GeneratorRecipe


@dataclass(frozen=True, kw_only=True)
class DPMERF(GeneratorRecipe):
    """Mean embeddings with random Fourier features."""

    frequencies: int = release_field(500, "random frequencies; each has a cosine and a sine", ge=1)
    length_scale: float = release_field(0.5, "of the Gaussian kernel, times the root of the number of columns", gt=0)
    joint: bool = release_field(True, "frequencies see categories as well as numbers")
    marginal_share: float = release_field(0.1, "share of the budget for histograms of numbers", ge=0, lt=1)
    category_share: float = release_field(0.5, "share of the squared norm for single categories", ge=0, lt=1)

    name = "dp-merf"
    origin = "package default, selected on a held-out part of Adult's training set; marginal_share was not searched"
    title = "DP-MERF: mean embeddings with random features"
    references = (
        "Harder, F., Adamczewski, K., Park, M. (2021). DP-MERF: Differentially Private Mean Embeddings with Random "
        "Features for Practical Privacy-Preserving Data Generation. AISTATS.",
    )
    code = "dpdistill.methods.dp_merf"
