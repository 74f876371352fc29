"""Networks as a recipe names them: their sizes and the public seed of their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpdistill.recipe.parts import Part


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


def check_positive(network: object, *names: str) -> None:
    """Refuses fields that are not above 0, or that hold a width not above 0."""
    for name in names:
        value = getattr(network, name)
        if not all(v > 0 for v in (value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"Expected {name}={value} > 0.")


def check_multiple(network: object, name: str, of: str) -> None:
    """Refuses two fields if one is not above 0, or if the first is no multiple of the second."""
    check_positive(network, name, of)
    if getattr(network, name) % getattr(network, of):
        raise ValueError(f"Expected {name}={getattr(network, name)} to be a multiple of {of}={getattr(network, of)}.")


@dataclass(frozen=True)
class ConvNet(Network):
    """The ConvNet of the dataset-distillation literature."""

    seed: int = 0
    width: int = 128
    name = "ConvNet"
    least_side = 2
    code = "dpdistill.networks.network"

    def __post_init__(self) -> None:
        check_positive(self, "width")


@dataclass(frozen=True)
class MLP(Network):
    """Dense layers with ReLU between them."""

    seed: int = 0
    widths: tuple[int, ...] = (128, 128)
    name = "MLP"
    code = "dpdistill.networks.network"

    def __post_init__(self) -> None:
        check_positive(self, "widths")


@dataclass(frozen=True)
class LeNet(Network):
    """LeNet-5 with ReLU."""

    seed: int = 0
    widths: tuple[int, int, int, int] = (6, 16, 120, 84)
    name = "LeNet"
    least_side = 16
    code = "dpdistill.networks.network"

    def __post_init__(self) -> None:
        if len(self.widths) != 4:
            raise ValueError(f"Expected four widths; got {self.widths}.")
        check_positive(self, "widths")


@dataclass(frozen=True)
class ResNet18(Network):
    """ResNet-18 for small images, with group norm."""

    seed: int = 0
    width: int = 64
    groups: int = 8
    name = "ResNet-18"
    code = "dpdistill.networks.resnet"

    def __post_init__(self) -> None:
        check_multiple(self, "width", "groups")


@dataclass(frozen=True)
class VGG11(Network):
    """VGG-11 with group norm and one dense layer."""

    seed: int = 0
    width: int = 64
    groups: int = 8

    name = "VGG-11"
    code = "dpdistill.networks.vgg"

    def __post_init__(self) -> None:
        check_multiple(self, "width", "groups")


@dataclass(frozen=True)
class ViT(Network):
    """A small vision transformer."""

    seed: int = 0
    patch: int = 4
    width: int = 128
    depth: int = 6
    heads: int = 4

    name = "ViT"
    code = "dpdistill.networks.vit"

    def __post_init__(self) -> None:
        check_positive(self, "patch", "depth")
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
