"""Kernels as a recipe names them, and the table of their short names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

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
from dpdistill.recipe.parts import Encoder, Part
from dpdistill.recipe.rules import part_field


class Kernel(Part):
    """Kernel k(X, Z) of two batches of records.

    Attributes:
        tables: whether the kernel takes flat records, such as table rows; other kernels take images.
        ghost: whether the norm of one record's gradient is known without forming the gradient (ghost clipping).
    """

    tables: ClassVar[bool] = False
    ghost: ClassVar[bool] = False


@dataclass(frozen=True)
class FCNTK(Kernel):
    """Neural tangent kernel of an infinitely wide fully connected ReLU network."""

    depth: int = part_field(1, ge=1)
    w_std: float = part_field(2**0.5, gt=0)
    b_std: float = part_field(0.1, ge=0)

    tables = True
    ghost = True
    code = "dpdistill.kernels.fc_ntk"


@dataclass(frozen=True)
class ConvNTK(Kernel):
    """Neural tangent kernel of an infinitely wide convolutional network."""

    depth: int = part_field(3, ge=1)
    w_std: float = part_field(math.sqrt(2.0), gt=0)
    b_std: float = part_field(0.1, ge=0)
    chunk: int | None = part_field(None, ge=1)
    code = "dpdistill.kernels.conv_ntk"


@dataclass(frozen=True)
class EmpiricalNTK(Kernel):
    """Tangent kernel of a network at its random initialisation."""

    network: Network
    classes: int = part_field(10, ge=1)
    chunk: int | None = part_field(None, ge=1)
    code = "dpdistill.kernels.empirical_ntk"


@dataclass(frozen=True)
class FeatureKernel(Kernel):
    """Kernel <phi(x), phi(z)> of a fixed feature map phi."""

    encoder: Encoder
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
"""Kernels by their short names."""

if TYPE_CHECKING:
    FeatureKernelName = str
else:
    FeatureKernelName = Literal[tuple(name for name, kernel in KERNELS.items() if isinstance(kernel, FeatureKernel))]
"""Short name of a kernel of fixed features."""
