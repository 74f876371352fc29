"""Recipe of DecoupledKIP: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpdistill.query import Stage
from dpdistill.recipe.features import WhiteScatterNet
from dpdistill.recipe.fields import Recipe, finish_field, release_field
from dpdistill.recipe.kernels import FeatureKernel, FeatureKernelName
from dpdistill.recipe.stages import choice_stages, first_stage, last_stage


@dataclass(frozen=True, kw_only=True)
class DecoupledKIP(Recipe):
    """A released classifier on fixed features, and a support set that teaches it."""

    kernel: FeatureKernel = release_field(FeatureKernel(WhiteScatterNet()), "a kernel of fixed features, by name")
    rounds: int = release_field(60, "full-batch gradients of the classifier", ge=1)
    clip_norm: float = release_field(0.1, "L2 bound of one record's gradient; features have norm 1", gt=0)
    step: float = release_field(14.0, "largest norm of a step of the classifier, decayed by a cosine", gt=0)
    means: float = release_field(
        0.0, "share of the budget for the classes' means, whose directions count less; 0: none", ge=0, lt=1
    )
    candidates: tuple[FeatureKernelName, ...] = release_field(
        (), "kernels of which two releases choose one, instead of `kernel`; none: no choice"
    )
    choice: float = release_field(0.15, "share of the budget for this choice", gt=0, lt=1)
    accuracy: float = release_field(
        0.0, "share of the budget for the classifier's accuracy on the records, which is released; 0: none", ge=0, lt=1
    )
    momentum: float = release_field(0.9, "of the classifier's steps", ge=0, lt=1)
    per_class: int = finish_field(10, "synthetic records a class", ge=1)
    expand: int = finish_field(1, "PEA: every image stands for expand x expand tiles; 1 is off", ge=1)
    ridge: float = finish_field(1e-3, "regularisation, relative to the mean of the kernel's diagonal", gt=0)
    steps: int = finish_field(500, "steps of Adam on the support set", ge=1)
    learning_rate: float = finish_field(0.05, "of Adam, decayed by a cosine", gt=0)
    probes: float = finish_field(1.0, "weight of outputs on generated images, relative to the weights", ge=0)
    start_noise: float = finish_field(1.0, "standard deviation of the noise that the support set starts from", gt=0)
    image_seed: int = finish_field(0, "public seed of the support set's start and of the generated images", ge=0)

    name = "decoupled-kip"
    title = "Decoupled KIP: a released classifier and a support set that teaches it"
    references = (
        "Vinaroz, M., Park, M. (2024). Differentially Private Kernel Inducing Points using features from ScatterNets "
        "(DP-KIP-ScatterNet) for Privacy Preserving Data Distillation. TMLR.",
        "Tramer, F., Boneh, D. (2021). Differentially Private Learning Needs Better Features (or Much More Data). "
        "ICLR.",
    )
    origin = "package default, selected on a held-out part of MNIST's training set"
    linear = True
    judged = True
    later = ("candidates", "choice", "accuracy")
    code = "dpdistill.methods.decoupled_kip"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_candidates(self.candidates, self.means)

    def plan(self) -> tuple[Stage, ...]:
        stages = (*self._stages_before, Stage(self.rounds))
        return *stages, *last_stage(self.accuracy, stages)

    @property
    def _stages_before(self) -> tuple[Stage, ...]:
        """Stages before the gradients."""
        if self.candidates:
            return choice_stages(self.choice, self.rounds)
        return (first_stage(self.means, self.rounds, 1.0),) if self.means else ()

    @property
    def main_stage(self) -> int:
        return len(self._stages_before)

    @property
    def last_round(self) -> int:
        """Round after the last one; the first gradient is round 0."""
        return self.rounds + (self.accuracy > 0)


def check_candidates(candidates: tuple[str, ...], means: float) -> None:
    """Refuses candidates that leave no choice, or that are chosen by the class means which `means` pays for.

    Raises:
        ValueError: one candidate, one that is stated twice, or candidates with means > 0.
    """
    if len(candidates) == 1 or len(set(candidates)) < len(candidates):
        raise ValueError(f"Expected two or more different candidates, or none; got {', '.join(candidates)}.")
    if candidates and means:
        raise ValueError(f"Expected means=0 with candidates; got means={means:g}.")


def chosen(counts: Any) -> int:
    """Returns the index of the candidate with the largest released count; the first of equal ones."""
    return max(range(len(counts)), key=lambda k: counts[k])
