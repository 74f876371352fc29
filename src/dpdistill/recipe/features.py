"""Feature maps of one record as a recipe names them; none has private inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpdistill.public_images.image_source import Drawn, Silhouettes, check_drawn
from dpdistill.recipe.networks import check_multiple, check_positive
from dpdistill.recipe.parts import Part

DRAWN_FILTERS = "ed8eaf184e271f0e0b343f2a89cb222a5bed8b28499e13f2e4288bfb9efde06b"
"""SHA-256 of the file of filters: whoever is given a classifier on these features needs the same ones."""


@dataclass(frozen=True)
class ScatterNet(Part):
    """Scattering coefficients, optionally standardised within each record."""

    J: int = 2
    L: int = 8
    groups: int = 0
    per_position: bool = False
    normalise: bool = False
    code = "dpdistill.features.scattering"

    def __post_init__(self) -> None:
        for name, value in (("J", self.J), ("L", self.L)):
            if value < 1:
                raise ValueError(f"Expected {name}={value} >= 1.")
        if self.groups < 0 or (self.groups and self.channels % self.groups):
            raise ValueError(f"Expected groups={self.groups} that divide {self.channels} channels, or 0.")

    @property
    def channels(self) -> int:
        """Channels of one colour."""
        return 1 + self.L * self.J + self.L**2 * self.J * (self.J - 1) // 2


@dataclass(frozen=True)
class WhiteScatterNet(Part):
    """Scattering whose channels are decorrelated by generated images."""

    scattering: ScatterNet = ScatterNet(groups=27, normalise=True)
    strength: float = 1.0
    pictures: Drawn | Silhouettes | None = None
    code = "dpdistill.features.whitening"

    def __post_init__(self) -> None:
        if not 0 < self.strength < float("inf"):
            raise ValueError(f"Expected strength={self.strength} > 0 and finite.")
        check_drawn(self.pictures)


@dataclass(frozen=True)
class Deskewed(Part):
    """Features of a record that is deskewed, centred and rescaled first."""

    encoder: Any
    strength: float = 0.7
    height: float = 0.36
    width: float = 0.28
    code = "dpdistill.features.deskew"

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise ValueError(f"Expected strength={self.strength} from 0 to 1.")
        for name, value in (("height", self.height), ("width", self.width)):
            if not 0 < value < float("inf"):
                raise ValueError(f"Expected {name}={value} > 0 and finite.")


@dataclass(frozen=True)
class Mirrored(Part):
    """Features that are the same for a record and its mirror image."""

    encoder: Any
    code = "dpdistill.features.mirror"


@dataclass(frozen=True)
class Normalised(Part):
    """Features normalised at every position and centred by generated images."""

    encoder: Any
    channels: int
    floor: float = 0.1
    power: float = 0.7
    pictures: Drawn | Silhouettes | None = None
    code = "dpdistill.features.normalised"

    def __post_init__(self) -> None:
        if not 0 < self.floor < float("inf"):
            raise ValueError(f"Expected floor={self.floor} > 0 and finite.")
        if not 0 < self.power <= 1:
            raise ValueError(f"Expected power={self.power} in (0, 1].")
        check_drawn(self.pictures)


@dataclass(frozen=True)
class GammaCorrected(Part):
    """Features of a record after gamma correction."""

    encoder: Any
    exponent: float = 1 / 3
    code = "dpdistill.features.gamma_correction"

    def __post_init__(self) -> None:
        if not 0 < self.exponent <= 1:
            raise ValueError(f"Expected exponent={self.exponent} in (0, 1].")


@dataclass(frozen=True)
class DrawnNet(Part):
    """Two layers of convolutional kernels that were learned from generated images."""

    filters: str = DRAWN_FILTERS
    code = "dpdistill.features.drawn_filters"

    def __post_init__(self) -> None:
        if self.filters != DRAWN_FILTERS:
            raise ValueError(f"Expected the filters of this version, {DRAWN_FILTERS}; got {self.filters}.")


@dataclass(frozen=True)
class Perceptual(Part):
    """Activations of all layers of an untrained ResNet-18."""

    seed: int = 0
    width: int = 64
    groups: int = 8
    classes: int = 10
    code = "dpdistill.features.perceptual"

    def __post_init__(self) -> None:
        check_positive(self, "classes")
        check_multiple(self, "width", "groups")
