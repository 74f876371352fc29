"""Scores images by linear classifiers, released or fitted to a set, and measures their accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.evaluation.chunks import CHUNK, Chunks, counted
from dpdistill.evaluation.score import Score, TestSet, test_set
from dpdistill.features.apply import along, encode, with_chain_rule
from dpdistill.features.gamma_correction import GammaCorrected
from dpdistill.folder.layout import CLASSIFIER, RECIPE, read_counts, read_object
from dpdistill.kernels import KERNELS
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.method import Distilled, Progress, no_progress
from dpdistill.recipe.build import kernel_in as chosen_kernel
from dpdistill.recipe.build import shown
from dpdistill.recipe.kernel_names import kernel_named
from dpdistill.recipe.parts import implement
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records

RIDGE = 1e-3
"""Default ridge of kernel ridge regression, if the recipe states none."""


@dataclass(frozen=True, eq=False)
class Teacher:
    """Linear classifier on fixed features: teacher(X) returns scores, phi(X) classifier.

    Args:
        classifier: weights (d, classes), released or from `teacher_of`.
        kernel: a feature kernel; its encoder phi has d features.
        schema: schema of the records behind the classifier.

    Guarantee:
        Post-processing of a release: scores of public or procedurally generated images cost no further epsilon.

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
        """Returns scores (n, classes) of images X (n, h, w, c) in [-1, 1].

        Args:
            X: images of the schema's shape, at least one.
            chunk: number of images per compiled call; does not change scores.
            progress: receives the number of chunks done.

        Raises:
            DataError: images of another shape, or no images.
        """
        self._check(X)
        return _linear_scores([self], X, chunk, progress, "scores of pictures")[0]

    def sloped(
        self,
        X: np.ndarray,
        weigh: Callable[[np.ndarray], np.ndarray],
        chunk: int = CHUNK,
        progress: Progress = no_progress,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns scores (n, classes), and the gradient of w_i . scores(x_i) with respect to x_i, in X's shape.

        Args:
            X: pictures in [-1, 1], (n, h, w, c), of the schema's shape, at least one.
            weigh: returns weights w (m, classes) of the classes from the scores of m images, independently.
            chunk: number of images per compiled call; does not change gradients.
            progress: receives the number of chunks done.

        Raises:
            DataError: images of another shape, or no images.
        """
        self._check(X)
        scores, slopes, parts = [], np.empty(X.shape, np.float32), Chunks(X, chunk)
        tell = counted(progress, "slopes of scores", len(parts))
        for i, (part, rows) in enumerate(parts):
            features, rule = with_chain_rule(self.kernel.encoder, part)
            scores.append(np.asarray(features) @ self.classifier)
            slopes[i * chunk : i * chunk + rows] = tell(along(rule, weigh(scores[-1]) @ self.classifier.T))[:rows]
            del features, rule  # frees more memory than the records take, before the next chunk
        return np.concatenate(scores)[: len(X)], slopes

    def units(self, X: np.ndarray) -> np.ndarray | None:
        """Returns the step of a pixel of X per unit step of the features' input; None if both are equal.

        Gamma correction makes gradients by dark pixels much larger than gradients by bright pixels. Multiplied by these
        units they are gradients by the features' input.
        """
        encoder = self.kernel.encoder
        return np.asarray(encoder.units(jnp.asarray(X)), np.float32) if isinstance(encoder, GammaCorrected) else None

    def _check(self, X: np.ndarray) -> None:
        if X.shape[1:] != self.schema.shape or not len(X):
            raise DataError(f"Expected images of shape {('n', *self.schema.shape)}, n >= 1; got {X.shape}.")


def score_classifiers(
    teachers: Sequence[Teacher], test: Records | TestSet, *, chunk: int = CHUNK, progress: Progress = no_progress
) -> list[Score]:
    """Returns the accuracy of linear classifiers on test records, which are encoded once per feature map.

    Args:
        teachers: classifiers of one schema; at least one.
        test: records of the same shape and classes; at least one.
        chunk: number of records per compiled call; does not change scores.
        progress: receives the number of chunks done.

    Raises:
        DataError: a test set that does not fit.
    """
    X, y = test_set(teachers[0].schema, test)
    scores = _linear_scores(teachers, X, chunk, progress, "scores of test records")
    return [Score.of([each.argmax(1)], y, teachers[0].schema.classes) for each in scores]


def score_classifier(
    teacher: Teacher, test: Records | TestSet, *, chunk: int = CHUNK, progress: Progress = no_progress
) -> Score:
    """Returns the accuracy of a released classifier on test records, as `score_classifiers`."""
    return score_classifiers([teacher], test, chunk=chunk, progress=progress)[0]


def _linear_scores(
    teachers: Sequence[Teacher], X: np.ndarray, chunk: int, progress: Progress, stage: str
) -> list[np.ndarray]:
    """Returns the scores (n, classes) of each classifier; every chunk is encoded once per feature map."""
    encoders = dict.fromkeys(each.kernel.encoder for each in teachers)
    parts, scores = Chunks(X, chunk), [[] for _ in teachers]
    tell = counted(progress, stage, len(encoders) * len(parts))
    for part, rows in parts:
        features = {encoder: tell(encode(encoder, part))[:rows] for encoder in encoders}
        for known, each in zip(scores, teachers, strict=True):
            known.append(features[each.kernel.encoder] @ each.classifier)
    return [np.concatenate(each) for each in scores]


def check_krr(kernel: Any, ridge: float, schema: Schema) -> None:
    """Refuses a ridge or kernel that cannot be used on the records, before any computation.

    Raises:
        DataError: a kernel that does not accept the records.
        ValueError: a ridge that is not a number >= 0.
    """
    if not isinstance(ridge, int | float) or not 0.0 <= ridge < math.inf:
        raise ValueError(f"Expected ridge={ridge} >= 0.")
    x = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    try:
        shape = jax.eval_shape(kernel, x, x).shape
    except (TypeError, AttributeError) as error:
        raise DataError(f"The kernel {kernel!r} cannot be computed ({type(error).__name__}).") from None
    if shape != (1, 1):
        raise DataError(f"Expected a kernel of shape (n, m); got {shape} for single records.")


def _fields_in(folder: str) -> dict[str, Any]:
    """Returns the fields of the recipe in a folder; empty without a recipe."""
    path = Path(folder) / RECIPE
    if not path.exists():
        return {}
    try:
        return dict(read_object(path)["fields"])
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path} is not a recipe that can be read.") from None


def softness_in(folder: str) -> float:
    """Returns the softness of labels in the recipe of a folder; 0 by default.

    Raises:
        DataError: a recipe that cannot be read, or an invalid softness.
    """
    softness = _fields_in(folder).get("softness", 0.0)
    if type(softness) not in (int, float) or not 0 <= softness < math.inf:
        raise DataError(f"The softness in {Path(folder) / RECIPE} cannot be used: {softness!r}.")
    return softness


def kernel_in(folder: str) -> tuple[Any, float] | None:
    """Returns kernel and ridge of the recipe in a folder; None without a recipe or kernel.

    Of a recipe with candidates it is the one that the released counts chose.

    Raises:
        DataError: a recipe that cannot be read, or an unknown kernel.
    """
    fields = _fields_in(folder)
    if "kernel" not in fields:
        return None
    try:
        return implement(chosen_kernel(fields, read_counts(Path(folder)))), fields.get("ridge", RIDGE)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f"The kernel in {Path(folder) / RECIPE} cannot be used: {error}") from None


def teacher_in(folder: str, distilled: Distilled) -> Teacher | None:
    """Returns the released classifier in a folder, on the features of its recipe's kernel; None without one.

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
    """Returns kernels and ridges of the regressions on a synthetic set, by short name.

    Args:
        names: names of the kernels; by default the recipe's, or scatternet.
        ridge: ridge of all kernels; None for the recipe's with the recipe's kernel, and RIDGE with others.
        recipe: result of `kernel_in`.

    Raises:
        DataError: an unknown name.
    """
    kernel, own = recipe or (KERNELS["scatternet"], RIDGE)
    kernels = [implement(kernel_named(name)) for name in names] or [kernel]
    return {shown(k): (k, ridge if ridge is not None else own if k == kernel else RIDGE) for k in kernels}
