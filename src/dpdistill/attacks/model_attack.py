"""Attacks a network with known parameters, to test which of its known training images can be reconstructed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpdistill.attacks.attacked_networks import attacked, kernel_distance, outputs_of, tangent_kernel
from dpdistill.attacks.reconstruction import Curve, Reconstruction, curve, outliers
from dpdistill.method import Progress, no_progress
from dpdistill.networks.network import Network

LARGEST_KERNEL = 2000
"""Largest number of records times outputs for a tangent kernel: a larger kernel takes hours and all memory."""


@dataclass(frozen=True, eq=False)
class Reconstructed:
    """Training images of a network, with their reconstructions.

    Args:
        members: training images, (n, h, w, c) in [0, 1].
        found: reconstructions, (m, h, w, c), in the same units.
        pairs: pairs of both, best first.
        unexplained: share of the change of the parameters that the reconstructions do not explain.
        duals: sizes of the duals of the training images before training, (n,), in the order of `pairs`; None where the
            tangent kernel is too large.
        turned: distance of the tangent kernels before and after training; None with `duals`.
    """

    members: np.ndarray
    found: np.ndarray
    pairs: Curve
    unexplained: float
    duals: np.ndarray | None
    turned: float | None


def reconstruct_members(
    network: Network,
    before: Any,
    after: Any,
    members: np.ndarray,
    attack: Reconstruction,
    *,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Reconstructed:
    """Reconstructs training images from a network's parameters, and compares the reconstructions with the images.

    Args:
        network: the trained network.
        before: its parameters before training.
        after: its parameters after training.
        members: training images, (n, h, w, c) in [0, 1]; the attack itself does not read them.
        attack: the search; its bounds are the network's input values for 0 and 1.
        seed: seed of the search.
        progress: called with the stages done.

    Returns:
        Images, reconstructions and their pairs.

    Raises:
        ValueError: parameters that do not fit each other, or fewer reconstructions than images.
    """
    low, high = attack.bounds or (0.0, 1.0)
    net = attacked(network)
    search = attack.run(net, before, after, members.shape[1:], seed=seed, progress=progress)
    found = (search.X - low) / (high - low)
    pairs = curve(members, found)
    seen = jnp.asarray(low + (high - low) * members)
    outputs = outputs_of(net, after, seen)
    if outputs.size > LARGEST_KERNEL:
        return Reconstructed(members, found, pairs, search.loss, None, None)
    kernels = [tangent_kernel(net, params, seen) for params in (before, after)]
    duals = outliers(kernels[0], outputs_of(net, before, seen), outputs)[pairs.images]
    return Reconstructed(members, found, pairs, search.loss, duals, kernel_distance(*kernels))
