"""Recipe of KIP: its fields and rounds."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, release_field
from dpdistill.recipe.kernels import FCNTK, Kernel
from dpdistill.schema import Schema, TableSchema


@dataclass(frozen=True, kw_only=True)
class KIP(Recipe):
    """Kernel inducing points without privacy."""

    kernel: Kernel = release_field(FCNTK(), "kernel of the regression: a name, see the table of kernels")
    per_class: int = release_field(10, "synthetic records a class", ge=1)
    rounds: int = release_field(1000, "steps of Adam, each on a batch of records", ge=1)
    sampling_prob: float = release_field(0.02, "share of the records used in a step", gt=0, le=1)
    ridge: float = release_field(1e-5, "regularisation, relative to the mean of the kernel's diagonal", gt=0)
    learning_rate: float = release_field(0.15, "of Adam, decayed by a cosine", gt=0)
    start_noise: float = release_field(1.0, "standard deviation of the noise that the support set starts from", gt=0)
    learn_labels: bool = release_field(False, "move the regression targets as well")

    name = "kip"
    title = "KIP: kernel inducing points (no privacy)"
    references = ("Nguyen, T., Chen, Z., Lee, J. (2021). Dataset Meta-Learning from Kernel Ridge-Regression. ICLR.",)
    private = False
    linear = True
    schemas = (Schema, TableSchema)
    code = "dpdistill.methods.baselines.kip"

    def plan(self) -> tuple[Stage, ...]:
        return (Stage(self.rounds, self.sampling_prob),)
