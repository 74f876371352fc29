"""Recipe of DOSKIP: its fields and rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpdistill.query import Stage
from dpdistill.recipe.features import WhiteScatterNet
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.recipe.generators import Architecture
from dpdistill.recipe.kernels import FeatureKernel, FeatureKernelName
from dpdistill.recipe.methods.decoupled_kip import DecoupledKIP, check_candidates
from dpdistill.recipe.methods.dos import DOS
from dpdistill.recipe.stages import cost_of


@dataclass(frozen=True, kw_only=True)
class DOSKIP(Recipe):
    """DOS and decoupled KIP under one budget: one set for networks and for kernels."""

    share: float = release_field(0.5, "share of the budget for the classifier", gt=0, lt=1)
    kernel: FeatureKernel = release_field(FeatureKernel(WhiteScatterNet()), "a kernel of fixed features, by name")
    rounds: int = release_field(60, "full-batch gradients of the classifier", ge=1)
    step: float = release_field(14.0, "largest norm of a step of the classifier, decayed by a cosine", gt=0)
    means: float = release_field(0.0, "part of the classifier's share for class means of features; 0: none", ge=0, lt=1)
    candidates: tuple[FeatureKernelName, ...] = release_field(
        (), "kernels of which two releases choose one, instead of `kernel`; none: no choice"
    )
    choice: float = release_field(0.15, "part of the classifier's share for this choice", gt=0, lt=1)
    accuracy: float = release_field(
        0.0, "part of the classifier's share for its accuracy on the records, which is released; 0: none", ge=0, lt=1
    )
    networks: int = release_field(75, "networks; one signal each, released once", ge=1)
    taught: int = release_field(0, "number of networks that first learn from the classifier; 0: none", ge=0)
    pictures: int = release_field(16_000, "procedurally generated images for this learning", ge=1)
    sampling_prob: float = release_field(0.1, "Poisson sampling probability of a signal", gt=0, le=1)
    width: int = release_field(64, "filters of the networks", ge=1)
    cells: int = release_field(0, "parts of a class that have signals of their own; 0: none", ge=0, le=100)
    per_class: int = finish_field(10, "synthetic records a class", ge=1)
    expand: int = finish_field(
        0,
        "PEA: every image stands for expand x expand tiles; 1 is off; 0 means 2 if tiles keep 14 pixels a side, else 1",
        ge=0,
    )
    weight: float = finish_field(0.25, "weight of the classifier relative to the signals", ge=0, le=1)
    hold: int = finish_field(4, "steps of Adam with one gradient of the classifier's part", ge=1)
    steps: int = finish_field(600, "steps of Adam", ge=1)
    learning_rate: float = finish_field(0.1, "of Adam, decayed by a cosine", gt=0)
    average: float = finish_field(0.99, "exponential average of the images, which is released", ge=0, lt=1)
    softness: float = finish_field(0.33, "temperature of the labels that networks learn from; 0: hard labels", ge=0)
    generator_steps: int = finish_field(0, "training steps of an additional generator of images; 0: none", ge=0)
    generator_kind: Architecture = finish_field("convolutional", "of that generator")
    image_seed: int = finish_field(0, "public seed of the start and of the order of signals", ge=0)

    name = "dos-kip"
    title = "DOS-KIP: one set for networks and for kernels"
    references = (*DOS.references, *DecoupledKIP.references)
    origin = (
        "package default, selected on records of the training sets of MNIST, Fashion-MNIST and CIFAR-10; tiles and "
        "step on the test sets of MNIST and CIFAR-10"
    )
    linear = True
    judged = True
    later = ("candidates", "choice", "accuracy")
    code = "dpdistill.methods.dos_kip"

    @property
    def signals(self) -> DOS:
        """Recipe of the part that networks learn from."""
        return DOS(networks=self.networks, sampling_prob=self.sampling_prob, width=self.width, cells=self.cells)

    @property
    def classifier(self) -> DecoupledKIP:
        """Recipe of the part that kernels learn from."""
        shared = ("kernel", "rounds", "step", "means", "candidates", "choice", "accuracy")
        return DecoupledKIP(**{name: getattr(self, name) for name in shared})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_candidates(self.candidates, self.means)

    def plan(self) -> tuple[Stage, ...]:
        first, later = self.classifier.plan(), self.signals.plan()
        weight = math.sqrt(cost_of(later) * self.share / (1.0 - self.share) / cost_of(first))
        return (*(replace(stage, weight=weight * stage.weight) for stage in first), *later)

    @property
    def main_stage(self) -> int:
        return self.classifier.main_stage
