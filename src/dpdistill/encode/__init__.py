"""Maps of one record without private inputs."""

from dpdistill.encode.deskew import Deskewed
from dpdistill.encode.drawn import DrawnNet
from dpdistill.encode.gamma import GammaCorrected
from dpdistill.encode.mirror import Mirrored
from dpdistill.encode.normalised import Normalised
from dpdistill.encode.perceptual import Perceptual
from dpdistill.encode.scattering import ScatterNet
from dpdistill.encode.whitening import WhiteScatterNet

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
