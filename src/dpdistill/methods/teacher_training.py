"""Trains networks on a released classifier's scores of images, so that their features separate the classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from dpdistill.kernels.ridge import standardised
from dpdistill.networks.mixing import mix_pictures
from dpdistill.networks.network import ConvNet
from dpdistill.networks.training import STUDENT, training_steps
from dpdistill.public_images.pictures import draw_pictures

BATCH, RATE = 16, 2e-3
"""Learning rate of Adam."""
KEPT = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Shares of the training images after which a network is kept."""


class Lesson(NamedTuple):
    """Numbers of networks, of training images and of filters per layer."""

    networks: int
    pictures: int
    width: int


def teach(key: Array, scores: Callable[[np.ndarray], np.ndarray], means: np.ndarray, lesson: Lesson) -> Any:
    """Returns blocks of ConvNets trained on scores of generated images, mixed with released class means.

        min over nets of  mean_i || net(x_i) - (s_i - mean s_i) / deviation ||^2

    Every training run starts at random, uses every image once and returns len(KEPT) networks.

    Args:
        key: key of initial weights, images and batches.
        scores: a released classifier's scores (n, classes) of images (n, h, w, c) in [-1, 1].
        means: released class means, (classes, h, w, c) in [-1, 1].
        lesson: at least one network and one picture.

    Returns:
        The tree of blocks, each leaf stacked: (networks, ...), float32.

    Guarantee:
        Post-processing of the two releases: no record is read.
    """
    net = ConvNet(width=lesson.width)
    training = replace(STUDENT, epochs=1, batch=BATCH, learning_rate=RATE, optimiser="adam", network=net)
    seed = int(jax.random.bits(key) >> 1)
    X = mix_pictures(draw_pictures(lesson.pictures, means.shape[1:], seed), means, seed)
    targets = standardised(scores(X))
    steps = math.ceil(lesson.pictures / BATCH)
    kept: list[Any] = []
    for run in range(math.ceil(lesson.networks / len(KEPT))):
        for step, net in enumerate(training_steps(jax.random.fold_in(key, run), X, targets, training), 1):
            times = sum(math.ceil(share * steps) == step for share in KEPT)
            kept += times * [jax.tree.map(np.array, net.params["blocks"])] if times else []
    return jax.tree.map(lambda *blocks: np.stack(blocks), *kept[: lesson.networks])
