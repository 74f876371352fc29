"""How many records per class a released classifier needs: one JSON line per run.

python benchmarks/enough.py DATA [--sets digits signs ...] [--classes 10 2] [--sizes 100 300 ...] [--epsilons 0.5 1 3]

DATA holds mnist/, fashion_mnist/ and cifar10/ as their sources publish them, and more/sign_digits.zip. Each run takes a
public random subset of the training records, with the ten classes or with two groups of five. `signal` is the class
size relative to the noise multiplier of a single release. `kept` is the accuracy above chance on held-out records,
relative to that of the same classifier without noise: the ranges in dpdistill/accounting/verdict.py. CIFAR-10 uses the
kernel `drawn`, the others the default kernel.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import dpdistill as dp
from dpdistill.accounting.gaussian import gaussian_noise_multiplier
from dpdistill.kernels import KERNELS
from dpdistill.schema import Schema
from dpdistill.storage.records import Records

SETS = ("digits", "signs", "mnist", "fashion_mnist", "cifar10")
HELD_OUT = 1500


def read(name: str, data: Path) -> tuple[Records, Records]:
    """Returns training and held-out records."""
    if name == "digits":
        return dp.load("digits:train"), dp.load("digits:test")
    records = dp.load(data / "more" / "sign_digits.zip", resize=32) if name == "signs" else dp.load(data / name)
    order, held = np.random.default_rng(0).permutation(len(records)), min(HELD_OUT, len(records) // 5)
    return _subset(records, order[held:]), _subset(records, order[:held])


def _subset(records: Records, rows: np.ndarray) -> Records:
    return Records(records.X[np.sort(rows)], records.y[np.sort(rows)], records.schema)


def grouped(records: Records, classes: int) -> Records:
    """Returns the records with their classes in two groups if classes is 2."""
    if classes == len(records.schema.classes):
        return records
    assert isinstance(records.schema, Schema)
    schema = Schema(records.schema.shape, records.schema.bounds, ("first", "second"))
    return Records(records.X, (records.y >= len(records.schema.classes) // 2).astype(np.int32), schema)


def above_chance(result: Any, test: Records, classes: int) -> float:
    """Returns the accuracy of the released classifier above chance."""
    parts = np.array_split(np.arange(len(test)), max(1, len(test) // 500))
    named = np.concatenate([result.teacher(test.X[part]).argmax(1) for part in parts])
    return float(np.mean(named == test.y)) - 1.0 / classes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--classes", nargs="+", type=int, default=(10, 2))
    parser.add_argument("--sizes", nargs="+", type=int, default=(100, 300, 1000, 3000))
    parser.add_argument("--epsilons", nargs="+", type=float, default=(0.5, 1.0, 3.0))
    options = parser.parse_args()
    for name in options.sets:
        train, held_out = read(name, options.data)
        changed: dict[str, Any] = {"kernel": KERNELS["drawn"]} if name == "cifar10" else {}
        method = dp.DecoupledKIP(steps=1, **changed)
        for classes in options.classes:
            records, test = grouped(train, classes), grouped(held_out, classes)
            for n in (n for n in options.sizes if n <= len(records)):
                part = _subset(records, np.random.default_rng((n, classes)).permutation(len(records))[:n])
                without = above_chance(dp.distill_without_privacy(part, method), test, classes)
                for epsilon in options.epsilons:
                    found = above_chance(dp.distill(part, method, dp.Budget(epsilon)), test, classes)
                    signal = n / classes / gaussian_noise_multiplier(epsilon, 1e-5, "add-remove")
                    line = {"set": name, "classes": classes, "records": n, "epsilon": epsilon, "signal": signal}
                    print(json.dumps({**line, "kept": found / without, "without": without}), flush=True)


if __name__ == "__main__":
    main()
