"""Scores of AIM, MST, Tab-PE and our own methods on the same tables: one JSON line per run.

python benchmarks/peers.py DATA [--python VENV/bin/python] [--sets adult cervical] [--peers mst aim tab-pe dp-merf]
                                [--repeats 5] [--bins 32] [--model-size 1] [--iterations 100] [--limit SECONDS]
                                [--out FILE]

DATA holds the tables as their sources publish them. AIM and MST are those of dpmm (0.1.9), which needs other
versions than this package: `pip install dpmm` in a virtual environment of its own, named by --python. The peers get the
records of the suites of `dpdistill benchmark`, in the same splits. Every number is in one of --bins bins between its
public bounds, on its public scale, so the peers spend no budget on bins. They make as many rows as there are records; a
number is random within its bin. Tab-PE (tab_pe.py) gets the numbers themselves, scaled.

A run that takes longer than the limit ends, and its line says so. Runs whose lines are in FILE are not made again: use
another FILE for other settings. Our methods run with the suite's settings for the table. Total variation is computed on
the same bins for all methods.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from dpdistill.cli.recipes import build
from tab_pe import ROWS, evolve

import dpdistill
from dpdistill import run as runs
from dpdistill.accounting.schedule import Budget
from dpdistill.benchmark.sources import open_source
from dpdistill.benchmark.suite import Source, read_suite
from dpdistill.evaluation.tables import score_tables
from dpdistill.schema import TableSchema
from dpdistill.schema.table import from_share, to_share
from dpdistill.storage.records import Records

SUITE = Path(dpdistill.__file__).parent / "cli" / "benchmarks" / "suites" / "papers.yaml"
THEIRS, EVOLVED, OURS = ("mst", "aim"), "tab-pe", ("dp-merf", "dp-hp", "dp-ntk", "dp-kip")
PROGRAM = """
import json, sys
import numpy as np, pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline
stated = json.loads(sys.argv[1])
table, sizes = (np.load(stated["in"])[name] for name in ("table", "sizes"))
names = [f"c{i:03d}" for i in range(len(sizes))]
frame = pd.DataFrame(table, columns=names)
kind = {"mst": MSTPipeline, "aim": AIMPipeline}[stated["peer"]]
more = {"max_model_size": stated["size"], "gen_kwargs": {"n_iters": stated["iterations"]}}
more = {} if stated["peer"] == "mst" else more
made = kind(epsilon=stated["epsilon"], delta=stated["delta"], disable_processing=True, n_jobs=1, **more)
made.fit(frame, domain={name: int(size) for name, size in zip(names, sizes)})
np.savez(stated["out"], table=made.generate(n_records=len(frame))[names].to_numpy(np.int64))
"""


def encoded(records: Records, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n, columns + 1), the class last, and the number of codes of each column, without rows of no class."""
    assert isinstance(records.schema, TableSchema)
    X, y = records.X[records.y >= 0], records.y[records.y >= 0]
    codes, sizes = [], []
    for values, column in zip(np.asarray(X, np.float64).T, records.schema.columns, strict=True):
        size = bins if column.is_number else len(column.categories)
        if column.is_number:
            low, high = column.bounds or (0.0, 1.0)
            share = to_share(values, low, high, column.scale == "log")
            values = np.where(np.isnan(share), np.nan, np.minimum(np.nan_to_num(share) * bins, bins - 1))
        codes.append(np.where(np.isnan(values), size, np.nan_to_num(values)).astype(np.int64))
        sizes.append(size + column.missing)
    return np.stack([*codes, y.astype(np.int64)], 1), np.array([*sizes, len(records.schema.classes)])


def decoded(table: np.ndarray, schema: TableSchema, bins: int, seed: int) -> Records:
    """Rows of codes, numbers at random within their bins."""
    rng, columns = np.random.default_rng(seed), []
    for codes, column in zip(table.T, schema.columns, strict=False):
        values = codes.astype(np.float64)
        if column.is_number:
            low, high = column.bounds or (0.0, 1.0)
            share = np.minimum((codes + rng.random(len(codes))) / bins, 1.0)
            values = from_share(share, low, high, column.scale == "log")
            values = values if column.kind == "numeric" else np.clip(np.rint(values), np.ceil(low), np.floor(high))
        missing = codes == (bins if column.is_number else len(column.categories))
        columns.append(np.where(missing, np.nan, values))
    return Records(np.stack(columns, 1).astype(np.float32), table[:, -1].astype(np.int64), schema)


def total_variation(found: np.ndarray, real: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Total variation of the one-way marginals of codes, one number per column."""
    shares = [
        [np.bincount(table[:, i], minlength=size) / len(table) for table in (found, real)]
        for i, size in enumerate(sizes)
    ]
    return np.array([np.abs(a - b).sum() / 2 for a, b in shares])


def peers_codes(
    table: np.ndarray, sizes: np.ndarray, delta: float, peer: str, stated: argparse.Namespace
) -> np.ndarray:
    """Codes of as many rows, made by a peer in its own virtual environment.

    Raises:
        TimeoutExpired: it did not end within the limit.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = {"in": f"{folder}/in.npz", "out": f"{folder}/out.npz"}
        np.savez(paths["in"], table=table, sizes=sizes)
        how = {"epsilon": 1.0, "delta": delta, "size": stated.model_size, "iterations": stated.iterations}
        command = [stated.python, "-c", PROGRAM, json.dumps({**paths, **how, "peer": peer})]
        subprocess.run(command, check=True, timeout=stated.limit, stdout=subprocess.DEVNULL)
        return np.load(paths["out"])["table"]


def evolved_rows(records: Records, delta: float, seed: int) -> Records:
    """Rows made by Tab-PE; a missing number is 0 and a category of its own."""
    assert isinstance(records.schema, TableSchema)
    parts, columns, counts = [], records.schema.columns, np.bincount(records.y[records.y >= 0])
    number = np.array([column.is_number for column in columns])
    bounds = [column.bounds or (0.0, 1.0) for column in columns]
    sizes = np.array([(1 if column.is_number else len(column.categories)) + column.missing for column in columns])
    may_miss = np.array([column.missing for column in columns])
    for label, count in enumerate(counts):
        values = np.asarray(records.X[records.y == label], np.float64)
        missing = np.isnan(values)
        shares = [to_share(values[:, i], *bounds[i], columns[i].scale == "log") for i in np.flatnonzero(number)]
        codes = np.where(missing, sizes - 1, np.where(number, 0, np.nan_to_num(values)))
        n = max(round(ROWS * count / counts.sum()), 1)
        real = np.nan_to_num(np.stack(shares, 1)), codes.astype(np.int64)
        made, codes = evolve(real, sizes, n, 1.0, delta, seed * len(counts) + label)
        rows = codes.astype(np.float64)
        missing = may_miss & (codes == sizes - 1)
        for share, i in zip(made.T, np.flatnonzero(number), strict=True):
            rows[:, i] = from_share(share, *bounds[i], columns[i].scale == "log")
        parts.append((np.where(missing, np.nan, rows), np.full(n, label)))
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Records(X.astype(np.float32), y, records.schema)


def our_rows(source: Source, train: Records, method: str, seed: int) -> Records:
    """Rows made by one of our methods, with the suite's settings for the table.

    Raises:
        SystemExit: the suite does not run the method on the table.
    """
    wanted = (method, source.name, 1.0)
    found = [r for r in read_suite(str(SUITE))[1].all_runs() if (r.method, r.source.name, r.epsilon) == wanted]
    if not found:
        raise SystemExit(f"The suite {SUITE.name} has no settings of {method} for {source.name}: choose another.")
    result = runs.distill(train, build(method, found[0].settings), Budget(1.0, source.delta), seed=seed)
    assert isinstance(train.schema, TableSchema)
    return Records(result.X, result.y.astype(np.int64), train.schema)


def run(source: Source, peer: str, repeat: int, stated: argparse.Namespace) -> dict[str, Any]:
    """Line of results of one run on a split, with its scores."""
    train, test = open_source(source, stated.data, SUITE, False, repeat)
    assert isinstance(train.schema, TableSchema)
    table, sizes = encoded(train, stated.bins)
    line: dict[str, Any] = {"set": source.name, "peer": peer, "repeat": repeat, "rows": len(table)}
    began = time.perf_counter()
    if peer in THEIRS:
        try:
            codes = peers_codes(table, sizes, source.delta, peer, stated)
        except subprocess.TimeoutExpired:
            return {**line, "ended": f"not within {stated.limit} seconds"}
        made = decoded(codes, train.schema, stated.bins, repeat)
    else:
        evolved = peer == EVOLVED
        made = evolved_rows(train, source.delta, repeat) if evolved else our_rows(source, train, peer, repeat)
        codes, _ = encoded(made, stated.bins)
    line["seconds"] = round(time.perf_counter() - began, 1)
    scores = score_tables(made, test, seed=repeat)
    far, number = total_variation(codes, table, sizes), [column.is_number for column in train.schema.columns]
    line |= {name: round(value, 4) for name, value in zip(scores.metrics, scores.mean.values, strict=True)}
    line["total variation of numbers"] = round(float(far[:-1][number].mean()), 4)
    return {**line, "total variation": round(float(far[:-1].mean()), 4)}


def made_before(out: Path | None) -> set[tuple[str, str, int]]:
    """Set, peer and repeat of all runs in FILE, including runs that reached the limit."""
    if out is None or not out.exists():
        return set()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return {(line["set"], line["peer"], line["repeat"]) for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--python", help="Python of the virtual environment with dpmm, for AIM and MST")
    parser.add_argument("--sets", nargs="+", default=["adult", "cervical", "cervical-tests", "epileptic", "kdd99"])
    parser.add_argument("--peers", nargs="+", default=[*THEIRS, EVOLVED], choices=[*THEIRS, EVOLVED, *OURS])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--bins", type=int, default=32)
    parser.add_argument("--model-size", type=float, default=1.0, help="size of AIM's models, in MB")
    parser.add_argument("--iterations", type=int, default=100, help="iterations of AIM's inference")
    parser.add_argument("--limit", type=float, default=3600.0, help="most seconds per run")
    parser.add_argument("--out", type=Path)
    stated = parser.parse_args()
    if stated.python is None and set(stated.peers) & set(THEIRS):
        parser.error("--python names the virtual environment of AIM and MST")
    sources = {source.name: source for source in read_suite(str(SUITE))[1].data}
    made = made_before(stated.out)
    for wanted in itertools.product(stated.sets, stated.peers, range(stated.repeats)):
        if wanted in made:
            continue
        name, peer, repeat = wanted
        line = json.dumps(run(sources[name], peer, repeat, stated))
        print(line, flush=True)
        if stated.out is not None:
            with stated.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
