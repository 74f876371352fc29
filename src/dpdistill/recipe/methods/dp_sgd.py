"""Recipe of DPSGD: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpdistill.query import Stage
from dpdistill.recipe.features import WhiteScatterNet
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.recipe.kernels import FeatureKernel


@dataclass(frozen=True, kw_only=True)
class DPSGD(Recipe):
    """A network trained on noised gradients, which labels generated images."""

    sees: Literal["features", "pixels"] = release_field("features", "the network's input from a record")
    kernel: FeatureKernel = release_field(FeatureKernel(WhiteScatterNet()), "a kernel of fixed features, by name")
    hidden: int = release_field(0, "units of a hidden layer; 0: no hidden layer", ge=0)
    rounds: int = release_field(200, "noised gradients", ge=1)
    sampling_prob: float = release_field(0.1, "Poisson sampling probability of a gradient", gt=0, le=1)
    clip_norm: float = release_field(1.0, "L2 bound of one record's gradient", gt=0)
    learning_rate: float = release_field(0.03, "of Adam, decayed by a cosine", gt=0)
    samples: int = finish_field(1000, "generated images to store", ge=1)
    image_seed: int = finish_field(0, "public seed of the generated images", ge=0)

    name = "dp-sgd"
    title = "DP-SGD: a network trained on noised gradients"
    references = (
        "Abadi, M., Chu, A., Goodfellow, I., McMahan, H. B., Mironov, I., Talwar, K., Zhang, L. (2016). Deep Learning "
        "with Differential Privacy. CCS.",
        "Tramer, F., Boneh, D. (2021). Differentially Private Learning Needs Better Features (or Much More Data). "
        "ICLR.",
    )
    origin = "package default, selected on a held-out part of MNIST's training set"
    code = "dpdistill.methods.dp_sgd"

    def plan(self) -> tuple[Stage, ...]:
        return (Stage(self.rounds, self.sampling_prob),)
