"""Kernels as a recipe names them, and the table of their short names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from dpdistill.public_images.image_source import Silhouettes
from dpdistill.recipe.features import (
    Deskewed,
    DrawnNet,
    GammaCorrected,
    Mirrored,
    Normalised,
    Perceptual,
    ScatterNet,
    WhiteScatterNet,
)
from dpdistill.recipe.networks import LeNet, Network, ResNet18
from dpdistill.recipe.parts import Part


class Kernel(Part):
    """A kernel k(X, Z) of two batches of records.

    Attributes:
        tables: whether it takes flat records, as rows of tables are; the others look at images.
        ghost: whether the norm of one record's gradient is known without forming it (ghost clipping).
    """

    tables: ClassVar[bool] = False
    ghost: ClassVar[bool] = False


@dataclass(frozen=True)
class FCNTK(Kernel):
    """Neural tangent kernel of an infinitely wide fully connected ReLU network."""

    depth: int = 1
    w_std: float = 2**0.5
    b_std: float = 0.1

    tables = True
    ghost = True
    code = "dpdistill.kernels.fc_ntk"

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"Expected depth={self.depth} >= 1.")
        if not self.w_std > 0 or not self.b_std >= 0:
            raise ValueError(f"Expected w_std={self.w_std} > 0 and b_std={self.b_std} >= 0.")


@dataclass(frozen=True)
class ConvNTK(Kernel):
    """Neural tangent kernel of an infinitely wide convolutional network."""

    depth: int = 3
    w_std: float = math.sqrt(2.0)
    b_std: float = 0.1
    chunk: int | None = None
    code = "dpdistill.kernels.conv_ntk"

    def __post_init__(self) -> None:
        for name in ("depth", "w_std", "chunk"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"Expected {name}={value} > 0.")
        if not self.b_std >= 0:
            raise ValueError(f"Expected b_std={self.b_std} >= 0.")


@dataclass(frozen=True)
class EmpiricalNTK(Kernel):
    """Tangent kernel of a network at its random initialisation."""

    network: Network
    classes: int = 10
    chunk: int | None = None
    code = "dpdistill.kernels.empirical_ntk"

    def __post_init__(self) -> None:
        if not self.classes > 0:
            raise ValueError(f"Expected classes={self.classes} > 0.")
        if self.chunk is not None and not self.chunk > 0:
            raise ValueError(f"Expected chunk={self.chunk} > 0.")


@dataclass(frozen=True)
class FeatureKernel(Kernel):
    """The kernel <phi(x), phi(z)> of a fixed feature map phi."""

    encoder: Any
    ghost = True
    code = "dpdistill.kernels.feature"


KERNELS: dict[str, Kernel] = {
    "fc-ntk": FCNTK(),
    "conv-ntk": ConvNTK(),
    "e-ntk-lenet": EmpiricalNTK(LeNet()),
    "e-ntk-resnet18": EmpiricalNTK(ResNet18()),
    "perceptual": FeatureKernel(Perceptual()),
    "scatternet": FeatureKernel(ScatterNet(groups=27, normalise=True)),
    "scatternet-position": FeatureKernel(ScatterNet(groups=27, per_position=True, normalise=True)),
    "scatternet-white": FeatureKernel(WhiteScatterNet()),
    "scatternet-deskewed": FeatureKernel(Deskewed(WhiteScatterNet())),
    "scatternet-mirrored": FeatureKernel(Mirrored(ScatterNet(groups=27, normalise=True))),
    "scatternet-normalised": FeatureKernel(Normalised(Mirrored(WhiteScatterNet(strength=0.3)), channels=81)),
    "scatternet-gamma": FeatureKernel(GammaCorrected(Normalised(Mirrored(WhiteScatterNet(strength=0.3)), channels=81))),
    "scatternet-silhouettes": FeatureKernel(
        GammaCorrected(
            Normalised(
                Mirrored(WhiteScatterNet(strength=0.3, pictures=Silhouettes())), channels=81, pictures=Silhouettes()
            )
        )
    ),
    "drawn": FeatureKernel(DrawnNet()),
}
"""The kernels by their short names."""
