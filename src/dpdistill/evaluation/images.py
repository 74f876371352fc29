"""Scores a synthetic set of images by networks, regressions, classifiers, generated images and distances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from dpdistill.evaluation.architectures import ARCHITECTURES, check_network
from dpdistill.evaluation.distances import score_distances
from dpdistill.evaluation.krr import score_krr
from dpdistill.evaluation.pixels import score_pixels
from dpdistill.evaluation.score import TRAININGS, Score, score_network
from dpdistill.evaluation.scored import Bars, Kind, Nets, Scored
from dpdistill.evaluation.teacher import Teacher, score_classifier
from dpdistill.kernels.kernel import Kernel
from dpdistill.kernels.ridge import soft_labels
from dpdistill.method import Distilled
from dpdistill.networks.network import Network
from dpdistill.schema import Schema
from dpdistill.storage.records import Records

Regressions = Mapping[str, tuple[Kernel, float]]
"""Type of kernels and ridges by name of the kernel."""


def networks_named(names: Iterable[str], schema: Schema) -> tuple[Network, ...]:
    """Returns the named networks, checked against the schema.

    Raises:
        DataError: a network that does not accept the schema's records.
    """
    networks = tuple(ARCHITECTURES[name] for name in dict.fromkeys(names))
    for network in networks:
        check_network(network, schema)
    return networks


def network_scores(distilled: Distilled, test: Records, training: str, nets: Nets, bars: Bars) -> Iterator[Scored]:
    """Yields the scores of networks trained on the set.

    Args:
        distilled: the set.
        test: held-out records.
        training: a name of TRAININGS.
        nets: networks to train.
        bars: shows the progress of each.
    """
    (X, y), soft = distilled.train_set, distilled.soft_labels
    spread = f"mean ± std over {nets.number} nets" if nets.number > 1 else "1 net"
    how = f"{spread}, {training} training{'' if soft is None else ', soft labels'}"
    for network in nets.architectures:
        with bars() as bar:
            score = score_network(
                X, y, _schema(distilled), test, training=replace(TRAININGS[training], network=network),
                soft_labels=soft, nets=nets.number, flip=nets.flip, seed=nets.seed, progress=bar,
            )  # fmt: skip
        name, value = f"{network.title} accuracy", {"mean": round(score.mean, 2), "std": round(score.std, 2)}
        yield Scored("network", f"{name}, %", value, f"{name}: {score} ({how})", score)


def regression_scores(distilled: Distilled, test: Records, fits: Regressions, bars: Bars) -> Iterator[Scored]:
    """Yields the scores of kernel ridge regression on the set.

    Args:
        distilled: the set.
        test: held-out records.
        fits: kernels and ridges.
        bars: shows the progress of each.
    """
    (X, y), targets = distilled.support_set, distilled.targets
    for name, (kernel, ridge) in fits.items():
        with bars() as bar:
            how = {"kernel": kernel, "ridge": ridge, "targets": targets}
            score = score_krr(X, y, _schema(distilled), test, progress=bar, **how)
        fit = f"{name}, ridge {ridge:g}"
        yield Scored("regression", fit, round(score.mean, 2), f"KRR accuracy: {score.mean:.2f} % ({fit})", score)


def classifier_score(released: Teacher, test: Records, bars: Bars) -> Scored:
    """Returns the score of the released classifier."""
    with bars() as bar:
        score = score_classifier(released, test, progress=bar)
    text = f"Released classifier accuracy: {score.mean:.2f} %"
    return Scored("classifier", "released classifier accuracy, %", round(score.mean, 2), text, score)


def generated_scores(
    images: tuple[np.ndarray, np.ndarray],
    labels: np.ndarray | None,
    schema: Schema,
    test: Records,
    training: str | None,
    nets: Nets,
    bars: Bars,
) -> Iterator[Scored]:
    """Yields the scores of networks trained on generated images.

    Args:
        images: generated images in [-1, 1], and their classes.
        labels: a probability of every class for each image, or None for the classes.
        schema: of the set.
        test: held-out records.
        training: a name of TRAININGS, or None for that of large sets.
        nets: networks to train.
        bars: shows the progress of each.
    """
    X, y = images
    how = f"trained on {len(y):,} generated pictures{'' if labels is None else ' with soft labels'}"
    how += "" if training is None else f", {training} training"
    for network in nets.architectures:
        with bars() as bar:
            score = score_network(
                X, y, schema, test, training=replace(TRAININGS[training or "large"], network=network),
                soft_labels=labels, nets=nets.number, flip=nets.flip, seed=nets.seed, progress=bar,
            )  # fmt: skip
        yield _accuracy("generated", f"{network.title} accuracy, {how}", score)


def generated_labels(
    images: tuple[np.ndarray, np.ndarray], released: Teacher | None, softness: float, bars: Bars
) -> np.ndarray | None:
    """Returns soft labels of generated images; None without a released classifier or without softness."""
    if released is None or not softness:
        return None
    with bars() as bar:
        return soft_labels(released(images[0], progress=bar), images[1], softness)


def pixel_scores(distilled: Distilled, test: Records, names: Iterable[str], seed: int) -> Iterator[Scored]:
    """Yields the scores of table classifiers on the pixels of the training images."""
    X, y = distilled.train_set
    for name in names:
        score = score_pixels(X, y, _schema(distilled), test, name=name, seed=seed)
        text = f"{name} accuracy: {score.mean:.2f} % (on pixels)"
        yield Scored("pixels", f"{name} accuracy, on pixels, %", round(score.mean, 2), text, score)


def distance_scores(
    distilled: Distilled,
    generated: tuple[np.ndarray, np.ndarray] | None,
    test: Records,
    kernels: Mapping[str, Kernel],
    seed: int,
    bars: Bars,
) -> Iterator[Scored]:
    """Yields the distances of the generated images, or of the set's images, to the test set."""
    own = "images of the set" if distilled.training is None else "tiles of the set's images"
    X, what = (distilled.train_set[0], own) if generated is None else (generated[0], "generated images")
    for name, kernel in kernels.items():
        with bars() as bar:
            score = score_distances(X, _schema(distilled), test, kernel=kernel, seed=seed, progress=bar)
        title = f"distance of {score.images:,} {what} to {score.real:,} real ones over {name}"
        text = f"Fréchet {title}: {score.frechet:.3f} of the real images' variance; kernel distance {score.kernel:.4f}"
        value = {"Fréchet": round(score.frechet, 4), "kernel": round(score.kernel, 5)}
        yield Scored("distance", title, value, text, score)


def _accuracy(kind: Kind, name: str, score: Score) -> Scored:
    """Returns a score with the same name in printed text and in scores.json."""
    return Scored(kind, f"{name}, %", round(score.mean, 2), f"{name}: {score.mean:.2f} %", score)


def _schema(distilled: Distilled) -> Schema:
    assert isinstance(distilled.schema, Schema)
    return distilled.schema
