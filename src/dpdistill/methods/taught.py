"""Networks that learn a released classifier's scores of pictures: their features tell the classes apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from dpdistill.encode.mixing import mix_pictures
from dpdistill.encode.networks import ConvNet
from dpdistill.encode.pictures import draw_pictures
from dpdistill.encode.train import STUDENT, epochs_of
from dpdistill.kernels.ridge import centred

BATCH = 64
KEPT = (1, 2, 4, 6, 8)
"""Epochs after which a network is kept: some have hardly learned, as random networks, others have."""


class Lesson(NamedTuple):
    """How many networks learn from how many pictures each, and filters of these networks."""

    networks: int
    pictures: int
    width: int


def teach(key: Array, scores: Callable[[np.ndarray], np.ndarray], means: np.ndarray, lesson: Lesson) -> Any:
    """Blocks of ConvNets that have learned scores of drawn pictures, mixed with released class means.

        min over nets of  mean_i || net(x_i) - (s_i - mean s_i) / deviation ||^2

    Every run of training starts at random, has pictures of its own and gives len(KEPT) networks.

    Args:
        key: of starts, pictures and batches.
        scores: of pictures (n, h, w, c) in [-1, 1], (n, classes): a released classifier's.
        means: released class means, (classes, h, w, c) in [-1, 1].
        lesson: at least one network and one picture.

    Returns:
        The tree of blocks, each leaf stacked: (networks, ...), float32.

    Guarantee:
        Post-processing of the two releases: no record is read.
    """
    training = replace(STUDENT, epochs=KEPT[-1], batch=BATCH, network=ConvNet(width=lesson.width))
    kept: list[Any] = []
    for run in range(-(-lesson.networks // len(KEPT))):
        own = jax.random.fold_in(key, run)
        seed = int(jax.random.bits(own) >> 1)
        X = mix_pictures(draw_pictures(lesson.pictures, means.shape[1:], seed), means, seed)
        targets = centred(scores(X))
        targets /= max(float(targets.std()), 1e-12)
        for epoch, net in enumerate(epochs_of(own, X, targets.astype(np.float32), training), 1):
            if epoch in KEPT:
                kept.append(jax.tree.map(np.array, net.params["blocks"]))
    return jax.tree.map(lambda *blocks: np.stack(blocks), *kept[: lesson.networks])
