"""Premises of published guarantees that public code does not keep: python benchmarks/guarantees.py [MNIST] > FILE

FILE is src/dpdistill/benchmark/guarantees.json, which pages of results show with the published figures. MNIST is a
folder of that data set; without MNIST the start from private images is not measured. Each premise is repeated by a few
lines of our own. The code was read in 2026 at the named commits:

    started     synthetic images that start as private images: how many still show which image
    shuffled    batches that are parts of a shuffled order, with the noise of Poisson batches: a lower bound of epsilon
    seeded      noise from a seed of few bits: all seeds are tried against a sum with and without one record
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.accounting.bounds import epsilon_rdp
from dpdistill.accounting.gaussian import root
from dpdistill.benchmark.figures import PUBLISHED, Cell
from dpdistill.query import Event
from dpdistill.recipe.published.rows import all_published

DELTA, CONFIDENCE = 1e-5, 0.999
SEEDS = 100_000
KIP = "Vinaroz & Park 2024"
DOSSER_NOISE = 4.2969
"""Default noise multiplier of its public code."""


def poisson_noise(rounds: int, rate: float, epsilon: float) -> float:
    """Noise multiplier that Poisson batches would need at delta = 1e-5, by Renyi orders."""
    return root(lambda s: epsilon_rdp([(rounds, Event(s, rate))], DELTA) - epsilon, 0.3, 50.0)


def losses(noise: float, batches: int, epochs: int, samples: int, rng: Any) -> np.ndarray:
    """Privacy losses (samples,) of a record with gradient 1 among records with gradient -1, in runs of shuffled orders.

    In the neighbour the record's gradient is 0. The record changes the known sum of its batch by 2, and in the
    neighbour by 1. The attacker does not know the record's batch:

        loss = sum over epochs of log( mean_j N(x_j; 2, noise^2) / mean_j N(x_j; 1, noise^2) )

    where each density is divided by N(x_j; 0, noise^2), and x is drawn with the record.
    Source: Chua et al., 2024 (How private are DP-SGD implementations?), whose worst case this is.
    """
    found = np.zeros(samples)
    for first in range(0, samples, 10_000):
        part = found[first : first + 10_000]
        for _ in range(epochs):
            x = noise * rng.standard_normal((len(part), batches), np.float32)
            x[:, 0] += 2.0
            part += np.log(np.exp((2.0 * x - 2.0) / noise**2).mean(1, dtype=float))
            part -= np.log(np.exp((x - 0.5) / noise**2).mean(1, dtype=float))
    return found


def least_epsilon(found: np.ndarray, confidence: float = CONFIDENCE) -> float:
    """Lower bound of epsilon at delta = 1e-5, from privacy losses.

    delta(epsilon) = E (1 - e^(epsilon - loss))_+ >= (1 - e^-t) P(loss >= epsilon + t) for each t > 0. The probability
    of reaching the k-th largest of n losses is that of the k-th of n uniform numbers, Beta(k, n - k + 1), or more; the
    confidence is divided among the choices of k.
    """
    from scipy.stats import beta

    ordered, best = np.sort(found), 0.0
    ranks = np.unique(np.geomspace(1, len(found) / 2, 200).astype(int))
    for k in ranks:
        least = beta.ppf((1.0 - confidence) / len(ranks), k, len(found) - k + 1)
        for t in np.linspace(0.1, 6.0, 60):
            if least * -math.expm1(-t) > DELTA:
                best = max(best, float(ordered[-k]) - t)
    return best


def published_cells(source: str) -> set[Cell]:
    """Cells (method, data set, epsilon, size) of the published figures of a source."""
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["source"].startswith(source) and row["epsilon"]]
    return {Cell(row["method"], row["data"], float(row["epsilon"]), int(row["per_class"] or 0)) for row in rows}


def published_batches() -> dict[Cell, tuple[int, float]]:
    """(rounds, share of the records in a batch) of DP-KIP's published figures of images."""
    methods, found = {"fc-ntk": "DP-KIP FC-NTK", "scatternet": "DP-KIP-ScatterNet"}, {}
    for name, row in all_published().items():
        if named := re.fullmatch(r"dp-kip-(fc-ntk|scatternet)-(.+)-eps[0-9]+-ipc[0-9]+", name):
            data, fields = named[2].replace("-", "_"), row.fields
            cell = Cell(methods[named[1]], data, float(row.epsilon or math.inf), fields["per_class"])
            found[cell] = (fields["rounds"], fields["sampling_prob"])
    return {cell: found[cell] for cell in sorted(found.keys() & published_cells(KIP))}


def shuffled(samples: int) -> dict[str, Any]:
    """Lower bound of epsilon for each published figure of DP-KIP on images."""
    rng, bounds = np.random.default_rng(0), {}
    for cell, (rounds, rate) in published_batches().items():
        noise, batches = poisson_noise(rounds, rate, cell.epsilon), round(1 / rate)
        bounds[cell] = least_epsilon(losses(noise, batches, round(rounds / batches), samples, rng))
    beyond = {cell: math.floor(10 * bound) / 10 for cell, bound in bounds.items() if bound > cell.epsilon}
    ranges = []
    for epsilon in sorted({cell.epsilon for cell in beyond}):
        of = [bound for cell, bound in beyond.items() if cell.epsilon == epsilon]
        ranges.append(f"{min(of):.1f} to {max(of):.1f} for {len(of)} of the figures at ε = {epsilon:g}")
    return {
        "source": f"{KIP}, table 2",
        "read": "github.com/mvinaroz/DP-KIP, dp_kip_other_features.py at df068a6, and in the copy of dpkip_inf_ntk.py",
        "code": "Batches are parts of a shuffled order, with the noise for Poisson batches",
        "measured": f"ε is at least {' and '.join(ranges)}. The bounds have the published batches and epochs, and one "
        "record whose gradient is opposite to all others (a guarantee is about the worst case). They are simulated, "
        f"with confidence 99.9 % each. For the other {len(bounds) - len(beyond)} figures no higher ε was found",
        "cells": sorted(beyond),
    }


def seeded(trials: int = 20, coordinates: int = 1024) -> dict[str, Any]:
    """Tries all seeds against releases with and without a record, and counts the correct answers."""
    rng, noise, right = np.random.default_rng(1), DOSSER_NOISE, 0
    began = time.perf_counter()
    for _ in range(trials):
        others, record = rng.normal(size=coordinates), rng.normal(size=coordinates)
        record /= np.linalg.norm(record)
        present, seed = bool(rng.integers(2)), int(rng.integers(SEEDS))
        release = others + present * record + noise * np.random.default_rng(seed).standard_normal(coordinates)
        right += explanations(release, others, record, noise) == [present]
    seconds = (time.perf_counter() - began) / trials
    methods = ("DOSSER", "DOS + ", "NDPDC")
    return {
        "source": "Zheng et al. 2025",
        "read": "github.com/humansensinglab/Dosser at 2e22b7f; for NDPDC "
        "github.com/SecMLSys/Differentially-Private-Dataset-Condensation at a20cf59",
        "code": "Noise comes from a generator that the augmentation seeded with one of 100,000 numbers before",
        "measured": "No ε holds for the noisy sums: a sum has 100,000 possible values with a record and 100,000 others "
        f"without this record. If the other records are known, trying all seeds found in {right} of {trials} releases "
        f"whether the record is in the sum, in {seconds:.0f} s each (our own sums of {coordinates:,} features, NumPy's "
        "generator). The images alone were not attacked",
        "cells": sorted(cell for cell in published_cells("Zheng et al. 2025") if cell.method.startswith(methods)),
    }


def explanations(release: np.ndarray, others: np.ndarray, record: np.ndarray, noise: float) -> list[bool]:
    """True (with the record) or False (without) for each seed whose noise makes the release."""
    found = []
    for seed in range(SEEDS):
        left = release - others - noise * np.random.default_rng(seed).standard_normal(len(release))
        found += [with_it for with_it in (False, True) if np.abs(left - with_it * record).max() < 1e-9]
    return found


def started(folder: Path) -> dict[str, Any]:
    """Counts synthetic images of DP-KIP that stay nearest to the training image of their start; MNIST, ten per class.

    The hundred images are the first ten of each class.
    """
    from dpdistill.cli.recipes import published_fields

    from dpdistill import Budget, distill, load
    from dpdistill.methods import dp_kip

    records = load(folder, "train")
    X, y = records.schema.to_unit(np.asarray(records.X)), np.asarray(records.y)
    chosen = np.concatenate([np.flatnonzero(y == k)[:10] for k in range(10)])
    dp_kip.start_support = lambda *_: X[chosen].copy()
    fields = published_fields("dp-kip-fc-ntk-mnist-eps1-ipc10")
    made = distill(records, dp_kip.DPKIP(**fields), Budget(1.0, DELTA)).distilled
    gaps = -2.0 * made.X.reshape(len(made.X), -1) @ X.reshape(len(X), -1).T + np.square(X).reshape(len(X), -1).sum(1)
    own = int((gaps.argmin(1) == chosen).sum())
    return {
        "source": KIP,
        "read": "dpkip_inf_ntk.py, a copy in github.com/Justinyangjy/FL-DP-KIP at de45a28",
        "code": "With the FC-NTK, synthetic images of MNIST start as images of the training set (the paper has "
        "N(0, I))",
        "measured": "No useful ε holds. In one run of our own loop with the published settings (ε = 1, ten per class), "
        f"{own} of {len(chosen)} synthetic images are nearer to the image of their start than to any other of "
        f"{len(X):,}",
        "cells": sorted(cell for cell in published_cells(KIP) if cell[:2] == ("DP-KIP FC-NTK", "mnist")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("mnist", type=Path, nargs="?")
    parser.add_argument("--samples", type=int, default=40_000)
    stated = parser.parse_args()
    found = [] if stated.mnist is None else [started(stated.mnist)]
    found += [shuffled(stated.samples), seeded()]
    print("[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in found) + "\n]")


if __name__ == "__main__":
    main()
