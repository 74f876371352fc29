"""A linear classifier, released or fitted to a set: its accuracy, and its scores of pictures that others learn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.evaluation.chunks import CHUNK, Chunks, counted
from dpdistill.evaluation.krr import check_krr, linear_classifier
from dpdistill.evaluation.score import Score, scaled
from dpdistill.features.apply import along, encode, with_chain_rule
from dpdistill.features.gamma_correction import GammaCorrected
from dpdistill.folder.layout import CLASSIFIER, RECIPE, read_object
from dpdistill.kernels import KERNELS
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.method import Distilled, Progress, no_progress
from dpdistill.recipe.build import kernel_named, kernel_of, shown
from dpdistill.recipe.parts import implement
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records
from dpdistill.storage.test_set import check_test_set

RIDGE = 1e-3
"""Of kernel ridge regression on a set whose recipe states none."""


@dataclass(frozen=True, eq=False)
class Teacher:
    """A linear classifier on fixed features: teacher(X) are its scores, phi(X) classifier.

    Args:
        classifier: (d, classes), released, or of `teacher_of`.
        kernel: a feature kernel; its encoder phi has d features.
        schema: of the records that the classifier was released from.

    Guarantee:
        Post-processing of a release: its scores of pictures that are nobody's records cost no further epsilon.

    Raises:
        DataError: a kernel without d features.
    """

    classifier: np.ndarray
    kernel: Any
    schema: Schema

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, FeatureKernel):
            raise DataError(f"Expected a feature kernel with a linear classifier; got {self.kernel!r}.")
        check_krr(self.kernel, 0.0, self.schema)
        record = jax.ShapeDtypeStruct((1, *self.schema.shape), jnp.float32)
        expected = jax.eval_shape(self.kernel.encoder, record).shape[1], len(self.schema.classes)
        if self.classifier.shape != expected:
            raise DataError(f"Expected a classifier of shape {expected}; got {self.classifier.shape}.")

    def __call__(self, X: np.ndarray, chunk: int = CHUNK, progress: Progress = no_progress) -> np.ndarray:
        """Scores (n, classes), float32, of pictures X (n, h, w, c) in [-1, 1].

        Args:
            X: of the schema's shape, at least one.
            chunk: pictures a compiled call works on; it changes no score.
            progress: told the number of chunks done.

        Raises:
            DataError: pictures of another shape, or none.
        """
        self._check(X)
        parts = Chunks(X, chunk)
        tell = counted(progress, "scores of pictures", len(parts))
        encoder = self.kernel.encoder
        return np.concatenate([tell(encode(encoder, part)[:rows]) @ self.classifier for part, rows in parts])

    def sloped(
        self,
        X: np.ndarray,
        weigh: Callable[[np.ndarray], np.ndarray],
        chunk: int = CHUNK,
        progress: Progress = no_progress,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores (n, classes) and how they change with pixels: the gradient of w_i . scores(x_i) by x_i, in X's shape.

        Args:
            X: pictures in [-1, 1], (n, h, w, c), of the schema's shape, at least one.
            weigh: weights w (m, classes) of the classes of m pictures, from their scores; record by record.
            chunk: pictures a compiled call works on; it changes no gradient.
            progress: told the number of chunks done.

        Raises:
            DataError: pictures of another shape, or none.
        """
        self._check(X)
        scores, slopes, parts = [], np.empty(X.shape, np.float32), Chunks(X, chunk)
        tell = counted(progress, "slopes of scores", len(parts))
        for i, (part, rows) in enumerate(parts):
            features, rule = with_chain_rule(self.kernel.encoder, part)
            scores.append(np.asarray(features) @ self.classifier)
            slopes[i * chunk : i * chunk + rows] = tell(along(rule, weigh(scores[-1]) @ self.classifier.T))[:rows]
            del features, rule  # before the next ones are made: they hold more than the records
        return np.concatenate(scores)[: len(X)], slopes

    def units(self, X: np.ndarray) -> np.ndarray | None:
        """How far a pixel of X goes for a step of what the features see in its place; None: as far.

        A root of the light makes gradients by black pixels many times those by white ones, which says nothing of a
        picture: times these units they are what the features see.
        """
        encoder = self.kernel.encoder
        return np.asarray(encoder.units(jnp.asarray(X)), np.float32) if isinstance(encoder, GammaCorrected) else None

    def _check(self, X: np.ndarray) -> None:
        if X.shape[1:] != self.schema.shape or not len(X):
            raise DataError(f"Expected pictures of shape {('n', *self.schema.shape)}, n >= 1; got {X.shape}.")


def teacher_of(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    *,
    kernel: Any,
    ridge: float,
    targets: np.ndarray | None = None,
    chunk: int = CHUNK,
    progress: Progress = no_progress,
) -> Teacher:
    """Kernel ridge regression on a synthetic set as a teacher: what `score_krr` scores, from the set alone.

    Args:
        X: synthetic records in [-1, 1], (m, h, w, c).
        y: class indices, (m,).
        schema: of the synthetic set.
        kernel: a feature kernel.
        ridge: relative to tr(K_ss) / m, >= 0.
        targets: regression targets, (m, classes); one-hot minus 1 / classes of y by default.
        chunk: records a compiled call works on; it changes no score.
        progress: told the number of chunks done.

    Raises:
        DataError: a kernel without features, or one that does not take such records.
        ValueError: a ridge below 0, or a matrix that is not positive definite.
    """
    if not isinstance(kernel, FeatureKernel):
        raise DataError(f"Expected a feature kernel of what teaches; got {kernel!r}.")
    check_krr(kernel, ridge, schema)
    Y = one_hot(y, len(schema.classes), np.float64) if targets is None else np.asarray(targets, np.float64)
    support = Chunks(X, chunk)
    tell = counted(progress, "kernel ridge regression", len(support))
    return Teacher(linear_classifier(support, Y, kernel, ridge, tell).astype(np.float32), kernel, schema)


def score_classifier(teacher: Teacher, test: Records, *, chunk: int = CHUNK, progress: Progress = no_progress) -> Score:
    """Accuracy of a released classifier on test records.

    Args:
        teacher: the classifier.
        test: records of the same shape and classes; at least one.
        chunk: records a compiled call works on; it changes no score.
        progress: told the number of chunks done.

    Raises:
        DataError: a test set that does not fit.
    """
    check_test_set(teacher.schema, test)
    X, y = scaled(test)
    return Score((100.0 * float((teacher(X, chunk, progress).argmax(1) == y).mean()),))


def _fields_in(folder: str) -> dict[str, Any]:
    """Fields of the recipe in a folder; none where there is no recipe."""
    path = Path(folder) / RECIPE
    if not path.exists():
        return {}
    try:
        return dict(read_object(path)["fields"])
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path} is not a recipe that can be read.") from None


def softness_in(folder: str) -> float:
    """Softness of the labels in the recipe of a folder; 0 where it has none.

    Raises:
        DataError: a recipe that cannot be read, or a softness that is none.
    """
    softness = _fields_in(folder).get("softness", 0.0)
    if type(softness) not in (int, float) or not 0 <= softness < math.inf:
        raise DataError(f"The softness in {Path(folder) / RECIPE} cannot be used: {softness!r}.")
    return softness


def kernel_in(folder: str) -> tuple[Any, float] | None:
    """Kernel and ridge of the recipe in a folder; None where there is no recipe, or it names no kernel.

    Raises:
        DataError: a recipe that cannot be read, or an unknown kernel.
    """
    fields = _fields_in(folder)
    if "kernel" not in fields:
        return None
    try:
        return implement(kernel_of(fields["kernel"])), fields.get("ridge", RIDGE)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f"The kernel in {Path(folder) / RECIPE} cannot be used: {error}") from None


def teacher_in(folder: str, distilled: Distilled) -> Teacher | None:
    """The released classifier in a folder, on the features of its recipe's kernel; None where there is none.

    Raises:
        DataError: a classifier without a kernel in the recipe, or one that does not fit it.
    """
    if distilled.classifier is None:
        return None
    recipe = kernel_in(folder)
    if recipe is None:
        raise DataError(f"Expected the kernel of {CLASSIFIER} in the recipe of {folder}; it names none.")
    assert isinstance(distilled.schema, Schema)
    return Teacher(distilled.classifier, recipe[0], distilled.schema)


def regressions(
    names: Iterable[str], ridge: float | None, recipe: tuple[Any, float] | None
) -> dict[str, tuple[Any, float]]:
    """Kernels and ridges of the regressions on a synthetic set, by their short names.

    Args:
        names: of the kernels; none for the recipe's, or scatternet where it has none.
        ridge: of all of them; None for the recipe's with the recipe's kernel, and RIDGE with others.
        recipe: what `kernel_in` found.

    Raises:
        DataError: an unknown name.
    """
    kernel, own = recipe or (KERNELS["scatternet"], RIDGE)
    kernels = [implement(kernel_named(name)) for name in names] or [kernel]
    return {shown(k): (k, ridge if ridge is not None else own if k == kernel else RIDGE) for k in kernels}
