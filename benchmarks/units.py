"""What protecting persons costs: a unit of k records beside group privacy at the same promise; a JSON line a run.

python benchmarks/units.py DATA [--sets adult mnist] [--runs 3] [--records N] [--set field=value ...] [--out FILE]

DATA holds adult/ and mnist/ as their sources publish them. Persons are synthetic: a public random permutation of the
training records is cut into households of 4 rows (adult) or writers of 10 images (mnist). Every arm promises
(1, 1e-5) to all k records of a person together, but for the last:

    unit        Budget(unit=..., rows_per_unit=k): the k records of a person are clipped as one
    group       single records, at the epsilon of which group privacy for k records makes 1, by the Gaussian's own curve
    textbook    single records, at (epsilon / k, delta / sum of e^(i epsilon / k)): group privacy of any mechanism
    rows        single records at (1, 1e-5): what a person of one record is promised, and no other

Adult is distilled by dp-merf and scored by gradient boosting trained on the rows it makes; MNIST by decoupled-kip and
scored by the classifier that it releases. Scores are on the official test sets, and no setting was chosen by them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import dpdistill
from dpdistill import run
from dpdistill.accounting.gaussian import gaussian_epsilon, gaussian_noise_multiplier
from dpdistill.accounting.schedule import Budget
from dpdistill.cli.recipes import build
from dpdistill.data import Records, load
from dpdistill.data.tables.load import load_table
from dpdistill.data.tables.schema_file import read_schema

SCHEMAS = Path(dpdistill.__file__).parent / "cli" / "benchmarks" / "suites" / "schemas"
EPSILON, DELTA = 1.0, 1e-5
SETS = {"adult": ("household", 4, "dp-merf"), "mnist": ("writer", 10, "decoupled-kip")}


def budgets(unit: str, k: int) -> dict[str, Budget]:
    """The budget of every arm."""
    group = gaussian_epsilon(k * gaussian_noise_multiplier(EPSILON, DELTA), DELTA)
    each = EPSILON / k
    return {
        "unit": Budget(EPSILON, DELTA, unit=unit, rows_per_unit=k),
        "group": Budget(group, DELTA),
        "textbook": Budget(each, DELTA / math.fsum(math.exp(i * each) for i in range(k))),
        "rows": Budget(EPSILON, DELTA),
    }


def read(name: str, data: Path) -> tuple[Records, Records]:
    """Training and test records."""
    if name == "mnist":
        return load(data / "mnist"), load(data / "mnist", "test")
    table_file = read_schema(SCHEMAS / "adult.yaml")
    train, test = (load_table(data / "adult" / f"adult.{part}.gz", table_file) for part in ("data", "test"))
    return train, test


def with_people(records: Records, k: int, n: int, seed: int, named: bool) -> Records:
    """n records at random, cut into persons of k."""
    chosen = np.random.default_rng((seed, 4)).permutation(len(records))[:n]
    units = np.arange(len(chosen)) // k if named else None
    return Records(records.X[chosen], records.y[chosen], records.schema, units=units)


def score(result: Any, test: Records, seed: int) -> dict[str, float]:
    """Accuracy of what was released, in percent, and for two classes the area under its curve."""
    X = test.schema.to_unit(test.X)
    if result.distilled.classifier is not None:
        guesses = np.concatenate([result.teacher(part).argmax(1) for part in np.array_split(test.X, 20)])
        return {"accuracy": 100.0 * float((guesses == test.y).mean())}
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    fitted = HistGradientBoostingClassifier(random_state=seed).fit(result.distilled.X, result.distilled.y)
    chances = fitted.predict_proba(X)[:, 1]
    area = 100.0 * float(roc_auc_score(test.y, chances))
    return {"accuracy": 100.0 * float(((chances > 0.5) == test.y).mean()), "area": area}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--arms", nargs="+", default=["unit", "group", "textbook", "rows"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=10**9)
    parser.add_argument("--set", dest="fields", action="append", default=[])
    parser.add_argument("--out", type=Path)
    stated = parser.parse_args()
    for name in stated.sets:
        unit, k, method = SETS[name]
        train, test = read(name, stated.data)
        for seed in range(stated.runs):
            for arm in stated.arms:
                began = time.perf_counter()
                records = with_people(train, k, stated.records, seed, arm == "unit")
                budget = budgets(unit, k)[arm]
                result = run.distill(records, build(method, stated.fields), budget, seed=seed)
                found: dict[str, Any] = {"set": name, "arm": arm, "seed": seed, "k": k, "epsilon": budget.epsilon}
                assert result.schedule is not None
                noise = min(result.schedule.noise_multipliers)
                found |= {"noise_multiplier": noise, **score(result, test, seed)}
                line = json.dumps(found | {"seconds": round(time.perf_counter() - began, 1)})
                print(line, flush=True)
                if stated.out is not None:
                    with stated.out.open("a") as file:
                        file.write(line + "\n")


if __name__ == "__main__":
    main()
