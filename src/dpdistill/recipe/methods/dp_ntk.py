"""Recipe of DPNTK: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpdistill.recipe.fields import finish_field, release_field
from dpdistill.recipe.generators import Architecture
from dpdistill.recipe.methods.generator_method import GeneratorRecipe


@dataclass(frozen=True, kw_only=True)
class DPNTK(GeneratorRecipe):
    """Mean embeddings in a neural tangent kernel."""

    network: Literal["dense", "convolutional"] = release_field("dense", "layers of the network before its last")
    width: int = release_field(800, "units of the network's hidden layer, or filters of a convolution", ge=1)
    length_scale: float = release_field(
        1.0, "divisor of the coordinates: a large one makes the network sensitive to their magnitude", ge=1e-3
    )
    second_width: int = release_field(0, "units or filters of a second hidden layer; 0: none", ge=0)
    code_size: int = finish_field(5, "random coordinates per synthetic record", ge=1)
    hidden: int = finish_field(500, "width of the generator's hidden layers", ge=1)
    architecture: Architecture = finish_field("dense", "architecture of an image generator; table generators are dense")

    name = "dp-ntk"
    title = "DP-NTK: mean embeddings in a neural tangent kernel"
    references = (
        "Yang, Y., Adamczewski, K., Sutherland, D. J., Li, X., Park, M. (2023). Differentially Private Neural Tangent "
        "Kernels for Privacy-Preserving Data Generation. arXiv:2303.01687.",
    )
    origin = "package default, the generator selected on a held-out part of MNIST's training set"
    linear = True
    code = "dpdistill.methods.dp_ntk"
