"""Time of ghost clipping compared with one vmapped gradient per record, and of kernel blocks, without noise.

python benchmarks/kernels.py [--batch 500] [--support 100 500] [--turns 5] [--data FOLDER]

Both routes are timed in turn in this process, and the medians of their ratios are printed. A turn is the median of five
steps of the fast route and one step of the plain route. The plain route through ScatterNet is timed on a few records
and scaled up, because a batch would take minutes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scattering

from dpdistill.features.apply import encode_slices, pull_back_slices
from dpdistill.features.scattering import ScatterNet
from dpdistill.kernels.conv_ntk import ConvNTK
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.methods.kip_gradient import FCNTKGradient, FeatureGradient, PlainGradient
from dpdistill.methods.matching import labels
from dpdistill.methods.support import fc_ntk_params, feature_params
from dpdistill.programs import clipping
from dpdistill.query import ByValue

SHAPE, CLASSES, RIDGE, CLIP, BLOCK = (28, 28, 1), 10, 1e-3, 1e-6, 125


def seconds(run: Any) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start


def compare(name: str, fast: Any, plain: Any, turns: int, scale: float = 1.0) -> None:
    """Median times of two routes and of their ratios, in turn; `scale` plain calls make one step."""
    jax.block_until_ready((fast(), plain()))
    pairs = [(statistics.median(seconds(fast) for _ in range(5)), scale * seconds(plain)) for _ in range(turns)]
    a, b = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(p / f for f, p in pairs)
    print(f"{name}: {1e3 * a:8.1f} ms against {1e3 * b:9.1f} ms, {ratio:6.1f} times faster", flush=True)


def clipped_sum(query: Any, params: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Clipped sum of a linear query in the blocks of the private room, without noise."""
    total, same = 0.0, ByValue(query)  # type: Any
    with jax.enable_x64(True):
        params = clipping.prepared(same, params)
        for rows in (slice(i, i + BLOCK) for i in range(0, len(y), BLOCK)):
            found = clipping.coefficients(same, params, X[rows], y[rows])
            w = np.minimum(1.0, query.clip_norm / np.asarray(clipping.norms(same, params, found)))
            total = total + np.asarray(clipping.weighted_sum(same, params, found, w))
    return total


def plain_sum(query: PlainGradient, X_s: np.ndarray, Y_s: np.ndarray) -> Any:
    """Sum of clipped per-record gradients by vmap(grad) over a batch."""

    @jax.jit
    def step(X: Any, y: Any) -> Any:
        U = jax.vmap(lambda x, label: query.contribution({"X_s": X_s, "Y_s": Y_s}, x, label))(X, y)
        return jnp.minimum(1.0, query.clip_norm / jnp.linalg.norm(U, axis=1)) @ U

    return step


def memory(lowered: Any) -> float:
    """Temporary memory of a compiled function, MB."""
    return lowered.compile().memory_analysis().temp_size_in_bytes / 1e6


def fc_ntk(X: np.ndarray, y: np.ndarray, X_s: np.ndarray, y_s: np.ndarray, turns: int) -> None:
    kernel, m, B = FCNTK(), len(X_s), len(X)
    query, plain = FCNTKGradient(CLIP, kernel, RIDGE, m), PlainGradient(CLIP, kernel, RIDGE)

    def ghost() -> np.ndarray:
        return clipped_sum(query, fc_ntk_params(kernel, X_s, y_s, CLASSES, RIDGE), X, y)

    single = plain_sum(plain, X_s, one_hot(y_s, CLASSES))
    compare(f"FC-NTK m={m} B={B}, vmap in float32", ghost, lambda: single(X, y), turns)
    with jax.enable_x64(True):
        double = plain_sum(plain, X_s.astype(np.float64), one_hot(y_s, CLASSES, np.float64))
        X64 = X.astype(np.float64)
    compare(f"FC-NTK m={m} B={B}, vmap in float64", ghost, lambda: in_double(double, X64, y), turns)
    params = fc_ntk_params(kernel, X_s, y_s, CLASSES, RIDGE)
    with jax.enable_x64(True):
        same = ByValue(query)
        kept = clipping.prepared(same, params)
        found = clipping.coefficients(same, kept, X[:BLOCK], y[:BLOCK])
        parts = (
            clipping._prepare.lower(same, params),
            clipping.coefficients.lower(same, kept, X[:BLOCK], y[:BLOCK]),
            clipping.norms.lower(same, kept, found),
            clipping.weighted_sum.lower(same, kept, found, np.ones(BLOCK)),
        )
        form = sum(part.nbytes for part in kept["T"]) / 1e6
        ghost_memory = form + max(map(memory, parts))
    blocks = 8e-6 * (3 * B * m + 4 * m * m + (B + m) * X[0].size)
    print(f"  memory: {ghost_memory:.1f} MB; kernel blocks and records in float64 {blocks:.1f} MB; "
          f"vmap in float32 {memory(single.lower(X, y)):.1f} MB", flush=True)  # fmt: skip


def in_double(step: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with jax.enable_x64(True):
        return step(X, y)


def scatternet(X: np.ndarray, y: np.ndarray, X_s: np.ndarray, y_s: np.ndarray, turns: int) -> None:
    encoder, m, few = ScatterNet(groups=27, normalise=True), len(X_s), max(1, 400 // len(X_s))
    kernel, features = FeatureKernel(encoder), encode_slices(encoder, X)
    query, plain = FeatureGradient(CLIP, encoder, RIDGE, m), PlainGradient(CLIP, kernel, RIDGE)

    def ghost() -> np.ndarray:
        params = feature_params(encode_slices(encoder, X_s), y_s, CLASSES, RIDGE)
        return pull_back_slices(encoder, X_s, clipped_sum(query, params, features, y).reshape(m, -1))

    step = plain_sum(plain, X_s, one_hot(y_s, CLASSES))
    name = f"ScatterNet m={m} B={len(X)} (vmap on {few} records, times {len(X) / few:g})"
    compare(name, ghost, lambda: step(X[:few], y[:few]), min(turns, 3), len(X) / few)


def conv_ntk(turns: int) -> None:
    rng, kernel = np.random.default_rng(0), ConvNTK()
    X, Z = (rng.uniform(-1, 1, (20, 32, 32, 3)).astype(np.float32) for _ in range(2))
    block = jax.jit(lambda X, Z: kernel(X, Z))
    seconds(lambda: block(X, Z))
    took = statistics.median(seconds(lambda: block(X, Z)) for _ in range(min(turns, 3)))
    print(f"ConvNet-NTK, 20 x 20 images of 32 x 32 x 3: {took:.2f} s, {1e3 * took / 400:.2f} ms a pair", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--support", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--data", help="folder of MNIST's files; random images without it")
    options = parser.parse_args()
    print(f"device: {jax.devices()[0].device_kind}, {jax.default_backend()}")
    rng = np.random.default_rng(0)
    X, y = (
        np.clip(rng.normal(size=(options.batch, *SHAPE)), -1, 1).astype(np.float32),
        rng.integers(0, 10, options.batch),
    )
    for m in options.support:
        y_s = labels(CLASSES, m // CLASSES)
        X_s = np.clip(rng.normal(size=(len(y_s), *SHAPE)), -1, 1).astype(np.float32)
        fc_ntk(X, y, X_s, y_s, options.turns)
        scatternet(X, y, X_s, y_s, options.turns)
    conv_ntk(options.turns)
    scattering.main(options.data, options.turns)
