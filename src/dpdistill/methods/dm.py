"""DM: distribution matching without privacy, the baseline of its family."""

from __future__ import annotations

from dataclasses import dataclass

from dpdistill.encode.augment import STRATEGIES
from dpdistill.method import release_field
from dpdistill.methods.descent import Descent
from dpdistill.methods.matching import PlainEmbeddingQuery
from dpdistill.methods.stepwise import Stepwise


@dataclass(frozen=True, kw_only=True)
class DM(Stepwise):
    """x <- x - lr grad sum_c || mean phi_t(real_c) - mean phi_t(s_c) ||^2, phi_t a fresh random network.

    Guarantee: none; only the non-private curator answers it.
    Source: Zhao & Bilen, 2023 (Dataset condensation with distribution matching).
    """

    per_class: int = release_field(10, "synthetic records a class", at_least=1)
    rounds: int = release_field(2000, "steps, each with a fresh random network; 20,000 in the paper", at_least=1)
    sampling_prob: float = release_field(0.05, "share of the records behind a step", above=0, at_most=1)
    width: int = release_field(128, "filters of the random networks", at_least=1)
    strategies: tuple[str, ...] = release_field((), "DSA strategies, one draw a step for all", choices=STRATEGIES)
    learning_rate: float = release_field(1.0, "of SGD", above=0)
    momentum: float = release_field(0.5, "of SGD", at_least=0, below=1)
    count_floor: float = release_field(1.0, "least number of records a class is taken to have", above=0)
    average: float = release_field(0.0, "exponential average of the images; 0: the last ones", at_least=0, below=1)

    name = "dm"
    title = "DM: distribution matching (no privacy)"
    references = ("Zhao, B., Bilen, H. (2023). Dataset Condensation with Distribution Matching. WACV.",)
    private = False

    def query(self) -> PlainEmbeddingQuery:
        return PlainEmbeddingQuery()

    def descent(self) -> Descent:
        return Descent(self.learning_rate, self.rounds, self.average, momentum=self.momentum)
