"""Recipe of DPNTK: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.recipe.fields import finish_field, release_field
from dpdistill.recipe.generators import GENERATORS
from dpdistill.recipe.methods.generator_method import GeneratorRecipe


@dataclass(frozen=True, kw_only=True)
class DPNTK(GeneratorRecipe):
    """Mean embeddings in a neural tangent kernel."""

    network: str = release_field("dense", "layers of the network before its last", choices=("dense", "convolutional"))
    width: int = release_field(800, "units of the network's hidden layer, or filters of a convolution", at_least=1)
    length_scale: float = release_field(
        1.0, "coordinates are divided by it: the larger, the more a network sees how large they are", at_least=1e-3
    )
    second_width: int = release_field(0, "the same of a second layer; 0: there is none", at_least=0)
    code_size: int = finish_field(5, "random coordinates behind a synthetic record", at_least=1)
    hidden: int = finish_field(500, "width of the generator's hidden layers", at_least=1)
    architecture: str = finish_field("dense", "of a generator of images; that of a table is dense", choices=GENERATORS)

    name = "dp-ntk"
    title = "DP-NTK: mean embeddings in a neural tangent kernel"
    references = (
        "Yang, Y., Adamczewski, K., Sutherland, D. J., Li, X., Park, M. (2023). Differentially Private Neural Tangent "
        "Kernels for Privacy-Preserving Data Generation. arXiv:2303.01687.",
    )
    origin = "package default, the generator selected on a held-out part of MNIST's training set"
    linear = True
    code = "dpdistill.methods.dp_ntk"
