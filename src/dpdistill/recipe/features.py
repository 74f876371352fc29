"""Feature maps of one record, as a recipe names them; none has private inputs."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from dpdistill.public_images.image_source import Drawn, Silhouettes
from dpdistill.recipe.networks import MOST_SEED, check_multiple
from dpdistill.recipe.parts import Encoder, Part
from dpdistill.recipe.rules import part_field

DRAWN_FILTERS = "ed8eaf184e271f0e0b343f2a89cb222a5bed8b28499e13f2e4288bfb9efde06b"
"""SHA-256 of the file of filters; users of a classifier on these features need the same filters."""

SHAPES_ONLY: ContextVar[bool] = ContextVar("shapes_only", default=False)
"""True where features are asked for their shapes alone: constants that take long to compute are then left out."""


@dataclass(frozen=True)
class ScatterNet(Part):
    """Scattering coefficients, optionally standardised within each record."""

    J: int = part_field(2, ge=1)
    L: int = part_field(8, ge=1)
    groups: int = part_field(0, ge=0)
    per_position: bool = False
    normalise: bool = False
    code = "dpdistill.features.scattering"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups and self.channels % self.groups:
            raise ValueError(f"Expected groups={self.groups} that divide {self.channels} channels, or 0.")

    @property
    def channels(self) -> int:
        """Number of channels for one colour."""
        return 1 + self.L * self.J + self.L**2 * self.J * (self.J - 1) // 2


@dataclass(frozen=True)
class WhiteScatterNet(Part):
    """Scattering whose channels are decorrelated by generated images."""

    scattering: ScatterNet = ScatterNet(groups=27, normalise=True)
    strength: float = part_field(1.0, gt=0)
    pictures: Drawn | Silhouettes | None = None
    code = "dpdistill.features.whitening"


@dataclass(frozen=True)
class Deskewed(Part):
    """Features of a record that is deskewed, centred and rescaled first."""

    encoder: Encoder
    strength: float = part_field(0.7, ge=0, le=1)
    height: float = part_field(0.36, gt=0)
    width: float = part_field(0.28, gt=0)
    code = "dpdistill.features.deskew"


@dataclass(frozen=True)
class Mirrored(Part):
    """Features that are equal for a record and its mirror image."""

    encoder: Encoder
    code = "dpdistill.features.mirror"


@dataclass(frozen=True)
class Normalised(Part):
    """Features normalised at every position and centred by generated images."""

    encoder: Encoder
    channels: int
    floor: float = part_field(0.1, gt=0)
    power: float = part_field(0.7, gt=0, le=1)
    pictures: Drawn | Silhouettes | None = None
    code = "dpdistill.features.normalised"


@dataclass(frozen=True)
class GammaCorrected(Part):
    """Features of a record after gamma correction."""

    encoder: Encoder
    exponent: float = part_field(1 / 3, gt=0, le=1)
    code = "dpdistill.features.gamma_correction"


@dataclass(frozen=True)
class DrawnNet(Part):
    """Two layers of convolutional kernels that were learned from generated images."""

    filters: str = DRAWN_FILTERS
    code = "dpdistill.features.drawn_filters"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.filters != DRAWN_FILTERS:
            raise ValueError(f"Expected the filters of this version, {DRAWN_FILTERS}; got {self.filters}.")


@dataclass(frozen=True)
class Perceptual(Part):
    """Activations of all layers of an untrained ResNet-18."""

    seed: int = part_field(0, ge=0, le=MOST_SEED)
    width: int = part_field(64, gt=0)
    groups: int = part_field(8, gt=0)
    classes: int = part_field(10, gt=0)
    code = "dpdistill.features.perceptual"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple(self, "width", "groups")
