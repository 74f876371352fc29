"""Networks as a recipe names them: their sizes and the public seed of their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpdistill.recipe.parts import Part
from dpdistill.recipe.rules import part_field


class Network(Part):
    """An architecture: a frozen dataclass whose parameters are a function of the seed alone.

    Attributes:
        name: name of the architecture, for human readers.
        least_side: smallest height and width of images that the architecture takes.
    """

    seed: int
    name: ClassVar[str]
    least_side: ClassVar[int] = 1

    @property
    def title(self) -> str:
        """The name, followed by the layers' units if they differ from the architecture's default."""
        key = "widths" if hasattr(self, "widths") else "width"
        if (units := getattr(self, key, None)) == getattr(type(self), key, None):
            return self.name
        return f"{self.name} ({key} {str(units).strip('(,)')})"


MOST_SEED = 2**32 - 1
"""Largest seed; some methods draw seeds as 32 random bits."""


def check_multiple(network: object, name: str, of: str) -> None:
    """Refuses two fields if the first is no multiple of the second."""
    if getattr(network, name) % getattr(network, of):
        raise ValueError(f"Expected {name}={getattr(network, name)} to be a multiple of {of}={getattr(network, of)}.")


@dataclass(frozen=True)
class ConvNet(Network):
    """The ConvNet of the dataset-distillation literature."""

    seed: int = part_field(0, ge=0, le=MOST_SEED)
    width: int = part_field(128, gt=0)
    name = "ConvNet"
    least_side = 2
    code = "dpdistill.networks.network"


@dataclass(frozen=True)
class MLP(Network):
    """Dense layers with ReLU between them."""

    seed: int = part_field(0, ge=0, le=MOST_SEED)
    widths: tuple[int, ...] = part_field((128, 128), gt=0)
    name = "MLP"
    code = "dpdistill.networks.network"


@dataclass(frozen=True)
class LeNet(Network):
    """LeNet-5 with ReLU."""

    seed: int = part_field(0, ge=0, le=MOST_SEED)
    widths: tuple[int, int, int, int] = part_field((6, 16, 120, 84), gt=0)
    name = "LeNet"
    least_side = 16
    code = "dpdistill.networks.network"


@dataclass(frozen=True)
class ResNet18(Network):
    """ResNet-18 for small images, with group norm."""

    seed: int = part_field(0, ge=0, le=MOST_SEED)
    width: int = part_field(64, gt=0)
    groups: int = part_field(8, gt=0)
    name = "ResNet-18"
    code = "dpdistill.networks.resnet"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple(self, "width", "groups")


@dataclass(frozen=True)
class VGG11(Network):
    """VGG-11 with group norm and one dense layer."""

    seed: int = part_field(0, ge=0, le=MOST_SEED)
    width: int = part_field(64, gt=0)
    groups: int = part_field(8, gt=0)

    name = "VGG-11"
    code = "dpdistill.networks.vgg"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple(self, "width", "groups")


@dataclass(frozen=True)
class ViT(Network):
    """A small vision transformer."""

    seed: int = part_field(0, ge=0, le=MOST_SEED)
    patch: int = part_field(4, gt=0)
    width: int = part_field(128, gt=0)
    depth: int = part_field(6, gt=0)
    heads: int = part_field(4, gt=0)

    name = "ViT"
    code = "dpdistill.networks.vit"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple(self, "width", "heads")


ARCHITECTURES: dict[str, Network] = {
    "convnet": ConvNet(),
    "convnet64": ConvNet(width=64),
    "mlp": MLP(),
    "lenet": LeNet(),
    "vgg11": VGG11(),
    "resnet18": ResNet18(),
    "vit": ViT(),
}
"""Networks that can be trained on synthetic records, by name."""
