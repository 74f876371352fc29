"""A network trained on records as its owner might, attacked, and again without the records that came back: an onion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.stats import spearmanr

from dpdistill.attacks.attacked import Attacked, Descent, kernel_distance, outputs_of, tangent_kernel
from dpdistill.attacks.reconstruction import Curve, Reconstruction, curve, outliers
from dpdistill.method import Progress, no_progress


@dataclass(frozen=True, eq=False)
class Layer:
    """A network on some of the records, and what was rebuilt from it.

    Args:
        rows: the records that it was trained on, (n,), best rebuilt first.
        pairs: the reconstruction curve; its indices count from the first record of the layer as it was trained.
        found: reconstructions, (m, ...).
        duals: size of the dual of each record before training, (n,), in the order of rows.
        turned: kernel distance of the tangent kernels before and after training.
    """

    rows: np.ndarray
    pairs: Curve
    found: np.ndarray
    duals: np.ndarray
    turned: float

    @property
    def correlation(self) -> float:
        """Rank correlation of duals and distances: below zero where outliers are rebuilt best."""
        return rank_correlation(self.duals, self.pairs.distances)


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's, and 0 where one side is constant."""
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(spearmanr(one, other)[0])  # type: ignore[arg-type]


def check_layers(records: int, layers: int, removed: int) -> None:
    """Refuse so many layers that no record would be left.

    Raises:
        ValueError: with how many there are.
    """
    if layers < 1 or removed < 1 or records - (layers - 1) * removed < 2:
        raise ValueError(f"Expected two records and more in the last of {layers} layers; {records} are there.")


def peel(
    X: Any,
    targets: Any,
    net: Attacked,
    params: Any,
    how: Descent,
    attack: Reconstruction,
    *,
    layers: int = 3,
    removed: int = 10,
    linearised: bool = False,
    seed: int = 0,
    progress: Progress = no_progress,
) -> list[Layer]:
    """Train, attack, take out the records that were rebuilt best, and begin anew: who is safe then?

    Args:
        X: records, (n, ...).
        targets: what the network is to say of them, (n, k).
        net: the network.
        params: before training, in every layer.
        how: the training.
        attack: the attack; as many images as it says for all records, and fewer in proportion for fewer.
        layers: trainings.
        removed: records that are taken out between two of them.
        linearised: train the network's expansion in the place of the network.
        seed: of the attacks.
        progress: told the stages of the attacks.

    Returns:
        The layers, outermost first.

    Raises:
        ValueError: so many layers that no record would be left.

    Source: Loo et al., 2024 (Understanding reconstruction attacks with the neural tangent kernel), section 5; the onion
    is of Carlini et al., 2022 (The privacy onion effect).
    """
    check_layers(len(X), layers, removed)
    X, targets, rows, found = np.asarray(X), np.asarray(targets), np.arange(len(X)), []
    train = how.train_linearised if linearised else how.train
    for layer in range(layers):
        images = -(-attack.images * len(rows) // len(X))
        search = replace(attack, images=images, batch=attack.batch and min(attack.batch, images))
        after = train(net, params, X[rows], targets[rows])
        made = search.run(net, params, after, X.shape[1:], seed=seed + layer, progress=progress)
        pairs = curve(X[rows], made.X)
        seen = jnp.asarray(X[rows])
        before, then = (tangent_kernel(net, p, seen) for p in (params, after))
        duals = outliers(before, outputs_of(net, params, seen), targets[rows])[pairs.images]
        found.append(Layer(rows[pairs.images], pairs, made.X, duals, kernel_distance(before, then)))
        rows = np.sort(rows[pairs.images[removed:]])
    return found
