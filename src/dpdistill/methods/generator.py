"""Conditional generators of records, whose numbers can be matched to released marginals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.methods.generator_arrays import BINS, LEVELS, GeneratorArrays, Piece, numbers_of, pieces_of
from dpdistill.methods.generator_networks import outputs_of
from dpdistill.schema import TableSchema

CHUNK = 1000
"""Number of records drawn at once; a constant, since codes, labels and categories depend on it."""
GROUP = 100
"""Images per compiled call of a convolutional generator: the maps of a whole chunk may take gigabytes."""


def bins_of(X: Any) -> Any:
    """Returns the bins of encoded numbers, int32 in 0 .. BINS - 1."""
    xp = jnp if isinstance(X, jax.Array) else np
    return xp.clip(xp.floor((X + 1.0) * (BINS / 2)), 0, BINS - 1).astype(np.int32)


def centres_of(bins: np.ndarray) -> np.ndarray:
    """Returns the centres of bins as encoded numbers, float32."""
    return ((bins + 0.5) * (2.0 / BINS) - 1.0).astype(np.float32)


def indicator_groups(schema: Any) -> list[np.ndarray]:
    """Returns the coordinates of each categorical column and of each number's indicator; at most one per group is 1."""
    pieces = (p for p in pieces_of(schema) if p.kind != "numbers")
    return [np.arange(p.start + (p.kind == "gapped"), p.start + p.width, dtype=np.int32) for p in pieces]


@dataclass(frozen=True, eq=False)
class Generator(GeneratorArrays):
    """Generator x = heads(W_L relu(LN(... W_1 (z, one-hot y) ...))), y from released class shares, z from N(0, I).

    For images the last layers may be convolutions or residual blocks (`methods/generator_networks.py`).
    A number is a tanh; a category, or an indicator of missing, is drawn from a softmax. Integer columns are rounded
    when sampled. Every normalisation uses one record alone, so that records of a sample are independent.

    Numbers of a table may be matched to released marginals: shares of BINS equal parts of a number's range. A value at
    quantile p of the network's values moves to the bin at quantile p of the released shares. Its position in the bin
    follows its rank, which is drawn among the values of its former bin. A value in the right bin stays unchanged.

    Args:
        weights: W_1, b_1, ..., W_L, b_L, float32; W of a convolution is (side, side, channels, width).
        class_shares: released shares of the classes, (classes,), float64; they sum to 1.
        code_size: number of coordinates of z.
        schema: public facts of the generated records.
        marginals: released marginals of the table's numbers, in the order of its columns; None for unchanged numbers.
    """

    def sample(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Returns n records with labels from the released shares; sample(k) is the start of sample(n), k < n.

        Args:
            n: number of records, >= 0.
            seed: public seed of labels, codes and categories, in [0, 2^32).

        Returns:
            (X, y): X (n, ...) of the schema's shape in [-1, 1], float32, and class indices y (n,), int32.

        Raises:
            ValueError: n < 0, or a seed out of its range.
        """
        if n < 0:
            raise ValueError(f"Expected n={n} >= 0.")
        if not 0 <= seed < 2**32:
            raise ValueError(f"Expected 0 <= seed={seed} < 2^32.")
        X, y = self.outputs(n, seed)
        if isinstance(self.schema, TableSchema):
            brought = self.marginals is not None
            X = self._match_marginals(X, np.random.default_rng(seed)) if brought else self._round_to_schema(X)
            X, y = self.schema.settle(X, y)
        return X.reshape(n, *self.schema.shape), y

    def _round_to_schema(self, X: np.ndarray) -> np.ndarray:
        """Rounds to values that the schema allows, such as integers."""
        return self.schema.to_unit(self.schema.from_unit(X))

    def outputs(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns flat outputs of the network like `sample`, without rounding and marginals."""
        weights = tuple(jnp.asarray(w) for w in self.weights)
        ends, key = jnp.asarray(np.cumsum(self.class_shares)[:-1], jnp.float32), jax.random.key(seed)
        size = CHUNK if all(w.ndim < 4 for w in weights) else GROUP
        X, y = [np.zeros((0, self.schema.dimension), np.float32)], [np.zeros(0, np.int32)]
        for i in range(-(-n // CHUNK)):
            labels, codes, head_key = _draw_codes(self.code_size, ends, jax.random.fold_in(key, i))
            y.append(np.asarray(labels))
            for j in range(0, min(CHUNK, n - i * CHUNK), size):
                part = slice(j, j + size)
                X.append(np.asarray(_generate(self._kinds, weights, codes[part], labels[part], head_key)))
        return np.concatenate(X)[:n], np.concatenate(y)[:n]

    @property
    def _kinds(self) -> tuple[tuple[Piece, ...], tuple[int, ...], int]:
        return pieces_of(self.schema), self.schema.shape, len(self.schema.classes)

    def _match_marginals(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns rounded records, with each number moved to the bin of its quantile in the released marginals.

        Numbers of one bin are spread over its quantiles at random: their order within a bin may be meaningless.
        """
        assert self.marginals is not None
        numbers, gaps = numbers_of(self.schema)
        levels, spread = np.linspace(0.0, 1.0, LEVELS), rng.random((len(X), len(numbers)))
        moved, centred, bins = X.copy(), X.copy(), np.zeros(spread.shape, np.int32)
        for k, (j, own, shares) in enumerate(zip(numbers, *self.marginals, strict=True)):
            x = centres_of(bins_of(X[:, j]))
            first, last = 1.0 - np.interp(-x, -own[::-1], levels), np.interp(x, own, levels)
            held, ends = np.flatnonzero(shares), np.cumsum(shares[shares > 0], dtype=np.float64)
            level = (first + spread[:, k] * (last - first)) * ends[-1]
            place = np.minimum(np.searchsorted(ends, level, side="right"), len(held) - 1)
            inside = 1.0 - np.clip((ends[place] - level) / shares[held[place]], 0.0, 1.0)
            bins[:, k] = held[place]
            moved[:, j] = (bins[:, k] + inside) * (2.0 / BINS) - 1.0
            centred[:, j] = centres_of(bins[:, k])
        X, moved, centred = map(self._round_to_schema, (X, moved, centred))
        for k, (j, gap) in enumerate(zip(numbers, gaps, strict=True)):
            # Rounding may move a value out of its bin; the integer nearest to the centre lies in the bin.
            inside = np.where(bins_of(moved[:, j]) == bins[:, k], moved[:, j], centred[:, j])
            stays = (bins_of(X[:, j]) == bins[:, k]) | (gap >= 0 and X[:, gap] > 0.5)
            X[:, j] = np.where(stays, X[:, j], inside)
        return X


@partial(jax.jit, static_argnums=0)
def _draw_codes(code_size: int, ends: Array, key: Array) -> tuple[Array, Array, Array]:
    """Returns labels (CHUNK,) and codes (CHUNK, code_size) of a chunk, and the key of its categories."""
    label_key, code_key, head_key = jax.random.split(key, 3)
    y = jnp.searchsorted(ends, jax.random.uniform(label_key, (CHUNK,)), side="right").astype(jnp.int32)
    return y, jax.random.normal(code_key, (CHUNK, code_size)), head_key


@partial(jax.jit, static_argnums=0)
def _generate(
    kinds: tuple[Any, Any, int], weights: tuple[Array, ...], codes: Array, labels: Array, key: Array
) -> Array:
    pieces, shape, classes = kinds
    X, _ = heads(pieces, outputs_of(weights, codes, jax.nn.one_hot(labels, classes), shape), key)
    return X


def heads(pieces: tuple[Piece, ...], outputs: Array, key: Array) -> tuple[Array, Array]:
    """Returns (drawn, soft) records, (n, d): categories drawn from a softmax, and the softmax itself."""
    drawn, soft = [], []
    for i, p in enumerate(pieces):
        part = outputs[:, p.start : p.start + p.width]
        draw_key = jax.random.fold_in(key, i)
        if p.kind == "categories":
            soft.append(jax.nn.softmax(part, 1))
            drawn.append(jax.nn.one_hot(jax.random.categorical(draw_key, part, axis=1), p.width))
        elif p.kind == "gapped":  # the number of a missing value is encoded as 0
            value, gap = jnp.tanh(part[:, :1]), jax.nn.sigmoid(part[:, 1:])
            missing = (jax.random.uniform(draw_key, gap.shape) < gap).astype(part.dtype)
            drawn += [value * (1.0 - missing), missing]
            soft += [value * (1.0 - gap), gap]
        else:
            drawn.append(jnp.tanh(part))
            soft.append(jnp.tanh(part))
    return jnp.concatenate(drawn, 1), jnp.concatenate(soft, 1)
