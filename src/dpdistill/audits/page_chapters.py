"""Builds chapters of the owner's page: results of attacks as tables, charts and JSON."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from dpdistill.accounting.attacker import RATES, true_positives
from dpdistill.accounting.schedule import Schedule
from dpdistill.attacks.reconstruction import Curve
from dpdistill.attacks.repeated_reconstruction import Layer, rank_correlation
from dpdistill.audits.canaries import OneRun
from dpdistill.audits.membership import Roc
from dpdistill.audits.method_audit import Replays
from dpdistill.audits.page import Chapter, chapter

WIDTH, HEIGHT, DECADES = 340, 240, 3
LOWEST = 10.0**-DECADES


def membership_chapter(
    found: Mapping[str, Roc], schedule: Schedule | None, runs: int | None = None
) -> tuple[Chapter, dict[str, Any]]:
    """Returns true-positive rates at low false-positive rates, curves, and the certificate's bound.

    Args:
        found: curve of each attack.
        schedule: schedule that was paid, or None.
        runs: number of runs of an attack by shadows; None for an attack on one set.
    """
    bounds = (
        {} if schedule is None else {r: true_positives(schedule.groups, r, schedule.budget.adjacency) for r in RATES}
    )
    rows = [(name, roc.area, [roc.true_positives(r) for r in RATES]) for name, roc in found.items()]
    lines = {name: _line(*roc.curve()) for name, roc in found.items()}
    if schedule is not None:
        grid = np.geomspace(LOWEST, 1.0, 40)
        allowed = [true_positives(schedule.groups, float(r), schedule.budget.adjacency) for r in grid]
        lines["what the certificate allows"] = _line(grid, np.array(allowed))
    sizes = next(iter(found.values()))
    results = {
        # Trials by shadows are dependent: an interval for independent trials would be wrong.
        name: {
            "area": area,
            "true positives": {
                str(r): {"value": rate.value} if runs else rate._asdict() for r, rate in zip(RATES, rates, strict=True)
            },
        }
        for name, area, rates in rows
    }
    made = chapter(
        "Who was among the records",
        "membership",
        rows=rows,
        labels=[f"Recognised at {100 * r:g} % wrong" for r in RATES],
        ticks=("0.1 %", "1 %", "10 %", "100 %"),
        bounds=bounds,
        lines=lines,
        chance=_line(np.array([LOWEST, 1.0]), np.array([LOWEST, 1.0])),
        width=WIDTH,
        height=HEIGHT,
        members=len(sizes.members),
        others=len(sizes.others),
        runs=runs,
    )
    return made, {"membership": results, "bounds": {str(r): bound for r, bound in bounds.items()}}


def canary_chapter(found: OneRun) -> tuple[Chapter, dict[str, Any]]:
    """Returns the guesses about canaries, compared with the certified epsilon."""
    rows = [(name, found.correct[name], found.guesses[name], bound) for name, bound in found.bounds.items()]
    budget = found.result.schedule.budget if found.result.schedule else None
    results = {
        "canaries": len(found.included),
        "included": int(found.included.sum()),
        "certified": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
        "confidence": found.confidence,
        "attacks": {name: {"correct": c, "guesses": g, "epsilon at least": b} for name, c, g, b in rows},
    }
    details = {"m": len(found.included), "budget": budget, "confidence": found.confidence, "bound": found.bound}
    return chapter("Canaries", "canaries", rows=rows, **details), results


def replays_chapter(audit: Replays) -> tuple[Chapter, dict[str, Any]]:
    """Returns the replays of a method, with the changes in each."""
    rows = [(each.change, f"{max(each.moved):.4f}" if each.moved else "", each.differ) for each in audit.replays]
    results = {
        "found": audit.found,
        "records": audit.records,
        "tried": {str(i): why for i, why in audit.chosen.items()},
        "replays": {each.change: {"moved": each.moved, "differ": each.differ} for each in audit.replays},
        "held": audit.held,
        "not_tried": audit.not_tried,
    }
    return chapter("Replays", "replays", audit=audit, rows=rows, chosen=list(audit.chosen.items())), results


def reconstruction_chapter(
    pairs: Curve, members: np.ndarray, found: np.ndarray, nothing: float
) -> tuple[Chapter, dict[str, Any]]:
    """Returns every training image next to its reconstruction, best first.

    Args:
        pairs: pairs of images and reconstructions.
        members: images, (n, h, w, c) in [0, 1].
        found: reconstructions, (m, h, w, c).
        nothing: mean squared distance of the images to their mean, the baseline of an attack.
    """
    triples = zip(pairs.images, pairs.found, pairs.distances, strict=True)
    cards = [(int(i), float(d), picture(members[i]), picture(found[j])) for i, j, d in triples]
    top = max(float(pairs.distances[-1]), nothing, 1e-12)
    places = np.linspace(0, WIDTH, len(cards))
    points = " ".join(f"{x:.1f},{HEIGHT * (1 - d / top):.1f}" for x, d in zip(places, pairs.distances, strict=True))
    details = {"cards": cards, "points": points, "level": HEIGHT * (1 - nothing / top), "nothing": nothing}
    near = pairs.rebuilt(nothing)
    made = chapter("Images rebuilt from the network", "rebuilt", width=WIDTH, height=HEIGHT, near=near, **details)
    listed = {"distances": pairs.distances.tolist(), "images": pairs.images.tolist()}
    return made, {"rebuilt": near, **listed, "nothing": nothing}


def outlier_chapter(duals: np.ndarray, distances: np.ndarray, turned: float) -> tuple[Chapter, dict[str, Any]]:
    """Returns each training image by the size of its dual and the distance of its reconstruction.

    Args:
        duals: sizes, (n,).
        distances: squared distances of the same images to their reconstructions, (n,).
        turned: kernel distance of the network before and after training.
    """
    largest, farthest = max(float(duals.max()), 1e-12), max(float(np.sqrt(distances.max())), 1e-12)
    points = [
        (f"{WIDTH * d / largest:.1f}", f"{HEIGHT * (1 - math.sqrt(r) / farthest):.1f}")
        for d, r in zip(duals, distances, strict=True)
    ]
    correlation = rank_correlation(duals, distances)
    known = {"correlation": correlation, "turned": turned, "largest": largest, "farthest": farthest}
    made = chapter("Who is rebuilt", "outliers", points=points, width=WIDTH, height=HEIGHT, **known)
    return made, {"rank correlation of duals and distances": correlation, "kernel distance": turned}


def onion_chapter(layers: Sequence[Layer], removed: int, nothing: float) -> tuple[Chapter, dict[str, Any]]:
    """Returns reconstruction curves of networks trained without the images reconstructed before.

    Args:
        layers: outermost first.
        removed: number of images removed between two layers.
        nothing: mean squared distance of the images to their mean; images within half of it count as reconstructed.
    """
    rows, freed = [], 0
    for i, layer in enumerate(layers):
        near = layer.rows[layer.pairs.distances < nothing / 4]
        before = None
        if i:
            there = dict(zip(layers[i - 1].rows, layers[i - 1].pairs.distances, strict=True))
            before = float(np.mean([there[row] for row in layer.rows]))
            freed += sum(bool(there[row] >= nothing / 4) for row in near)
        title = "all images" if i == 0 else f"without {i * removed}"
        rows.append((title, len(layer.rows), len(near), layer.pairs.error, before, layer.correlation))
    farthest = max(float(np.sqrt(layer.pairs.distances.max())) for layer in layers) or 1e-12
    lines = [
        " ".join(
            f"{x:.1f},{HEIGHT * (1 - math.sqrt(d) / farthest):.1f}"
            for x, d in zip(np.linspace(0, WIDTH, len(layer.rows)), layer.pairs.distances, strict=True)
        )
        for layer in layers
    ]
    details = {"rows": rows, "lines": lines, "freed": freed, "removed": removed, "farthest": farthest}
    results = [
        {"images": n, "rebuilt": near, "mean squared distance": error, "a layer before": before, "correlation": c}
        for _, n, near, error, before, c in rows
    ]
    made = chapter("The onion", "onion", width=WIDTH, height=HEIGHT, **details)
    return made, {"onion": results, "rebuilt only then": freed}


def picture(x: np.ndarray) -> str:
    """Returns an image (h, w, c) in [0, 1] as a data URI: PNG, one pixel per value."""
    values = np.rint(np.clip(x, 0.0, 1.0) * 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(values[:, :, 0] if values.shape[2] == 1 else values).save(stream, "PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def _line(false: np.ndarray, true: np.ndarray) -> str:
    """Returns the SVG points of a curve on logarithmic axes from 10^-3 to 1."""
    x, y = (np.log10(np.maximum(side, LOWEST)) / DECADES + 1.0 for side in (false, true))
    kept = np.unique(np.round(np.stack([x * WIDTH, (1.0 - y) * HEIGHT], 1), 1), axis=0)
    kept = kept[np.lexsort((-kept[:, 1], kept[:, 0]))]
    return " ".join(f"{a:g},{b:g}" for a, b in kept if math.isfinite(a + b))
