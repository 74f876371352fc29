"""Cost of protecting persons: a unit of k records compared with group privacy; one JSON line per run.

python benchmarks/units.py DATA [--signal] [--sets adult mnist] [--method NAME] [--runs 3] [--records N]
                                  [--set FIELD=VALUE] [--out FILE]

DATA holds adult/ and mnist/ as their sources publish them. Persons are synthetic: a public random permutation of the
training records is cut into households of 4 rows (adult) or writers of 10 images (mnist). Every arm promises
(1, 1e-5) for all k records of a person together, except the last:

    unit        Budget(unit=..., rows_per_unit=k): the k records of a person are clipped as one
    group       single records, at the epsilon of which group privacy for k records makes 1, by the Gaussian's own curve
    textbook    single records, at (epsilon / k, delta / sum of e^(i epsilon / k)): group privacy of any mechanism
    rows        single records at (1, 1e-5): the promise for a person with one record

--signal compares sums instead of results: the length of the sum of a method's first round before the noise, for single
rows and for persons, and the signal-to-noise ratio of persons divided by the ratio of group privacy.

Adult is distilled by dp-merf and scored by gradient boosting trained on the synthetic rows. MNIST is distilled by
decoupled-kip and scored by the released classifier, or by another method and scored by kernel ridge regression (fc-ntk)
on the synthetic images. Scores are on the official test sets, and no setting was chosen by them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from dpdistill.cli.recipes import build

import dpdistill
from dpdistill import evaluation as evaluate
from dpdistill import run
from dpdistill.accounting.gaussian import gaussian_epsilon, gaussian_noise_multiplier
from dpdistill.accounting.schedule import Budget
from dpdistill.kernels import KERNELS
from dpdistill.methods import METHODS
from dpdistill.private.aggregator import LocalAggregator, Question
from dpdistill.private.checks import blocks_of, check_query
from dpdistill.private.grid import make_grid
from dpdistill.private.linear import FRACTION, step_and_sensitivity
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import LinearQuery
from dpdistill.schema import Schema
from dpdistill.sources.load import load
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import read_schema
from dpdistill.storage.records import Records

SCHEMAS = Path(dpdistill.__file__).parent / "cli" / "benchmarks" / "suites" / "schemas"
EPSILON, DELTA = 1.0, 1e-5
SETS = {"adult": ("household", 4, "dp-merf"), "mnist": ("writer", 10, "decoupled-kip")}


def budgets(unit: str, k: int) -> dict[str, Budget]:
    """Budget of every arm."""
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
    """Random n records, divided into persons of k."""
    chosen = np.random.default_rng((seed, 4)).permutation(len(records))[:n]
    units = np.arange(len(chosen)) // k if named else None
    return Records(records.X[chosen], records.y[chosen], records.schema, units=units)


def score(result: Any, test: Records, seed: int) -> dict[str, float]:
    """Accuracy of a result in percent and, for two classes, the area under the ROC curve."""
    made, X = result.distilled, test.schema.to_unit(test.X)
    if made.classifier is not None:
        guesses = np.concatenate([result.teacher(part).argmax(1) for part in np.array_split(test.X, 20)])
        return {"accuracy": 100.0 * float((guesses == test.y).mean())}
    if isinstance(test.schema, Schema):
        kernel = evaluate.score_krr(made.X, made.y, made.schema, test, kernel=KERNELS["fc-ntk"], ridge=1e-6)
        return {"accuracy": kernel.mean}
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    fitted = HistGradientBoostingClassifier(random_state=seed).fit(made.X, made.y)
    chances = fitted.predict_proba(X)[:, 1]
    area = 100.0 * float(roc_auc_score(test.y, chances))
    return {"accuracy": 100.0 * float(((chances > 0.5) == test.y).mean()), "area": area}


def signals(name: str, data: Path, most: int) -> None:
    """Compares the first-round sum of persons with the sum of rows, for every method that takes the set."""
    unit, k, _ = SETS[name]
    train, _ = read(name, data)
    rows, people = (with_people(train, k, most, 0, each) for each in (False, True))
    for method in ("dp-merf", "dp-hp") if name == "adult" else ("dp-merf", "dos", "ndpdc", "decoupled-kip"):
        one, many = first_sum(rows, METHODS[method](), 1), first_sum(people, METHODS[method](), k)
        lengths = np.linalg.norm(one), np.linalg.norm(many)
        found = {"set": name, "method": method, "unit": unit, "k": k, "rows": len(rows)}
        found |= {"signal_to_noise_over_group_privacy": round(float(k * lengths[1] / lengths[0]), 3)}
        print(json.dumps(found | {"cosine": round(float(one @ many / np.prod(lengths)), 5)}), flush=True)


def first_sum(records: Records, method: Any, k: int) -> np.ndarray:
    """Sum of the first round in units of the clip norm, before the noise."""
    query, params = method.ask(method.init(jax.random.key(0), records.schema))
    params, linear = jax.tree.map(np.asarray, params), isinstance(query, LinearQuery)
    shape = check_query(query, params, records.schema, rows_per_unit=k)
    d = math.prod(shape) * blocks_of(query, records.schema, k)
    grid = None if linear else make_grid(query.clip_norm, 4.0, d, len(records))
    holder = LocalAggregator(records, SeededEntropy(1), None if records.units is None else k)
    total = holder.sum(Question(query, params, shape, max(1, 64 // k), 1.0, grid, 0), SeededEntropy(2))
    if grid is not None:
        return total.ravel() * grid.step / query.clip_norm
    step, _ = step_and_sensitivity(query.clip_norm, math.prod(shape))
    return (total[0] + np.ldexp(total[1].astype(float), -FRACTION)).ravel() * step / query.clip_norm


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--signal", action="store_true")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--arms", nargs="+", default=["unit", "group", "textbook", "rows"])
    parser.add_argument("--method")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=10**9)
    parser.add_argument("--set", dest="fields", action="append", default=[])
    parser.add_argument("--out", type=Path)
    stated = parser.parse_args()
    for name in stated.sets if stated.signal else ():
        signals(name, stated.data, stated.records)
    for name in () if stated.signal else stated.sets:
        unit, k, default = SETS[name]
        method = stated.method or default
        train, test = read(name, stated.data)
        for seed in range(stated.runs):
            for arm in stated.arms:
                began = time.perf_counter()
                records = with_people(train, k, stated.records, seed, arm == "unit")
                budget = budgets(unit, k)[arm]
                result = run.distill(records, build(method, stated.fields), budget, seed=seed)
                found: dict[str, Any] = {"set": name, "method": method, "arm": arm, "seed": seed, "k": k}
                found["epsilon"] = budget.epsilon
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
