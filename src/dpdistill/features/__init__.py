"""Maps of one record without private inputs."""

from dpdistill.features.deskew import Deskewed
from dpdistill.features.drawn_filters import DrawnNet
from dpdistill.features.gamma_correction import GammaCorrected
from dpdistill.features.mirror import Mirrored
from dpdistill.features.normalised import Normalised
from dpdistill.features.perceptual import Perceptual
from dpdistill.features.scattering import ScatterNet
from dpdistill.features.whitening import WhiteScatterNet

__all__ = [
    "Deskewed",
    "DrawnNet",
    "GammaCorrected",
    "Mirrored",
    "Normalised",
    "Perceptual",
    "ScatterNet",
    "WhiteScatterNet",
]
