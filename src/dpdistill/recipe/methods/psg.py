"""Recipe of PSG: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, release_field


@dataclass(frozen=True, kw_only=True)
class PSG(Recipe):
    """Gradient matching on noised gradients."""

    per_class: int = release_field(10, "synthetic records a class", ge=1)
    networks: int = release_field(10, "fresh random networks; 1,000 in the paper", ge=1)
    outer: int = release_field(10, "stages of a network's training; 20 with twenty records a class", ge=1)
    batches: int = release_field(10, "noised gradients of a network in one stage of its training", ge=1)
    inner: int = release_field(50, "training steps between two stages; 25 with twenty records a class", ge=0)
    sampling_prob: float = release_field(0.01, "Poisson sampling probability of a gradient", gt=0, le=1)
    width: int = release_field(32, "filters of the networks; 128 in the paper", ge=1)
    clip_norm: float = release_field(0.1, "L2 bound of one record's gradient", gt=0)
    learning_rate: float = release_field(0.05, "of Adam on the images, decayed by a cosine", gt=0)
    network_rate: float = release_field(0.01, "learning rate of SGD, which trains the network", gt=0)
    average: float = release_field(0.99, "exponential average of the images, which is released", ge=0, lt=1)

    name = "psg"
    title = "PSG: private set generation by gradient matching"
    references = (
        "Chen, D., Kerkouche, R., Fritz, M. (2022). Private Set Generation with Discriminative Information. NeurIPS.",
        "Zhao, B., Mopuri, K. R., Bilen, H. (2021). Dataset Condensation with Gradient Matching. ICLR.",
    )
    least_classes = 2
    code = "dpdistill.methods.baselines.psg"

    def plan(self) -> tuple[Stage, ...]:
        return (Stage(self.networks * self.outer * self.batches, self.sampling_prob),)
