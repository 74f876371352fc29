"""What random networks would learn from a synthetic set, compared with a released classifier on drawn pictures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.encode.augment import partition_expand
from dpdistill.kernels.ridge import centred, check_definite, cosine, one_hot, solve
from dpdistill.methods.descent import Pull
from dpdistill.methods.matching import features, labels
from dpdistill.methods.support import in_slices

RIDGE = 1e-2
A_STEP = 500


def lesson(
    network: Callable[[int], Any], classes: int, per_class: int, expand: int, X: np.ndarray, scores: np.ndarray
) -> Pull:
    """Towards images from which random networks learn to score pictures as a classifier does.

        F_t V_t  against  scores,   V_t = Phi_t^T (Phi_t Phi_t^T + ridge tr / m I)^-1 Y,   loss 1 - cos, centred

    Phi_t are the features of the images' tiles in network t, F_t those of 500 of the pictures, others at each step.

    Args:
        network: params of the random network of a step.
        classes: of the images, in order.
        per_class: images of each.
        expand: tiles a side of every image; 1: the images themselves.
        X: pictures in [-1, 1], (n, h, w, c), nobody's records.
        scores: the classifier's, (n, classes).

    Source: ours, after Loo et al., 2022 (Efficient dataset distillation using random feature approximation), with a
    released classifier in the place of labels.
    """
    Y = one_hot(labels(classes, per_class * expand**2), classes)

    def pull(images: Array, step: int) -> np.ndarray:
        params = network(step)
        rows = np.random.default_rng(step).choice(len(X), min(A_STEP, len(X)), replace=False)
        tiles, to_images = jax.vjp(partial(_tiles, expand), jnp.asarray(images))
        Phi, F = (in_slices(partial(_features, params), Z) for Z in (tiles, X[rows]))
        by_feature = np.asarray(_by_feature(Phi, Y, F, scores[rows]))
        check_definite(by_feature, RIDGE)
        (gradient,) = to_images(jnp.asarray(in_slices(partial(_pull_back, params), tiles, by_feature)))
        return np.asarray(gradient)

    return pull


_features = jax.jit(features)
_pull_back = jax.jit(lambda params, X, gradient: jax.vjp(partial(features, params), X)[1](gradient)[0])


@partial(jax.jit, static_argnums=0)
def _tiles(expand: int, images: Array) -> Array:
    return partition_expand(images, expand)


@jax.jit
def _by_feature(Phi: Array, Y: Array, F: Array, scores: Array) -> Array:
    def loss(Phi: Array) -> Array:
        V = Phi.T @ solve(Phi @ Phi.T, Y, RIDGE)
        return 1.0 - cosine(centred(F @ V), centred(scores))

    return jax.grad(loss)(Phi)
