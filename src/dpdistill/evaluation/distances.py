"""Measures distances between synthetic and real images, over the features of a chosen kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpdistill.evaluation.architectures import ARCHITECTURES, check_network
from dpdistill.evaluation.chunks import CHUNK, Chunks, counted
from dpdistill.evaluation.score import TestSet, test_set
from dpdistill.evaluation.teacher import check_krr
from dpdistill.features.apply import encode
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.kernel import Kernel
from dpdistill.method import Progress, no_progress
from dpdistill.networks.parameters import Hidden, read_parameters, sized
from dpdistill.recipe.kernel_names import kernel_named
from dpdistill.recipe.parts import implement
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records

MOST = 2_000
"""Number of images per side; a Fréchet distance depends on the number, and is uninformative for ten images."""


@dataclass(frozen=True)
class Distances:
    """Fréchet and kernel distance, comparable only for equal features and numbers of images.

    Args:
        frechet: |m - m'|^2 + tr(C + C' - 2 (C C')^(1/2)) over the real images' tr(C): 0 for equal distributions.
        kernel: squared maximum mean discrepancy, unbiased, of the kernel (<f, f'> / the real images' mean |f|^2 + 1)^3.
        images: number of synthetic images.
        real: number of test images.
    """

    frechet: float
    kernel: float
    images: int
    real: int


def score_distances(
    X: np.ndarray,
    schema: Schema,
    test: Records | TestSet,
    *,
    kernel: Any,
    seed: int = 0,
    chunk: int = CHUNK,
    progress: Progress = no_progress,
) -> Distances:
    """Returns Fréchet and kernel distance between synthetic and test images, from at most 2,000 of each.

    Args:
        X: synthetic images in [-1, 1], (m, h, w, c), m >= 2.
        schema: schema of the synthetic set.
        test: records of the same shape and classes; at least two.
        kernel: a kernel with features, such as `FeatureKernel`.
        seed: seed of the drawn images, if there are more.
        chunk: number of images per compiled call.
        progress: receives the number of chunks done.

    Raises:
        DataError: a test set of another shape or other classes; a single image; test images that are all alike; a
            kernel without features.
        ValueError: images that are too small for the kernel.

    Source: Heusel et al., 2017 (Fréchet distance); Binkowski et al., 2018 (kernel distance).
    """
    X_t, _ = test_set(schema, test)
    if kernel.features is None:
        raise DataError("Expected a kernel with features for distances between images; got a kernel without.")
    check_krr(kernel, 0.0, schema)
    rng = np.random.default_rng(seed)
    sides = [side[np.sort(rng.choice(len(side), min(len(side), MOST), replace=False))] for side in (X, X_t)]
    if min(map(len, sides)) < 2:
        raise DataError("Expected at least two images of each side for distances between them.")
    chunks = [Chunks(side, chunk) for side in sides]
    tell = counted(progress, "distances", sum(map(len, chunks)))
    F, R = (np.concatenate([tell(encode(kernel.features, part))[:kept] for part, kept in side]) for side in chunks)
    F, R = F.reshape(len(F), -1).astype(np.float64), R.reshape(len(R), -1).astype(np.float64)
    if np.ptp(R, axis=0).max() == 0:
        raise DataError("Expected test images that differ: distances are in units of their variance.")
    return Distances(frechet(F, R), kernel_distance(F, R), len(F), len(R))


def distance_kernels(names: Iterable[str], schema: Schema) -> dict[str, Kernel]:
    """Returns kernels with features for distances between images, by the names that scores have.

    Args:
        names: of kernels, or NETWORK=FILE.npz for the last hidden layer of a network with given parameters.
        schema: of the images.

    Raises:
        DataError: a file without such parameters, or a kernel or network that does not take the images.
    """
    kernels: dict[str, Kernel] = {}
    for name in names:
        network, equals, path = name.partition("=")
        if not equals:
            kernels[name] = implement(kernel_named(name, "distance"), Kernel)
            continue
        # The path would reveal the evaluator's folders, since scores may be added to the shared folder.
        title = f"{network} with given weights{f' ({len(kernels) + 1})' if kernels else ''}"
        kernels[title] = _hidden_layer(network, path, schema)
    if without := [name for name, kernel in kernels.items() if kernel.features is None]:
        raise DataError(f"Expected --distance as a kernel with features, such as scatternet: {without[0]} has none.")
    for each in kernels.values():
        check_krr(each, 0.0, schema)
    return kernels


def _hidden_layer(network: str, path: str, schema: Schema) -> FeatureKernel:
    """Returns the kernel of a network's last hidden layer, with the parameters in a file."""
    used = sized(ARCHITECTURES[network], path)
    if not getattr(used, "widths", used):
        raise DataError(f"Expected --distance {network}=FILE with a hidden layer; {path} has none.")
    check_network(used, schema)
    return FeatureKernel(Hidden(used, read_parameters(path, used, schema.shape)))


def frechet(F: np.ndarray, R: np.ndarray) -> float:
    """Returns the Fréchet distance of Gaussians fitted to features (n, d) and (m, d), over the second's variance.

    With C = A^T A and C' = B^T B, tr (C C')^(1/2) is the sum of the singular values of A B^T: no d x d matrix is
    formed.
    """
    A, B = ((f - f.mean(0)) / np.sqrt(len(f) - 1) for f in (F, R))
    spread, real = np.square(A).sum(), np.square(B).sum()
    shared = np.linalg.svd(A @ B.T, compute_uv=False).sum()
    return float((np.square(F.mean(0) - R.mean(0)).sum() + spread + real - 2.0 * shared) / real)


def kernel_distance(F: np.ndarray, R: np.ndarray) -> float:
    """Returns the unbiased squared MMD of features (n, d) and (m, d), which may be slightly below 0."""
    size = float(np.square(R).sum(1).mean())

    def products(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return (A @ B.T / size + 1.0) ** 3

    def within(A: np.ndarray) -> float:
        K = products(A, A)
        return (K.sum() - np.trace(K)) / (len(A) * (len(A) - 1))

    return float(within(F) + within(R) - 2.0 * products(F, R).mean())
