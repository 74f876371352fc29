"""What published guarantees rest on, measured: python benchmarks/guarantees.py [MNIST] [--samples N] > FILE

FILE is src/dpdistill/cli/benchmarks/guarantees.json, which the page of results shows beside the published numbers.
MNIST is a folder of that data set; without it the start from private images is not measured. Four premises of public
code, as it was read in 2026, each repeated here by a few lines of our own:

    shuffled    batches that are parts of a shuffled order, with the noise of Poisson batches: a lower bound of epsilon
    started     synthetic images that start as private ones: the share that still tells which
    seeded      noise from a seed of few bits: all seeds are tried against a sum with and without one record
    redrawn     noise drawn anew on the same sums at each step: epsilon of the draws that are made
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.accounting.bounds import epsilon_rdp
from dpdistill.accounting.gaussian import root
from dpdistill.accounting.pld import compose
from dpdistill.query import Event

EPSILON, DELTA = 1.0, 1e-5
RECORDS = 60_000
CONFIDENCE = 0.999
SEEDS = 100_000
KIP = {"source": "Vinaroz & Park", "methods": ["DP-KIP"], "read": "github.com/mvinaroz/DP-KIP at df068a6"}
DOSSER = {"source": "Zheng et al.", "read": "the public code of DOSSER"}
IMAGES = ["mnist", "fashion_mnist", "cifar10"]


def poisson_noise(batch: int, epochs: int) -> float:
    """The noise multiplier that Poisson batches of this expected size would need for (1, 1e-5), by Renyi orders."""
    rounds, event = epochs * RECORDS // batch, batch / RECORDS
    return root(lambda s: epsilon_rdp([(rounds, Event(s, event))], DELTA) - EPSILON, 0.3, 20.0)


def losses(noise: float, batches: int, epochs: int, absent: float, samples: int, rng: Any) -> np.ndarray:
    """Privacy losses of a record whose gradient is 1 where all others' are -1, in runs of a shuffled order (samples,).

    In the neighbour the record is zeroed (absent 1) or another one, -1 (absent 0). Its batch is then moved by 2, and in
    the neighbour by absent, beside a known sum; which batch of an epoch it is in, nobody knows:

        loss = sum over epochs of log( mean_j N(x_j; 2, noise^2) / mean_j N(x_j; absent, noise^2) ),  densities over 0

    Source: Chua et al., 2024 (How private are DP-SGD implementations?), whose worst case this is.
    """
    found = np.zeros(samples)
    for first in range(0, samples, 10_000):
        part = found[first : first + 10_000]
        for _ in range(epochs):
            x = noise * rng.standard_normal((len(part), batches), np.float32)
            x[:, 0] += 2.0
            part += np.log(np.exp((2.0 * x - 2.0) / noise**2).mean(1, dtype=float))
            part -= np.log(np.exp((absent * x - absent**2 / 2.0) / noise**2).mean(1, dtype=float))
    return found


def least_epsilon(found: np.ndarray) -> float:
    """The largest epsilon that delta = 1e-5 does not hold for, at a confidence of 99.9 %, from losses.

    delta(epsilon) = E (1 - e^(epsilon - loss))_+ >= (1 - e^-t) P(loss > epsilon + t), whose probability is bounded by
    Clopper & Pearson; ten values of t, among which the confidence is divided.
    """
    from scipy.stats import beta

    ordered, best = np.sort(found), 0.0
    margins = np.linspace(0.2, 4.0, 10)
    for k in np.unique(np.geomspace(1, len(found) / 2, 200).astype(int)):
        least = beta.ppf((1.0 - CONFIDENCE) / (200 * len(margins)), k, len(found) - k + 1)
        for t in margins:
            if least * -math.expm1(-t) > DELTA:
                best = max(best, float(ordered[-k]) - t)
    return best


def shuffled(samples: int) -> dict[str, Any]:
    batch, epochs = 500, 10
    noise, rng = poisson_noise(batch, epochs), np.random.default_rng(0)
    zeroed, replaced = (least_epsilon(losses(noise, RECORDS // batch, epochs, a, samples, rng)) for a in (1.0, 0.0))
    return {
        "code": "Batches are parts of a shuffled order, with the noise that Poisson batches would need",
        "measured": f"ε is at least {zeroed:.2f} where a record may be zeroed and {replaced:.2f} where it may be "
        f"replaced, for records of some gradients ({epochs} epochs of batches of {batch}, noise multiplier "
        f"{noise:.3f}; {samples:,} simulated runs, confidence {CONFIDENCE:.1%})",
    }


def seeded(trials: int = 20, coordinates: int = 1024) -> dict[str, Any]:
    """All seeds against a release, with and without the record: which of the two sums is the noise's?"""
    rng, noise, right = np.random.default_rng(1), 4.2969, 0
    began = time.perf_counter()
    for _ in range(trials):
        others, record = rng.normal(size=coordinates), rng.normal(size=coordinates)
        record /= np.linalg.norm(record)
        present, seed = bool(rng.integers(2)), int(rng.integers(SEEDS))
        release = others + present * record + noise * np.random.default_rng(seed).standard_normal(coordinates)
        explained = [
            with_it
            for guess in range(SEEDS)
            for left in (release - others - noise * np.random.default_rng(guess).standard_normal(coordinates),)
            for with_it in (False, True)
            if np.abs(left - with_it * record).max() < 1e-9
        ]
        right += explained == [present]
    seconds = (time.perf_counter() - began) / trials
    return {
        "code": "Where images are augmented, noise is drawn right after manual_seed(s), s one of 100,000 (the clock "
        "in ms)",
        "measured": f"No ε holds: trying all seeds told in {right} of {trials} releases whether a record is in the "
        f"sum, in {seconds:.0f} s each (NumPy's generator in the place of Torch's, {coordinates:,} features)",
    }


def redrawn() -> dict[str, Any]:
    """Ten thousand sums of Poisson batches at 50 / 6,000, each noised at every one of its uses."""
    rate, sums, steps = 50 / 6_000, 10_000, 200_000
    noise = root(lambda s: compose([(sums, Event(s, rate))], DELTA) - EPSILON, 0.5, 5.0)
    epsilon = compose([(sums, Event(noise / math.sqrt(steps / sums), rate))], DELTA)
    return {
        "code": "Where images are not augmented, sums are kept without noise, which is drawn anew at each of "
        f"{steps:,} steps, of which {sums:,} are accounted for",
        "measured": f"ε = {epsilon:.1f} for the draws that are made (noise multiplier {noise:.3f})",
    }


def started(folder: Path) -> dict[str, Any]:
    """DP-KIP's published rows of MNIST, ten a class, from images of the training set: which are still nearest?"""
    from dpdistill import Budget, distill, load
    from dpdistill.cli.recipes import published_fields
    from dpdistill.methods import dp_kip

    records = load(folder, "train")
    X, y = records.schema.to_unit(np.asarray(records.X)), np.asarray(records.y)
    chosen = np.concatenate([np.flatnonzero(y == k)[:10] for k in range(10)])
    dp_kip.start_support = lambda *_: X[chosen].copy()
    fields = published_fields("dp-kip-fc-ntk-mnist-eps1-ipc10")
    made = distill(records, dp_kip.DPKIP(**fields), Budget(EPSILON, DELTA)).distilled
    gaps = -2.0 * made.X.reshape(len(made.X), -1) @ X.reshape(len(X), -1).T + np.square(X).reshape(len(X), -1).sum(1)
    own = int((gaps.argmin(1) == chosen).sum())
    return {
        "code": "Synthetic images of MNIST start as images of the training set, for which nothing is paid",
        "measured": f"No ε holds: {own} of {len(chosen)} synthetic images are nearer to the very image they started as "
        f"than to any other of {len(X):,}, at the end of {fields['rounds']:,} rounds at ε = 1",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("mnist", type=Path, nargs="?")
    parser.add_argument("--samples", type=int, default=200_000)
    stated = parser.parse_args()
    found = [
        KIP | {"data": IMAGES} | shuffled(stated.samples),
        DOSSER | {"methods": ["DOS", "SER", "PEA", "NDPDC"], "data": IMAGES} | seeded(),
        DOSSER | {"methods": ["DOS"], "data": IMAGES} | redrawn(),
    ]
    if stated.mnist is not None:
        found.insert(0, KIP | {"data": ["mnist"]} | started(stated.mnist))
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
