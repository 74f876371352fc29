"""Recipe of DPKIP: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, release_field
from dpdistill.recipe.kernels import FCNTK, Kernel
from dpdistill.recipe.stages import first_stage
from dpdistill.schema import Schema, TableSchema


@dataclass(frozen=True, kw_only=True)
class DPKIP(Recipe):
    """Kernel inducing points that follow noised gradients."""

    kernel: Kernel = release_field(FCNTK(), "kernel of the regression: a name, see the table of kernels")
    per_class: int = release_field(10, "synthetic records a class", ge=1)
    rounds: int = release_field(150, "noisy gradient steps", ge=1)
    sampling_prob: float = release_field(0.06, "Poisson sampling probability of a step", gt=0, le=1)
    ridge: float = release_field(1e-2, "regularisation, relative to the mean of the kernel's diagonal", gt=0)
    clip_norm: float = release_field(1e-2, "L2 bound of one record's gradient", gt=0)
    learning_rate: float = release_field(0.1, "of Adam, decayed by a cosine", gt=0)
    start_noise: float = release_field(1.0, "standard deviation of the noise that the support set starts from", gt=0)
    corrupted: float = release_field(0.0, "share of the pixels that keep their initial values", ge=0, lt=1)
    balance: float = release_field(0.0, "1: equal weight for classes; 0: equal weight for records", ge=0, le=1)
    count_share: float = release_field(0.05, "share of the budget for the classes' sizes", ge=1e-6, lt=1)
    average: float = release_field(0.9, "exponential average of the support set, which is released", ge=0, lt=1)

    name = "dp-kip"
    title = "DP-KIP: differentially private kernel inducing points"
    references = (
        "Vinaroz, M., Park, M. (2024). Differentially Private Kernel Inducing Points using features from ScatterNets "
        "(DP-KIP-ScatterNet) for Privacy Preserving Data Distillation. TMLR.",
        "Nguyen, T., Chen, Z., Lee, J. (2021). Dataset Meta-Learning from Kernel Ridge-Regression. ICLR.",
    )
    schemas = (Schema, TableSchema)
    code = "dpdistill.methods.dp_kip"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.balance and not self.linear:
            raise ValueError("Expected kernel=fc-ntk or a kernel of features with balance.")

    @property
    def linear(self) -> bool:
        return self.kernel.ghost

    def plan(self) -> tuple[Stage, ...]:
        gradients = Stage(self.rounds, self.sampling_prob)
        if not self.balance:
            return (gradients,)
        return (first_stage(self.count_share, self.rounds, self.sampling_prob), gradients)

    @property
    def main_stage(self) -> int:
        return 1 if self.balance else 0
