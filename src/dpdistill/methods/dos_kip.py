"""DOS-KIP: images for networks and kernels, from class signals and a classifier under one budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.apply import encode_slices
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import soft_labels
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.decoupled_kip import DecoupledKIP
from dpdistill.methods.descent import Descent, reuse
from dpdistill.methods.dos import DOS, SignalMatch
from dpdistill.methods.matching import network
from dpdistill.methods.support import classifier_scores
from dpdistill.methods.teacher_training import Lesson, teach
from dpdistill.methods.tiles import check_tiles, parts_of
from dpdistill.methods.training import Loss
from dpdistill.query import Query, Release
from dpdistill.recipe.methods import dos_kip as recipe
from dpdistill.recipe.parts import implement
from dpdistill.schema import Schema


class DOSKIP(recipe.DOSKIP, Method):
    """Fits images to the releases of DOS and decoupled KIP, so that networks and kernel regression learn from one set.

        stage 1   decoupled KIP: the gradients of a classifier on fixed features, for a share of the budget;
                  with means > 0 preceded by class sums of features
        stage 2   DOS: a pilot and class signals of networks, for the rest of the budget
        stage 3   images <- images - Adam((1 - weight) unit(g_signals) + weight unit(g_classifier))

    With taught > 0 up to that many networks of stage 2 are trained, after the pilot, on the stage-1 classifier's scores
    of procedurally generated images, mixed with the pilot's means of classes or cells. Their features separate the
    classes. The other networks are random.

    With cells > 1 each class has that many subclasses with separate signals, as in DOS.

    g_classifier, the slowest part with a slow encoder, is computed every `hold` steps and reused in between.

    The images have soft labels softmax(s / T): s are the classifier's scores, T is the softness times the mean margin
    of the score of an image's class over the other scores. An image with a negative margin keeps a hard label.
    Each image is cut into expand x expand tiles, which follow both releases and have separate soft labels: networks and
    kernels learn from the tiles. By default there are 2 x 2 tiles if they have at least 14 pixels per side, else none.
    All other settings are the defaults of the two methods.

    Guarantee: stages 1 and 2 are calibrated together; stage 3 is post-processing.
    Source: ours, from DOS and decoupled KIP.
    """

    kernel: FeatureKernel

    @property
    def signals(self) -> DOS:
        """Returns the method of the part that networks learn from."""
        return implement(super().signals, DOS)

    @property
    def classifier(self) -> DecoupledKIP:
        """Returns the method of the part that kernels learn from."""
        return implement(super().classifier, DecoupledKIP)

    def init(self, key: Array, schema: Schema) -> Any:
        check_tiles(schema.shape, parts_of(self.expand, schema.shape))
        classifier, signals = self.classifier.init(key, schema), self.signals.init(key, schema)
        if self.taught:
            blocks = jax.eval_shape(lambda: network(key, 0, schema.shape, self.width))["blocks"]
            signals["taught"] = jax.tree.map(
                lambda leaf: np.zeros((self._taught_networks, *leaf.shape), np.float32), blocks
            )
        return {"classifier": classifier, "signals": signals}

    def at_round(self, state: Any, t: int) -> Any:
        first = sum(stage.rounds for stage in self.classifier.plan())
        return {
            "classifier": self.classifier.at_round(state["classifier"], min(t, first)),
            "signals": self.signals.at_round(state["signals"], max(t - first, 0)),
        }

    def _part(self, state: Any) -> str:
        return "classifier" if int(state["classifier"]["round"]) < self.classifier.last_round else "signals"

    def ask(self, state: Any) -> tuple[Query, Any]:
        part = self._part(state)
        return getattr(self, part).ask(state[part])

    def tell(self, state: Any, release: Release) -> Any:
        part = self._part(state)
        if part == "signals":
            release = replace(release, round=release.round - sum(stage.rounds for stage in self.classifier.plan()))
        state = {**state, part: getattr(self, part).tell(state[part], release)}
        signals_are_next = part == "signals" and release.round + 1 == self.signals.before
        return {**state, "signals": self._teach(state)} if signals_are_next and self.taught else state

    def _teach(self, state: Any) -> Any:
        """Returns the state of the signals, with networks trained on the classifier's scores of generated images."""
        classifier, signals = self.classifier, state["signals"]
        encoder, W = classifier.kernel_of(state["classifier"]).encoder, classifier.classifier(state["classifier"])
        key = jax.random.split(signals["key"])[1]
        lesson = Lesson(self._taught_networks, self.pictures, self.width)
        means = (signals["cells"] if self.cells > 1 else signals["pilot"]).reshape(-1, *signals["pilot"].shape[2:])
        return {**signals, "taught": teach(key, lambda X: encode_slices(encoder, X) @ W, means, lesson)}

    @property
    def _taught_networks(self) -> int:
        return min(self.taught, self.networks)

    def finish(self, state: Any, schema: Schema, progress: Progress = no_progress) -> Distilled:
        shared = {name: getattr(self, name) for name in ("per_class", "steps", "image_seed")}
        shared |= {"expand": parts_of(self.expand, schema.shape)}
        generated = {name: getattr(self, name) for name in ("generator_steps", "generator_kind")}
        signals = replace(self.signals, **generated, **shared)
        classifier = replace(self.classifier, **shared)
        known = signals.known(state["signals"], progress)
        pulls = [
            (1 - self.weight, signals.pull(state["signals"], known)),
            (self.weight, reuse(classifier.pull(state["classifier"], schema), self.hold)),
        ]

        def pull(X: Array, step: int) -> Any:
            return sum(weight * _unit(towards(X, step)) for weight, towards in pulls if weight)

        descent = Descent(self.learning_rate, self.steps, self.average)
        moved = descent.along(signals.start(state["signals"], schema), pull, progress)
        X = np.clip(np.asarray(moved.average), -1.0, 1.0)
        kernel = classifier.kernel_of(state["classifier"])
        loss = SetMatch(SignalMatch(signals, schema.shape), kernel, self.weight, self.hold)
        known |= {"classifier": classifier.classifier(state["classifier"])}
        generator = signals.generator(loss, state["signals"], known, schema, progress)
        made = replace(classifier.distilled(X, state["classifier"], schema), generator=generator)
        if not self.softness:
            return made
        X, y = made.train_set
        return replace(made, soft_labels=soft_labels(classifier_scores(made, X), y, self.softness))


@dataclass(frozen=True)
class SetMatch(Loss):
    """Loss of generated images against both releases, with the weighted sum of both gradients, each of norm 1.

    classifier   sum - log p_y,   p = softmax(phi(x) W), y the class that an image was made for;
                 every `hold` steps, and times the mean of 1 - p_y, so that correctly classified images weigh less
    """

    signals: SignalMatch
    kernel: FeatureKernel
    weight: float
    hold: int

    def gradient(self, params: Any, X: Array, step: Array | int) -> np.ndarray:
        pulled = (1 - self.weight) * _unit(self.signals.gradient(params, X, step))
        if not self.weight or step % self.hold:
            return pulled
        found = [self._classification_loss(params["classifier"], X[c], c) for c in range(len(X))]
        missed = float(np.mean([missed for missed, _ in found]))
        return pulled + self.weight * missed * _unit(jnp.stack([by_image for _, by_image in found]))

    @partial(jax.jit, static_argnums=0)
    def _classification_loss(self, classifier: Array, X: Array, c: Array | int) -> tuple[Array, Array]:
        """Returns the mean of 1 - p_c of images X (m, d), and the gradient of sum - log p_c with respect to X."""

        def loss(X: Array) -> tuple[Array, Array]:
            own = jax.nn.log_softmax(self.kernel.encoder(X.reshape(-1, *self.signals.shape)) @ classifier)[:, c]
            return -jnp.sum(own), 1.0 - jnp.mean(jnp.exp(own))

        by_image, missed = jax.grad(loss, has_aux=True)(X)
        return missed, by_image


def _unit(gradient: Any) -> np.ndarray:
    g = np.asarray(gradient)
    return g / max(float(np.linalg.norm(g)), 1e-30)
