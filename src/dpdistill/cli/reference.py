"""Scores of tables, and of real records beside synthetic ones: for their owner, not covered by epsilon."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from dpdistill.cli.evaluate_checks import note_left_out
from dpdistill.cli.terminal import Bar, note, say, say_table, time_left

NOTE = "Computed from the private records, for their owner: not covered by epsilon."


def table_scores(training: Any, test: Any, **how: Any) -> dict:
    """Score a table, say the result, and return it as scores.json has it."""
    from dpdistill.evaluation.tables import score_tables

    started = time.monotonic()

    def told(score: Any, metrics: tuple[str, ...], done: float) -> None:
        spent = time.monotonic() - started
        values = ", ".join(f"{name} {value:.3f}" for name, value in zip(metrics, score.values, strict=True))
        note(f"{score.name}: {values}{time_left(spent, done, 1 - done)}")

    scores = score_tables(training, test, told=told, **how)
    say_table(scores.header, scores.rows())
    say(scores.text)
    return scores.to_json()


def table_reference(distilled: Any, real: Any, test: Any, **how: Any) -> None:
    """The same classifiers on as many random real rows and on all of them, and the distances to real rows."""
    from dpdistill.audits import random_real

    few = random_real(real, distilled.y, how["seed"])
    for what, records in (
        (f"{len(few):,} random real rows", few),
        ("all real rows (20,000 at most)", real),
    ):
        say(f"Trained on {what}:")
        table_scores(records, test, **how)
    _nearness(distilled, real, test)


def real_images(reference: str, facts: Any, labels: str | None = None, *, strict: bool = True) -> Any:
    """The real images of --reference, of the set's shape and classes."""
    from dpdistill.schema import DataError
    from dpdistill.sources.load import load

    real = load(reference, "train", like=facts, labels=labels, strict=strict)
    if real.schema.shape != facts.shape or not (real.y >= 0).any():
        raise DataError(f"Expected --reference with labelled images of shape {facts.shape}; got {real.schema.shape}.")
    note_left_out(real, "real")
    return real


def image_reference(
    distilled: Any, real: Any, test: Any, networks: list, fits: dict, training: str | None, epochs: int, **how: Any
) -> None:
    """The same networks and kernels on as many random real images, networks on all, and how near the set is."""
    from dpdistill.audits import random_real
    from dpdistill.evaluation import LARGE, TRAININGS, score_krr, score_network, training_for
    from dpdistill.evaluation.score import scaled

    few, facts = random_real(real, distilled.y, how["seed"]), distilled.schema
    (X, y), everything = scaled(few), scaled(real)
    for network in networks:
        for images, recipe, nets, what in (
            ((X, y), TRAININGS[training_for(len(y), training)], how["nets"], f"{len(y):,} random real images"),
            (everything, replace(LARGE, epochs=epochs), 1, f"all real images, epochs: {epochs}"),
        ):
            with Bar() as bar:
                learned = {**how, "nets": nets, "training": replace(recipe, network=network)}
                score = score_network(*images, facts, test, progress=bar, **learned)
            say(f"{network.title} accuracy, trained on {what}: {score}")
    for name, (kernel, ridge) in fits.items():
        with Bar() as bar:
            score = score_krr(X, y, facts, test, kernel=kernel, ridge=ridge, progress=bar)
        say(f"KRR accuracy, {len(y):,} random real images: {score.mean:.2f} % ({name}, ridge {ridge:g})")
    _nearness(distilled, real, test)


def _nearness(distilled: Any, real: Any, test: Any) -> None:
    import numpy as np

    from dpdistill.audits import nearest_real

    with Bar() as bar:
        found = nearest_real(distilled, real, test, progress=bar)
    say(
        f"Distance to the nearest real record, median: synthetic {np.median(found.synthetic):.3g}, held-out "
        f"{np.median(found.held_out):.3g}; {100 * found.strikingly:.1f} % of the synthetic records are nearer than "
        f"all but 1 % of the held-out ones. Copies of a real one: {100 * found.copies[0]:.1f} % of the synthetic, "
        f"{100 * found.copies[1]:.1f} % of the held-out."
    )
    say(NOTE)
