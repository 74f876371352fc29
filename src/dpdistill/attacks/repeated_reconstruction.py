"""Trains and attacks a network repeatedly, each time without the best reconstructed records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.stats import spearmanr

from dpdistill.attacks.attacked_networks import Attacked, Descent, kernel_distance, outputs_of, tangent_kernel
from dpdistill.attacks.reconstruction import Curve, Reconstruction, curve, outliers
from dpdistill.method import Progress, no_progress


@dataclass(frozen=True, eq=False)
class Layer:
    """One training on some of the records, with its reconstructions.

    Args:
        rows: indices of its training records, (n,), best reconstructed first.
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
        """Returns the rank correlation of duals and distances, below zero if outliers are reconstructed best."""
        return rank_correlation(self.duals, self.pairs.distances)


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Returns Spearman's rank correlation; 0 if one side is constant."""
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(spearmanr(one, other)[0])  # type: ignore[arg-type]


def check_layers(records: int, layers: int, removed: int) -> None:
    """Refuses more layers than the records allow.

    Raises:
        ValueError: too many layers, with the number of records.
    """
    if layers < 1 or removed < 1 or records - (layers - 1) * removed < 2:
        raise ValueError(f"Expected at least two records in the last of {layers} layers; got {records} records in all.")


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
    """Trains and attacks a network, removes the best reconstructed records, and repeats.

    Args:
        X: records, (n, ...).
        targets: training targets of the records, (n, k).
        net: the network.
        params: initial parameters, equal in every layer.
        how: options of the training.
        attack: the attack, whose number of images is for all records and reduced in proportion for fewer.
        layers: number of trainings.
        removed: number of records removed after each training.
        linearised: train the network's first-order expansion.
        seed: seed of the attacks.
        progress: receives the stages of the attacks.

    Returns:
        The layers, outermost first.

    Raises:
        ValueError: more layers than the records allow.

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
