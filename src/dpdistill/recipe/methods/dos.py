"""Recipe of DOS: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.public_images.image_source import Drawn, ImageSource, PublicImages
from dpdistill.query import Stage
from dpdistill.recipe.choices import Strategy
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.recipe.generators import Architecture
from dpdistill.recipe.stages import first_stage


@dataclass(frozen=True, kw_only=True)
class DOS(Recipe):
    """Decoupled optimisation and sampling: networks learn from the set."""

    networks: int = release_field(150, "random networks; one signal each, released once", ge=1)
    sampling_prob: float = release_field(0.1, "Poisson sampling probability of a signal", gt=0, le=1)
    width: int = release_field(64, "filters of the random networks", ge=1)
    clip_norm: float = release_field(1.0, "L2 bound of one record's contribution", gt=0)
    count_coordinate: float = release_field(0.1, "share of the clip norm that counts records", ge=1e-3, lt=1)
    strategies: tuple[Strategy, ...] = release_field((), "DSA strategies, drawn once per signal for all images")
    subspace: int = release_field(0, "SER: principal directions of public images kept in signals; 0: all", ge=0)
    public_images: ImageSource = release_field(Drawn(), "public images that define the directions")
    pilot_share: float = release_field(0.05, "share of the budget for the pilot; 0: no centre", ge=0, lt=1)
    cells: int = release_field(0, "parts of a class that have signals of their own; 0: none", ge=0, le=100)
    cell_share: float = release_field(0.05, "share of the budget for the means of these parts", gt=0, lt=1)
    per_class: int = finish_field(10, "synthetic records a class", ge=1)
    expand: int = finish_field(1, "PEA: every image stands for expand x expand tiles; 1 is off", ge=1)
    steps: int = finish_field(2500, "steps of Adam, one signal each", ge=1)
    learning_rate: float = finish_field(0.05, "of Adam, decayed by a cosine", gt=0)
    average: float = finish_field(0.99, "exponential average of the images, which is released", ge=0, lt=1)
    start_noise: float = finish_field(0.5, "standard deviation of the initial images around the pilot's means", gt=0)
    count_floor: float = release_field(1.0, "smallest number of records assumed per class", gt=0)
    generator_steps: int = finish_field(0, "training steps of an additional generator of images; 0: none", ge=0)
    generator_kind: Architecture = finish_field("convolutional", "of that generator")
    image_seed: int = finish_field(0, "public seed of the start and of the order of signals", ge=0)

    name = "dos"
    title = "DOS: decoupled optimisation and sampling"
    references = (
        "Zheng, R., Dasu, V. A., Wang, Y. O., Wang, H., De la Torre, F. (2025). Improving Noise Efficiency in "
        "Privacy-preserving Dataset Distillation. ICCV.",
        "Zhao, B., Bilen, H. (2023). Dataset Condensation with Distribution Matching. WACV.",
        "Zhao, G., Li, G., Qin, Y., Yu, Y. (2023). Improved Distribution Matching for Dataset Condensation. CVPR.",
    )
    origin = (
        "package default, selected on a held-out part of MNIST's training set; its centre on records of the training "
        "sets of Fashion-MNIST and CIFAR-10, too"
    )
    code = "dpdistill.methods.dos"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.public_images, PublicImages) and not self.subspace:
            raise ValueError("Expected subspace > 0 with public images: nothing else reads them.")
        if self.cells > 1 and not 0.0 < self.pilot_share < 1.0 - self.cell_share:
            raise ValueError(
                f"Expected pilot_share={self.pilot_share} > 0 with cells, and pilot_share + cell_share < 1: cells are "
                "defined by the records' differences from the pilot's means."
            )

    def plan(self) -> tuple[Stage, ...]:
        shares = (*([self.pilot_share] if self.pilot_share else []), *([self.cell_share] if self.cells > 1 else []))
        first = [first_stage(share, self.networks, self.sampling_prob, sum(shares)) for share in shares]
        return (*first, Stage(self.networks, self.sampling_prob))

    @property
    def _pilots(self) -> int:
        return 1 if self.pilot_share else 0

    @property
    def before(self) -> int:
        """Number of rounds before the signals."""
        return self._pilots + (self.cells > 1)

    @property
    def main_stage(self) -> int:
        return self.before
