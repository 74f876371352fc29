"""DM: distribution matching without privacy, the baseline of its family."""

from __future__ import annotations

from dataclasses import dataclass

import optax

from dpdistill.method import release_field
from dpdistill.methods.matching import PlainEmbeddingQuery, check_fields, check_share, check_strategies
from dpdistill.methods.stepwise import Stepwise


@dataclass(frozen=True, kw_only=True)
class DM(Stepwise):
    """x <- x - lr grad sum_c || mean phi_t(real_c) - mean phi_t(s_c) ||^2, phi_t a fresh random network.

    Guarantee: none; only the non-private curator answers it.
    Source: Zhao & Bilen, 2023 (Dataset condensation with distribution matching).
    """

    per_class: int = release_field(10, "synthetic records a class")
    rounds: int = release_field(2000, "steps, each with a fresh random network; 20,000 in the paper")
    sampling_prob: float = release_field(0.05, "share of the records behind a step; about 256 a class in the paper")
    width: int = release_field(128, "filters of the random networks")
    strategies: tuple[str, ...] = release_field((), "DSA strategies, one draw a step for real and synthetic images")
    learning_rate: float = release_field(1.0, "of SGD")
    momentum: float = release_field(0.5, "of SGD")
    count_floor: float = release_field(1.0, "least number of records a class is taken to have")
    average: float = release_field(0.0, "exponential average of the images; 0 hands out the last ones")

    title = "DM: distribution matching (no privacy)"
    references = ("Zhao, B., Bilen, H. (2023). Dataset Condensation with Distribution Matching. WACV.",)
    private = False

    def __post_init__(self) -> None:
        check_fields(
            per_class=self.per_class,
            rounds=self.rounds,
            width=self.width,
            learning_rate=self.learning_rate,
            count_floor=self.count_floor,
        )
        check_strategies(self.strategies)
        check_share("momentum", self.momentum)
        check_share("average", self.average)

    def query(self) -> PlainEmbeddingQuery:
        return PlainEmbeddingQuery()

    def optimiser(self) -> optax.GradientTransformation:
        return optax.sgd(self.learning_rate, self.momentum)
