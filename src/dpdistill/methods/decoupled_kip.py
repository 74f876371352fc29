"""Decoupled KIP: releases a linear classifier on fixed features, and fits a support set that teaches the same one."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.apply import encode_slices, encode_slices_with_chain_rule
from dpdistill.features.eight_bits import EightBits
from dpdistill.kernels import KERNELS
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import centred, check_definite, cosine, one_hot, solve
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.choice import (
    Candidates,
    ChosenQuery,
    RightlyNamedQuery,
    class_means,
    counts_with_lead,
    parts_of,
    public_mean,
    sizes_of,
)
from dpdistill.methods.class_means import ClassSumsQuery, LessMeansQuery, common_directions
from dpdistill.methods.descent import Descent, Pull
from dpdistill.methods.matching import labels
from dpdistill.methods.released_accuracy import AccuracyQuery, accuracy_table
from dpdistill.methods.softmax import SoftmaxQuery, bounded, step
from dpdistill.methods.support import SMALL, start_support
from dpdistill.methods.tiles import check_tiles, through_tiles, tiles
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.query import Query, Release
from dpdistill.recipe.methods import decoupled_kip as recipe
from dpdistill.schema import Schema

PROBES = 1000


class DecoupledKIP(recipe.DecoupledKIP, Method):
    """Releases a classifier once, then fits kernel inducing points as post-processing, for any number of steps.

        stage 1   G_t = sum_i clip((p_i - y_i) phi_i^T) + noise,   W <- W - step_t momentum(G_t / ||G_t||),   full batch
                  step_t is at most `step`, and shorter where it would add much noise to each weight
        stage 2   min over X_s of  (1 - cos(V, W)) + probes (1 - cos(F V, F W)),
                  V = Phi_s^T (K_ss + ridge tr(K_ss) / m I)^-1 y_s,   F the features of generated images

    Kernel ridge regression with a finite feature map is a linear classifier V in feature space, so a support set can
    teach any linear classifier: here W, whose gradients need a closed-form norm and two matrix products per round. W
    and F V are centred over the classes before they are compared.

    With means > 0 that share of the budget first releases the class sums of features. Gradients then use features psi:
    phi without the mean direction, reduced in the directions in which class means differ (`common_directions`), and
    renormalised. The classifier on phi is A W: its decisions are those of W on psi, its scores are scaled by ||A phi||.

    With candidates a share of the budget first chooses the kernel: one release of the class sums of all candidates'
    features, and one of the number of records whose class these means name, for each candidate.
    The gradients then use the candidate of the largest number, where the first one has a lead (`counts_with_lead`).

    With accuracy > 0 that share of the budget releases, last, how many records of each class the classifier misses.

    Guarantee: stage 1 is rounds releases of sensitivity C (add-or-remove), calibrated together with one of sensitivity
    1 for means > 0, two for candidates, and one for accuracy > 0; stage 2 is post-processing.
    Source: ours; the classifier as in Tramer & Boneh, 2021 (Differentially private learning needs better features).
    """

    kernel: FeatureKernel

    def init(self, key: Array, schema: Schema) -> Any:
        check_tiles(schema.shape, self.expand)
        record = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
        d = jax.eval_shape(self._encoder, record).shape[1]
        W = np.zeros((d, len(schema.classes)))
        state = {"key": np.asarray(jax.random.key_data(key)), "round": np.zeros((), np.int64), "W": W, "velocity": W}
        if self.accuracy:
            state["accuracy"] = np.zeros((W.shape[1] + 1, 4))
        if self.candidates:
            K = len(self.candidates)
            state |= {"round": state["round"] - 2, "shape": np.array(schema.shape), "M": W}
            return {**state, "offset": np.zeros((K, W.shape[1])), "counts": np.zeros(K)}
        return {**state, "round": state["round"] - 1, "B": np.zeros_like(W)} if self.means else state

    def ask(self, state: Any) -> tuple[Query, Any]:
        W, encoder = state["W"], EightBits(self._encoder)
        if state["round"] == self.rounds:
            return AccuracyQuery(W.shape[1], encoder), self._on_all_features(state)
        if self.candidates:
            return self._ask_among_candidates(state, encoder)
        if not self.means:
            return SoftmaxQuery(self.clip_norm, W.shape[1], encoder), W
        if state["round"] < 0:
            return ClassSumsQuery(1.0, W.shape[1], encoder), np.zeros(0)
        return LessMeansQuery(self.clip_norm, W.shape[1], encoder), {"W": W, "B": state["B"]}

    def _ask_among_candidates(self, state: Any, encoder: EightBits) -> tuple[Query, Any]:
        W = state["W"]
        if state["round"] == -2:
            return ClassSumsQuery(1.0, W.shape[1], encoder), np.zeros(0)
        if state["round"] == -1:
            return RightlyNamedQuery(self._sizes(state), encoder), {name: state[name] for name in ("M", "offset")}
        query = ChosenQuery(self.clip_norm, W.shape[1], encoder, most=max(self._sizes(state)))
        return query, {"W": W, "kept": self._kept(state)[:, 0]}

    def tell(self, state: Any, release: Release) -> Any:
        after = {**state, "round": state["round"] + 1}
        if state["round"] == self.rounds:
            return {**after, "accuracy": accuracy_table(release, state["W"].shape[1])}
        if self.candidates and state["round"] == -2:
            public = public_mean(self._encoder, _shape(state))
            return {**after, **class_means(release.value.reshape(state["W"].shape), public, self._sizes(state))}
        if self.candidates and state["round"] == -1:
            return {**after, "counts": counts_with_lead(release, len(self.candidates))}
        if state["round"] < 0:
            sums = release.value.reshape(state["W"].shape)
            return {**after, "B": common_directions(sums)}
        G = release.value.reshape(state["W"].shape)
        if self.candidates:  # other candidates' numbers are noise alone
            G = G * self._kept(state)
        size = bounded(self.step, G, release.stddev)
        return {**after, **step(state, G, int(state["round"]), self.rounds, self.momentum, size)}

    @property
    def _encoder(self) -> Any:
        """Returns the features that the rounds read: the kernel's, or those of all candidates."""
        if not self.candidates:
            return self.kernel.encoder
        return Candidates(tuple(_feature_kernel(name).encoder for name in self.candidates))

    def _sizes(self, state: Any) -> tuple[int, ...]:
        """Returns the numbers of features of the candidates."""
        return sizes_of(self._encoder, _shape(state))

    def _part(self, state: Any) -> slice:
        """Returns the places of the chosen candidate's features."""
        return parts_of(self._sizes(state))[recipe.chosen(state["counts"])]

    def _kept(self, state: Any) -> np.ndarray:
        """Returns (D, 1): 1 for features of the chosen candidate and 0 for others."""
        kept = np.zeros((len(state["W"]), 1))
        kept[self._part(state)] = 1.0
        return kept

    def kernel_of(self, state: Any) -> FeatureKernel:
        """Returns the kernel, or the candidate that the releases chose."""
        return _feature_kernel(self.candidates[recipe.chosen(state["counts"])]) if self.candidates else self.kernel

    def finish(self, state: Any, schema: Schema, progress: Progress = no_progress) -> Distilled:
        classes = len(schema.classes)
        key = jax.random.fold_in(jnp.asarray(state["key"]), self.image_seed)
        X = start_support(key, classes, self.per_class, schema, self.start_noise)
        descent = Descent(self.learning_rate, self.steps, epsilon=SMALL)
        moved = descent.along(X, self.pull(state, schema), progress)
        return self.distilled(np.asarray(moved.X), state, schema)

    def distilled(self, X: np.ndarray, state: Any, schema: Schema) -> Distilled:
        """Returns the images with the released classifier."""
        y = labels(len(schema.classes), self.per_class)
        beside = {"classifier": self.classifier(state), "encoder": self.kernel_of(state).encoder}
        if self.candidates:
            beside["counts"] = np.asarray(state["counts"], np.float64)
        if self.accuracy:
            beside["accuracy"] = np.asarray(state["accuracy"], np.float64)
        return Distilled(X, y, schema, tiles(X, y, self.expand), **beside)

    def classifier(self, state: Any) -> np.ndarray:
        """Returns the classifier on the kernel's features, (d, classes), centred over the classes."""
        W = self._on_all_features(state)
        W = W[self._part(state)] if self.candidates else W
        return (W - W.mean(1, keepdims=True)).astype(np.float32)

    def _on_all_features(self, state: Any) -> np.ndarray:
        """Returns the classifier on the features that the rounds read; 0 for those of candidates not chosen."""
        W = state["W"]
        return W - state["B"] @ (state["B"].T @ W) if self.means else W

    def pull(self, state: object, schema: Schema) -> Pull:
        """Towards a support set, the tiles of the images, whose kernel ridge regression is the released classifier."""
        encoder, W = self.kernel_of(state).encoder, self.classifier(state)
        Y_s = one_hot(labels(len(schema.classes), self.per_class * self.expand**2), len(schema.classes))
        F = jnp.asarray(encode_slices(encoder, _pictures(schema.shape, self.image_seed)))  # not copied at every step

        def pull(X: Array, step: int) -> np.ndarray:
            Phi, pull_back = encode_slices_with_chain_rule(encoder, X)
            by_feature = np.asarray(_by_feature(self, Phi, Y_s, W, F))
            check_definite(by_feature, self.ridge)
            return pull_back(by_feature)

        return through_tiles(pull, self.expand)


def _shape(state: Any) -> tuple[int, ...]:
    return tuple(map(int, state["shape"]))


def _feature_kernel(name: str) -> FeatureKernel:
    kernel = KERNELS[name]
    assert isinstance(kernel, FeatureKernel)
    return kernel


@lru_cache(maxsize=4)
def _pictures(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return draw_pictures(PROBES, shape, seed)


@partial(jax.jit, static_argnums=0)
def _by_feature(method: DecoupledKIP, Phi: Array, Y_s: Array, W: Array, F: Array) -> Array:
    """Gradient of stage 2's loss with respect to the features of the support set."""

    def loss(Phi: Array) -> Array:
        V = Phi.T @ solve(Phi @ Phi.T, Y_s, method.ridge)
        return 1.0 - cosine(V, W) + method.probes * (1.0 - cosine(centred(F @ V), centred(F @ W)))

    return jax.grad(loss)(Phi)
