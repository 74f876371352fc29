"""Accuracy by the number of records, at epsilon = 1: one JSON line per run.

python benchmarks/sizes.py DATA [--sets mnist fashion_mnist adult] [--sizes 300 1000 3000 10000 30000] [--seeds 1]

DATA holds mnist/, fashion_mnist/ and adult/ as their sources publish them. Each run takes a public random subset of the
training records. Images are distilled by decoupled-kip and scored by the released classifier, in percent. Adult is
distilled by dp-merf and scored by a logistic regression trained on the synthetic rows, as area under the ROC curve in
percent. "real" is the logistic regression trained on the subset itself. All settings are the package's defaults, and
scores are on the official test sets.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import dpdistill as dp
from dpdistill.schema import TableSchema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import read_schema
from dpdistill.storage.records import Records

SCHEMA = Path(dp.__file__).parent / "benchmark" / "suites" / "schemas" / "adult.yaml"


def read(name: str, data: Path) -> tuple[Records, Records]:
    """Returns training and test records."""
    if name != "adult":
        return dp.load(data / name), dp.load(data / name, "test")
    table_file = read_schema(SCHEMA)
    train, test = (load_table(data / "adult" / f"adult.{part}.gz", table_file) for part in ("data", "test"))
    return train, test


def subset(records: Records, n: int, seed: int) -> Records:
    """Returns n random records."""
    chosen = np.random.default_rng((seed, n)).permutation(len(records))[:n]
    return Records(records.X[np.sort(chosen)], records.y[np.sort(chosen)], records.schema)


def area(X: np.ndarray, y: np.ndarray, test: Records) -> float:
    """Returns the area under the ROC curve of a logistic regression, in percent."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    fitted = LogisticRegression(max_iter=1000).fit(X, y)
    return 100.0 * float(roc_auc_score(test.y, fitted.predict_proba(test.schema.to_unit(test.X))[:, 1]))


def run(records: Records, test: Records, seed: int) -> dict[str, float]:
    """Returns the scores of one run."""
    budget = dp.Budget(epsilon=1.0)
    if isinstance(records.schema, TableSchema):
        made = dp.distill(records, dp.DPMERF(), budget, seed=seed).distilled
        real = area(records.schema.to_unit(records.X), records.y, test)
        return {"area": area(made.X, made.y, test), "real": real}
    result = dp.distill(records, dp.DecoupledKIP(steps=5), budget, seed=seed)
    guesses = np.concatenate([result.teacher(part).argmax(1) for part in np.array_split(test.X, 20)])
    return {"accuracy": 100.0 * float((guesses == test.y).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["mnist", "fashion_mnist", "adult"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[300, 1000, 3000, 10000, 30000])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    for name in options.sets:
        train, test = read(name, options.data)
        for n, seed in ((n, seed) for n in options.sizes for seed in range(options.seeds)):
            started = time.process_time()
            scores = {key: round(value, 2) for key, value in run(subset(train, n, seed), test, seed).items()}
            line = {"set": name, "records": n, "seed": seed, **scores}
            print(json.dumps(line | {"cpu_seconds": round(time.process_time() - started)}), flush=True)


if __name__ == "__main__":
    main()
