"""DOS: noised class signals of random networks, released once, then matched for any number of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import SCRATCH, Distilled, Method, Progress, no_progress
from dpdistill.methods.centre import denoised, pictures_around
from dpdistill.methods.descent import Descent, Pull
from dpdistill.methods.generator import Generator
from dpdistill.methods.kept_rows import kept_rows
from dpdistill.methods.matching import (
    EmbeddingQuery,
    PixelQuery,
    clip,
    counts_of,
    features,
    labels,
    mean_features,
    network,
    principal_directions,
    put_release,
    start_images,
)
from dpdistill.methods.subclasses import CellMeans, CellSignals, averaging, first_offsets, shares, view
from dpdistill.methods.tiles import check_tiles, through_tiles, tiles
from dpdistill.methods.training import ClassLoss, Loss, Training, distance
from dpdistill.networks.augment import mosaic
from dpdistill.networks.convnet import embed_convnet
from dpdistill.query import Query, Release
from dpdistill.recipe.features import SHAPES_ONLY
from dpdistill.recipe.generators import GeneratorSettings
from dpdistill.recipe.methods import dos as recipe
from dpdistill.schema import Schema

MOST_HELD = 1 << 30
"""Most bytes of centres and directions that are held in memory; more are kept in the file of the run."""
CACHED_IMAGES = 20
EACH_GENERATED, CODE = 20, 16
"""Images per class that a generator makes per step, and random coordinates of one image."""


class DOS(recipe.DOS, Method):
    """Decoupled optimisation and sampling, with a centre computed from a cheap first release.

        stage 0   P_c = sum of the pixels of class c + noise, the pilot, for a small share of the budget
        stage 1   S_tc = sum_i clip(phi_t(x_i) - centre_t) + noise,   t = 1 .. networks, each released once
        stage 2   min over images of  sum_tc || S_tc / (q count_c) - mean_j clip(phi_t(s_cj) - centre_t) ||^2 / C^2

    centre_t is the mean feature, in network t, of generated images around the pilot's denoised class means
    (`pictures_around`, `denoised`). The centre removes the common part of all classes before clipping, so that the
    signal is about twice as large under the same noise.

    With subspace = p > 0 (SER) a signal keeps p principal directions of public images' features in its network, so
    that less noise is added; without a pilot the mean of those features is the centre. The images are procedurally
    generated unless the caller names some; the guarantee does not cover them.

    With cells > 1 each class is divided into that many subclasses, by the difference between a coarse view of a record
    and the pilot's mean (`cell_of`). One more round releases the means of the subclasses, and every S_tc is one sum per
    subclass, at the cost of one sum, since a record is in one subclass. The number of a class's images, or tiles, that
    start from and follow a subclass is proportional to its released share of records. If there are fewer tiles than
    subclasses, the tiles follow the whole class.

    Guarantee: stages 0 and 1 are calibrated together; stage 2 is post-processing.
    Source: Zheng et al., 2025 (DOSSER); ours: the pilot, cells, and generated images instead of public ones.
    """

    @property
    def _parts(self) -> int:
        return max(1, self.cells)

    def query(self) -> EmbeddingQuery:
        return (CellSignals if self.cells > 1 else EmbeddingQuery)(self.clip_norm, self.count_coordinate)

    def init(self, key: Array, schema: Schema) -> Any:
        classes, d = len(schema.classes), self._dimension(schema.shape)
        check_tiles(schema.shape, self.expand)
        if self.subspace > d:
            raise ValueError(f"Expected subspace={self.subspace} <= {d}, the features that the networks have.")
        if self.subspace:
            self._public(schema.shape)  # refuses images of another shape, or too few
        of_cells = {"cells": np.zeros((classes, self.cells, *schema.shape), np.float32)} if self.cells > 1 else {}
        return {
            **of_cells,
            "key": np.asarray(jax.random.key_data(key)),
            "round": np.zeros((), np.int64),
            "pilot": np.zeros((self._pilots, classes, *schema.shape), np.float32),
            "signals": np.zeros((self.networks, classes, self._parts * (1 + (self.subspace or d))), np.float32),
        }

    def _dimension(self, shape: tuple[int, ...]) -> int:
        """Returns the number of features of the networks."""
        params = jax.eval_shape(lambda: network(jax.random.key(0), 0, shape, self.width))
        image = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
        return jax.eval_shape(embed_convnet, params["blocks"], image).shape[1]

    def finish_bytes(self, schema: Schema) -> int:
        """Returns the bytes of the centres and directions of all networks, if they are held in memory."""
        size = self._space_bytes(schema.shape)
        return size if size <= MOST_HELD else 0

    def disk_bytes(self, schema: Schema) -> int:
        """Returns the bytes of the centres and directions of all networks, if they are kept in a file."""
        return self._space_bytes(schema.shape) - self.finish_bytes(schema)

    def _space_bytes(self, shape: tuple[int, ...]) -> int:
        return 4 * self.networks * (1 + self.subspace) * self._dimension(shape) if self.subspace else 0

    @partial(jax.jit, static_argnums=(0, 3))
    def _network(self, key: Array, t: Array | int, shape: tuple[int, ...], blocks: object = None) -> Any:
        """Returns params of network t, random unless blocks are passed, with all features and no centre."""
        params = network(key, t, shape, self.width, self.strategies)
        return params if blocks is None else {**params, "blocks": blocks}

    def _space(self, state: Any, t: int) -> dict[str, np.ndarray]:
        """Returns the centre and directions of network t, if any."""
        shape, space = state["pilot"].shape[2:], {}
        if self.subspace:
            space["centre"], space["directions"] = _space_of(self, state["key"].tobytes(), t, shape)
        if self._pilots:
            params = self._network(state["key"], t, shape, _taught_blocks(state, t))
            space["centre"] = mean_features(params, pictures_around(state["pilot"][0]))
        return space

    def _public(self, shape: tuple[int, ...]) -> np.ndarray:
        images = self.public_images.images(shape)
        if len(images) <= self.subspace:
            raise ValueError(f"Expected more public images than subspace={self.subspace}; got {len(images)}.")
        return images

    def params(self, known: Any, t: int) -> Any:
        """Returns params of network t from the inputs of all networks, `known`."""
        return {
            **self._network(known["key"], t, known["pilot"].shape[2:], _taught_blocks(known, t)),
            **known["spaces"][t],
        }

    def known(self, state: Any, progress: Progress = no_progress) -> dict[str, Any]:
        """Returns the inputs of `params` for all networks, with centres and directions, which take time."""
        if self._space_bytes(state["pilot"].shape[2:]) > MOST_HELD:
            return {**_network_inputs(state), "spaces": _Spaces(self, state)}
        spaces = []
        for t in range(self.networks):
            spaces.append(self._space(state, t))
            if spaces[-1]:
                progress("centres of networks", t + 1, self.networks)
        return {**_network_inputs(state), "spaces": spaces}

    def ask(self, state: Any) -> tuple[Query, Any]:
        t = int(state["round"]) - self.before
        of_cells = {"cells": self._cells(state)} if self.cells > 1 and state["round"] >= self._pilots else {}
        if t < 0:
            return self._query_of_means(state), of_cells
        return self.query(), {
            **self.params({**_network_inputs(state), "spaces": {t: self._space(state, t)}}, t),
            **of_cells,
        }

    def _query_of_means(self, state: Any) -> PixelQuery:
        kind = PixelQuery if state["round"] < self._pilots else CellMeans
        return kind(math.prod(state["pilot"].shape[2:]), self.count_coordinate)

    def _cells(self, state: Any) -> dict[str, Any]:
        """Returns the inputs of `cell_of`; offsets come from generated images until the means of cells are released."""
        pilot, means = state["pilot"][0], state["cells"]
        if state["round"] < self.before:
            offsets = np.stack([first_offsets(pilot.shape[1:], self.cells)] * len(pilot))
        else:
            moved = (means - pilot[:, None]).reshape(-1, *pilot.shape[1:])
            offsets = np.asarray(view(moved)).reshape(*means.shape[:2], -1)
        return {"means": pilot, "offsets": offsets}

    def tell(self, state: Any, release: Release) -> Any:
        after = {**state, "round": state["round"] + 1}
        if release.round >= self.before:
            return {**after, "signals": put_release(state["signals"], release.round - self.before, release)}
        query = self._query_of_means(state)
        of_cells = isinstance(query, CellMeans)
        sums = release.value.reshape(len(release.value), self._parts if of_cells else 1, -1)
        counts = counts_of(sums[None, ..., 0], query, 1.0, self.count_floor)
        means = (sums[..., 1:] / counts[..., None]).reshape(-1, *state["pilot"].shape[2:])
        means = denoised(means, release.stddev / counts.ravel()).reshape(*counts.shape, *means.shape[1:])
        if of_cells:
            return {**after, "cells": np.clip(state["pilot"][0][:, None] + means, -1.0, 1.0).astype(np.float32)}
        return {**after, "pilot": np.clip(means, -1.0, 1.0).reshape(state["pilot"].shape).astype(np.float32)}

    def finish(self, state: object, schema: Schema, progress: Progress = no_progress) -> Distilled:
        y = labels(len(schema.classes), self.per_class)
        descent = Descent(self.learning_rate, self.steps, self.average)
        known = self.known(state, progress)
        moved = descent.along(self.start(state, schema), self.pull(state, known), progress)
        X = np.clip(np.asarray(moved.average), -1.0, 1.0)
        made = self.generator(SignalMatch(self, schema.shape), state, known, schema, progress)
        return Distilled(X, y, schema, tiles(X, y, self.expand), generator=made)

    def generator(
        self, loss: Loss, state: Any, known: dict[str, Any], schema: Schema, progress: Progress = no_progress
    ) -> Generator | None:
        """Returns a generator that follows the signals, one signal per step; None without steps.

        Args:
            loss: loss of the generated images: a SignalMatch, or an extension.
            state: state with all signals.
            known: inputs of `params` and of the loss.
            schema: schema of the images.
            progress: receives the steps.
        """
        how = {"steps": self.generator_steps, "code_size": CODE, "architecture": self.generator_kind}
        if not self.generator_steps:
            return None
        counts, targets = self._targets(state, 1)  # a generated image belongs to no single cell
        counts, targets = counts[:, 0], targets[:, :, 0]
        params = {
            **known,
            "targets": targets.astype(np.float32),
            "turns": self._signal_order(self.generator_steps),
        }
        settings = GeneratorSettings(batch=EACH_GENERATED * len(counts), **how)
        key = jax.random.fold_in(state["key"], self.networks + self.image_seed)
        return Training(settings, schema, loss).train(params, counts, jax.random.fold_in(key, 1), progress)

    @property
    def _followed(self) -> int:
        """Returns the number of cells that tiles follow; 1, the whole class, if there are fewer tiles than cells."""
        return self._parts if self.per_class * self.expand**2 >= self._parts else 1

    def _targets(self, state: Any, parts: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns released counts, (classes, parts), and mean clipped features, (networks, classes, parts, d).

        A part is a cell; or all cells together are one part.
        """
        sums = state["signals"].reshape(*state["signals"].shape[:2], self._parts, -1)
        sums = sums if parts > 1 else sums.sum(2, keepdims=True)
        counts = counts_of(sums[..., 0], self.query(), self.sampling_prob, self.count_floor)
        return counts, sums[..., 1:] / (self.sampling_prob * counts[..., None])

    def _tiles_of(self, counts: np.ndarray) -> np.ndarray:
        """Returns the number of a class's tiles that follow each cell, (classes, followed)."""
        return shares(counts, self.per_class * self.expand**2)

    def _signal_order(self, steps: int) -> np.ndarray:
        """Returns the signal of each step, (steps,), in random permutations: all are used equally often."""
        order, passes = np.random.default_rng(self.image_seed), -(-steps // self.networks)
        return np.concatenate([order.permutation(self.networks) for _ in range(passes)])[:steps]

    def pull(self, state: object, known: dict[str, Any]) -> Pull:
        """Returns the pull towards one released signal per step, by the tiles of the images."""
        (counts, targets), turns = self._targets(state, self._followed), self._signal_order(self.steps)
        matrices = averaging(self._tiles_of(counts))
        weights = (self._followed * counts / counts.sum(1, keepdims=True)).astype(np.float32)

        def pull(X: Array, step: int) -> Array:
            t = turns[step]
            return _gradient_of(self, X, self.params(known, t), targets[t], matrices, weights)

        return through_tiles(pull, self.expand)

    def start(self, state: Any, schema: Schema) -> Array:
        """Returns N(0, I), or images whose tiles are released means of classes or cells plus noise.

        Records influence either only through releases.
        """
        key = jax.random.fold_in(state["key"], self.networks + self.image_seed)
        noise = start_images(key, len(schema.classes) * self.per_class, schema)
        if not self._pilots:
            return noise
        means = state["cells"] if self._followed > 1 else state["pilot"][0][:, None]
        found = self._tiles_of(self._targets(state, self._followed)[0])
        own = np.concatenate([np.repeat(each, row, 0) for each, row in zip(means, found, strict=True)])
        images = mosaic(jnp.asarray(own).reshape(len(noise), -1, *schema.shape), self.expand)
        return jnp.clip(images + self.start_noise * noise, -1.0, 1.0)


def _network_inputs(state: Any) -> dict[str, Any]:
    """Returns the inputs of networks without directions: the key, the pilot, and trained networks if any."""
    return {name: state[name] for name in ("key", "pilot", "taught") if name in state}


def _taught_blocks(known: Any, t: int) -> Any:
    """Returns the blocks of network t if it is one of the first, trained networks; None if it is random."""
    blocks = known.get("taught")
    if blocks is None or t >= len(jax.tree.leaves(blocks)[0]):
        return None
    return jax.tree.map(lambda stack: stack[t], blocks)


@dataclass(frozen=True, eq=False)
class _Spaces:
    """Centres and directions of networks, read from the file of the run one at a time."""

    method: DOS
    state: Any

    def __getitem__(self, t: int) -> dict[str, np.ndarray]:
        if SHAPES_ONLY.get():  # a run reads them: the rounds have computed them
            d = self.method._dimension(self.state["pilot"].shape[2:])
            return {"centre": np.zeros(d, np.float32), "directions": np.zeros((d, self.method.subspace), np.float32)}
        return self.method._space(self.state, int(t))


def _space_of(method: DOS, key: bytes, t: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and directions of public images in network t, kept in memory or in a file: steps repeat them."""
    if method._space_bytes(shape) <= MOST_HELD or SHAPES_ONLY.get():
        return _new_space(method, key, t, shape)
    kept = kept_rows(SCRATCH.get(), method.networks, (1 + method.subspace, method._dimension(shape)), (method, key))
    if (row := kept.read(t)) is None:
        centre, directions = _new_space.__wrapped__(method, key, t, shape)
        kept.write(t, row := np.concatenate([centre[None], directions.T]))
    return row[0], row[1:].T


@lru_cache(maxsize=256)
def _new_space(method: DOS, key: bytes, t: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    params = method._network(np.frombuffer(key, np.uint32), t, shape)
    return principal_directions(params, method._public(shape), method.subspace)


@dataclass(frozen=True)
class SignalMatch(ClassLoss):
    """Loss || mean clipped features of generated images - released signal ||^2 / C^2 per class; one signal per step."""

    method: DOS
    shape: tuple[int, ...]

    def __call__(self, params: Any, X: Array, step: Array) -> Array:
        t = int(params["turns"][step])
        return self._distance(self.method.params(params, t), params["targets"][t], X)

    def gradient(self, params: Any, X: Array, step: Array | int) -> Array:
        """Returns the gradient; a CPU computes one class at a time, which fits its cache."""
        t, at_once = int(params["turns"][step]), 1 if jax.default_backend() == "cpu" else len(X)
        network, targets = self.method.params(params, t), params["targets"][t]
        groups = [slice(c, c + at_once) for c in range(0, len(X), at_once)]
        return jnp.concatenate([self._gradient(network, targets[g], X[g]) for g in groups])

    def _distance(self, network: Any, targets: Array, X: Array) -> Array:
        query = self.method.query()
        phi = clip(features(network, X.reshape(-1, *self.shape)), query.bound)
        return distance(phi.reshape(*X.shape[:2], -1), targets) / query.scale

    @partial(jax.jit, static_argnums=0)
    def _gradient(self, network: Any, targets: Array, X: Array) -> Array:
        return jax.grad(lambda X: jnp.sum(self._distance(network, targets, X)))(X)


def _gradient_of(
    method: DOS, images: Array, params: object, target: np.ndarray, matrices: np.ndarray, weights: np.ndarray
) -> Array:
    """Returns the gradient of one signal's loss; a CPU sums groups of classes that fit its cache."""
    classes, _, each = matrices.shape
    at_once = max(1, CACHED_IMAGES // each) if jax.default_backend() == "cpu" else classes
    groups = [slice(c, min(c + at_once, classes)) for c in range(0, classes, at_once)]
    rows = [slice(g.start * each, g.stop * each) for g in groups]
    parts = [
        _gradient(method, images[r], params, target[g], matrices[g], weights[g])
        for g, r in zip(groups, rows, strict=True)
    ]
    return jnp.concatenate(parts)


@partial(jax.jit, static_argnums=0)
def _gradient(method: DOS, images: Array, params: object, target: Array, matrices: Array, weights: Array) -> Array:
    query = method.query()

    def loss(images: Array) -> Array:
        v = clip(features(params, images), query.bound)
        found = matrices @ v.reshape(len(matrices), -1, v.shape[-1])
        return jnp.sum(weights[..., None] * jnp.square(found - target)) / query.scale

    return jax.grad(loss)(images)
