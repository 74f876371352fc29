"""Scores a synthetic set of images by networks, regressions, classifiers, generated images and distances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from dpdistill.evaluation.architectures import ARCHITECTURES, check_network
from dpdistill.evaluation.distances import score_distances
from dpdistill.evaluation.krr import fit_krr, score_krr
from dpdistill.evaluation.pixels import score_pixels
from dpdistill.evaluation.score import TRAININGS, Score, TestSet, score_network
from dpdistill.evaluation.scored import Bars, Kind, Nets, Scored, no_bars
from dpdistill.evaluation.teacher import Teacher, score_classifiers
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.kernel import Kernel
from dpdistill.kernels.ridge import soft_labels
from dpdistill.method import Distilled
from dpdistill.networks.network import Network
from dpdistill.networks.training import Training
from dpdistill.schema import Schema
from dpdistill.storage.records import Records

Regressions = Mapping[str, tuple[Kernel, float]]
"""Type of kernels and ridges by name of the kernel."""
RELEASED = "released classifier accuracy"
"""Name of the score of the released classifier."""


def networks_named(names: Iterable[str], schema: Schema) -> tuple[Network, ...]:
    """Returns the named networks, checked against the schema.

    Raises:
        DataError: a network that does not accept the schema's records.
    """
    networks = tuple(ARCHITECTURES[name] for name in dict.fromkeys(names))
    for network in networks:
        check_network(network, schema)
    return networks


def trained_networks(
    images: tuple[np.ndarray, np.ndarray],
    soft_labels: np.ndarray | None,
    schema: Schema,
    test: Records | TestSet,
    training: Training,
    nets: Nets,
    bars: Bars = no_bars,
) -> Iterator[tuple[str, Score]]:
    """Yields the title and the score of each architecture, as soon as its networks are trained.

    Args:
        images: images in [-1, 1], and their classes.
        soft_labels: a probability of every class for each image, or None for the classes.
        schema: of the set.
        test: held-out records.
        training: options of the training.
        nets: networks to train.
        bars: shows the progress of each architecture.
    """
    for network in nets.architectures:
        with bars() as bar:
            score = score_network(
                *images, schema, test, training=replace(training, network=network), soft_labels=soft_labels,
                nets=nets.number, flip=nets.flip, seed=nets.seed, progress=bar,
            )  # fmt: skip
        yield network.title, score


def network_scores(
    distilled: Distilled, test: Records | TestSet, training: str, nets: Nets, bars: Bars
) -> Iterator[Scored]:
    """Yields the scores of networks trained on the set by a training of TRAININGS, as `trained_networks`."""
    soft, schema = distilled.soft_labels, image_schema(distilled)
    spread = f"mean ± std over {nets.number} nets" if nets.number > 1 else "1 net"
    how = f"{spread}, {training} training{'' if soft is None else ', soft labels'}"
    for title, score in trained_networks(distilled.train_set, soft, schema, test, TRAININGS[training], nets, bars):
        name, value = f"{title} accuracy", {"mean": round(score.mean, 2), "std": round(score.std, 2)}
        yield Scored("network", f"{name}, %", value, f"{name}: {score} ({how})", score)


def linear_scores(
    distilled: Distilled, released: Teacher | None, fits: Regressions, test: Records | TestSet, bars: Bars
) -> Iterator[Scored]:
    """Yields the scores of the released classifier and of kernel ridge regression; both encode the test set once."""
    support, schema = distilled.support_set, image_schema(distilled)
    linear = {} if released is None else {RELEASED: released}
    how = {name: {"kernel": k, "ridge": ridge, "targets": distilled.targets} for name, (k, ridge) in fits.items()}
    for name, (kernel, _) in fits.items():
        if isinstance(kernel, FeatureKernel):
            with bars() as bar:
                linear[name] = fit_krr(*support, schema, progress=bar, **how[name])
    scores: dict[str, Score] = {}
    if linear:
        with bars() as bar:
            scores = dict(zip(linear, score_classifiers([*linear.values()], test, progress=bar), strict=True))
    if (score := scores.get(RELEASED)) is not None:
        yield accuracy_of("classifier", RELEASED, score, f"{RELEASED.capitalize()}: {score}")
    for name, (_, ridge) in fits.items():
        if (score := scores.get(name)) is None:
            with bars() as bar:
                score = score_krr(*support, schema, test, progress=bar, **how[name])
        fit = f"{name}, ridge {ridge:g}"
        yield Scored("regression", fit, round(score.mean, 2), f"KRR accuracy: {score} ({fit})", score)


def generated_scores(
    images: tuple[np.ndarray, np.ndarray],
    released: Teacher | None,
    softness: float,
    schema: Schema,
    test: Records | TestSet,
    training: str | None,
    nets: Nets,
    bars: Bars,
) -> Iterator[Scored]:
    """Yields the scores of networks trained on generated images, as `trained_networks`.

    The labels are soft if there is a released classifier and the softness is above 0. The default training is "large".
    """
    labels, how = None, f"trained on {len(images[1]):,} generated pictures"
    if released is not None and softness and nets.architectures:
        with bars() as bar:
            labels = soft_labels(released(images[0], progress=bar), images[1], softness)
        how += " with soft labels"
    how += "" if training is None else f", {training} training"
    for title, score in trained_networks(images, labels, schema, test, TRAININGS[training or "large"], nets, bars):
        yield accuracy_of("generated", f"{title} accuracy, {how}", score)


def pixel_scores(distilled: Distilled, test: Records | TestSet, names: Iterable[str], seed: int) -> Iterator[Scored]:
    """Yields the scores of table classifiers on the pixels of the training images."""
    X, y = distilled.train_set
    for name in names:
        score = score_pixels(X, y, image_schema(distilled), test, name=name, seed=seed)
        yield accuracy_of("pixels", f"{name} accuracy, on pixels", score, f"{name} accuracy: {score} (on pixels)")


def distance_scores(
    distilled: Distilled,
    generated: tuple[np.ndarray, np.ndarray] | None,
    test: Records | TestSet,
    kernels: Mapping[str, Kernel],
    seed: int,
    bars: Bars,
) -> Iterator[Scored]:
    """Yields the distances of the generated images, or of the set's images, to the test set."""
    own = "images of the set" if distilled.training is None else "tiles of the set's images"
    X, what = (distilled.train_set[0], own) if generated is None else (generated[0], "generated images")
    for name, kernel in kernels.items():
        with bars() as bar:
            score = score_distances(X, image_schema(distilled), test, kernel=kernel, seed=seed, progress=bar)
        title = f"distance of {score.images:,} {what} to {score.real:,} real ones over {name}"
        text = f"Fréchet {title}: {score.frechet:.3f} of the real images' variance; kernel distance {score.kernel:.4f}"
        value = {"Fréchet": round(score.frechet, 4), "kernel": round(score.kernel, 5)}
        yield Scored("distance", title, value, text, score)


def accuracy_of(kind: Kind, name: str, score: Score, text: str = "") -> Scored:
    """Returns a score by its name in scores.json, which begins the printed text unless another text is given."""
    return Scored(kind, f"{name}, %", round(score.mean, 2), text or f"{name}: {score}", score)


def image_schema(distilled: Distilled) -> Schema:
    """Returns the schema of a set of images."""
    assert isinstance(distilled.schema, Schema)
    return distilled.schema
