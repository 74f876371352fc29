"""Synthetic tables scored by twelve classifiers, honest and as papers do it; a JSON line a run.

python benchmarks/tables.py DATA [--tables adult ...] [--methods dp-kip ...] [--modes honest paper] [--runs 5] [--out F]

DATA holds adult/, cervical/, epileptic/ and kdd99/ as their sources publish them. A run draws its own split where no
official one exists, its own noise and its own public seed. In mode paper all rows are split anew, and the majority
class of the records is undersampled before they are distilled.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.audit.marginals import compare_marginals
from dpdistill.cli.recipes import build
from dpdistill.data.records import Records
from dpdistill.data.tables.load import load_table
from dpdistill.data.tables.schema_file import TableFile, read_schema
from dpdistill.evaluate.tables import score_tables
from dpdistill.method import Distilled
from dpdistill.schema import Column

SCHEMAS = Path(__file__).with_name("schemas")
KEEP = {"adult": 0.4, "cervical": 0.3, "cervical-tests": 0.3, "epileptic": 1.0, "kdd99": 0.03}
TEST_SHARE = {"adult": 0.2, "cervical": 0.2, "cervical-tests": 0.2, "epileptic": 0.2, "kdd99": 0.1}
DELTA = {"kdd99": 1e-6}


def epileptic(folder: Path, table_file: TableFile) -> Records:
    """The recordings come as arrays."""
    import pandas as pd

    with np.load(next(folder.glob("*.npz"))) as arrays:
        X, y = arrays["X"], arrays["y"]
    frame = pd.DataFrame(X, columns=[column.name for column in table_file.schema.columns])
    return load_table(frame.assign(**{table_file.schema.label: y}), table_file)


def read(name: str, data: Path) -> tuple[Records, Records | None]:
    """(records, official test set or None)."""
    folder = data / name.partition("-")[0]
    table_file = read_schema(SCHEMAS / f"{folder.name}.yaml")
    if name == "cervical-tests":  # the three other tests for the same cancer as columns, as papers have them
        tests = (Column(test, "categorical", categories=("0", "1")) for test in table_file.ignored)
        schema = replace(table_file.schema, columns=(*table_file.schema.columns, *tests))
        table_file = replace(table_file, schema=schema, ignored=())
    if name == "adult":
        return tuple(load_table(folder / f"adult.{part}.gz", table_file) for part in ("data", "test"))  # type: ignore
    if name == "epileptic":
        return epileptic(folder, table_file), None
    records = load_table(next(folder.glob("*10_percent*" if name == "kdd99" else "*.csv")), table_file)
    if folder.name == "cervical":  # the usual selection: rows with fewer than ten missing values
        records = rows(records, np.isnan(records.X).sum(1) < 10)
    return records, None


def rows(records: Records, kept: np.ndarray) -> Records:
    return Records(records.X[kept], records.y[kept], records.schema)


def joined(a: Records, b: Records | None) -> Records:
    return a if b is None else Records(np.concatenate([a.X, b.X]), np.concatenate([a.y, b.y]), a.schema)


def split(records: Records, test_share: float, seed: int) -> tuple[Records, Records]:
    """A random training and a test part, each in the order of the records."""
    size, order = round(test_share * len(records)), np.random.default_rng(seed).permutation(len(records))
    test, train = (rows(records, np.sort(part)) for part in (order[:size], order[size:]))
    return train, test


def undersampled(records: Records, keep: float, seed: int) -> Records:
    """Each record of the majority class is kept with this probability."""
    majority = np.bincount(records.y[records.y >= 0]).argmax()
    coins = np.random.default_rng(seed).random(len(records)) < keep
    return rows(records, coins | (records.y != majority))


def distances(distilled: Distilled, records: Records) -> list[float]:
    """Mean total variation of one-way marginals, of numbers and of all columns."""
    found = [
        (column.distance, fact.is_number)
        for column, fact in zip(compare_marginals(distilled, records).columns, records.schema.columns, strict=True)
    ]
    numbers = [distance for distance, is_number in found if is_number]
    return [round(float(np.mean(each)), 4) for each in (numbers or [0.0], [distance for distance, _ in found])]


def one_run(name: str, data: tuple[Records, Records | None], method: str, fields: list[str], mode: str, seed: int):
    records, test = data
    if mode == "paper" or test is None:
        records, test = split(joined(records, test), TEST_SHARE[name], seed)
    keep = KEEP[name] if mode == "paper" else 1.0
    start = time.process_time()
    training, took, marginals = records, 0.0, None
    if method != "real":
        distiller = build(method, fields)
        budget = Budget(1.0, DELTA.get(name, 1e-5))
        kept = undersampled(records, keep, seed) if mode == "paper" else records
        result = run.distill(kept, distiller, budget, seed=seed)
        training, took = result.distilled, time.process_time() - start
        marginals = distances(training, kept)
    scores = score_tables(training, test, mode=mode, keep=keep, seed=seed)
    return {
        **{"table": name, "method": method, "fields": fields, "mode": mode, "seed": seed},
        **{"metrics": scores.metrics, "mean": scores.mean.values, "best": [scores.best.name, scores.best.values]},
        "accuracy": dict(zip(scores.classes, scores.mean.accuracy, strict=True)),
        **{"marginals": marginals, "training_rows": scores.training_rows, "distil_cpu_s": round(took, 1)},
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def summary(lines: list[dict[str, Any]]) -> None:
    """Mean and standard deviation over the runs, a row a table, mode and method."""
    groups: dict[tuple, list] = {}
    for line in lines:
        groups.setdefault((line["table"], line["mode"], line["method"], " ".join(line["fields"])), []).append(line)
    for key, runs in groups.items():
        V = np.array([line["mean"] for line in runs])
        spread = V.std(0, ddof=1) if len(V) > 1 else np.zeros(V.shape[1])
        numbers = ", ".join(
            f"{m} {v:.3f} ± {s:.3f}" for m, v, s in zip(runs[0]["metrics"], V.mean(0), spread, strict=True)
        )
        apart = [line["marginals"] for line in runs if line["marginals"]]
        shown = "; total variation {:.3f} of numbers, {:.3f} of all".format(*np.mean(apart, 0)) if apart else ""
        print(f"{' '.join(key)} ({len(runs)} runs): {numbers}{shown}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, help="folder of the tables")
    parser.add_argument("--tables", nargs="+", default=list(KEEP))
    parser.add_argument("--methods", nargs="+", default=["dp-kip", "dp-merf", "dp-hp"], help="or real")
    parser.add_argument("--modes", nargs="+", default=["honest", "paper"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--set", nargs="*", default=[], help="recipe fields: field=value")
    parser.add_argument("--out", type=Path, help="file that a JSON line a run is added to")
    options = parser.parse_args()
    found = []
    for name in options.tables:
        data = read(name, options.data)
        for mode in options.modes:
            for method in options.methods:
                for seed in range(options.first, options.first + options.runs):
                    line = one_run(name, data, method, options.set, mode, seed)
                    print(json.dumps(line), flush=True)
                    found.append(line)
                    if options.out:
                        with options.out.open("a") as file:
                            file.write(json.dumps(line) + "\n")
    summary(found)
