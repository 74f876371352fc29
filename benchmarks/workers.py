"""Sums by worker processes and by one process: equal bits, kills, efficiency, overhead of shards, bytes moved.

    python benchmarks/workers.py DATA [bits|kills|efficiency|shards|network ...] [--records N] [--ray]

DATA is a folder or a file as `dpdistill distill` takes it. Figures are medians of turns within one process.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dpdistill.methods import METHODS
from dpdistill.private.aggregator import LocalAggregator, Question
from dpdistill.private.checks import check_query
from dpdistill.private.grid import make_grid
from dpdistill.private.linear import carried
from dpdistill.private.noise import KeyedEntropy, SeededEntropy
from dpdistill.query import LinearQuery
from dpdistill.sources.load import load
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Records
from dpdistill.workers import Workers
from dpdistill.workers.worker import Task

ASKED = ["dos", "decoupled-kip"]


def question_of(name: str, records: Records) -> Question:
    """The first full-batch question of a method."""
    method = METHODS[name]()
    query, params = method.ask(method.init(jax.random.key(0), records.schema))
    params, linear = jax.tree.map(np.asarray, params), isinstance(query, LinearQuery)
    shape = check_query(query, params, records.schema)
    grid = None if linear else make_grid(query.clip_norm, 1.0, int(np.prod(shape)), len(records))
    return Question(query, params, shape, 64 if linear else 16, 1.0, grid, 0)


def whole(question: Question, total: np.ndarray) -> np.ndarray:
    """Whole sum of a question, as one array of integers."""
    return carried(total) if question.grid is None else total


def with_pool(workers: Workers, records: Records, use: Callable[[Any], Any]) -> Any:
    """Result of a function that uses a pool of workers."""
    with tempfile.TemporaryDirectory() as folder, workers.holders(Path(folder)) as start:
        assert start is not None
        return use(start(records, SeededEntropy(1), None, Memory()))


def bits(records: Records, ray: str | None) -> None:
    """Checks that 1, 2 and 4 workers and this process give the same integers."""
    for name in ASKED:
        question = question_of(name, records)
        key = SeededEntropy(1).bytes(32) + (0).to_bytes(8, "little")
        found = [whole(question, LocalAggregator(records, KeyedEntropy(key)).answer(question, SeededEntropy(2)))]
        for count in (1, 2, 4):
            ask = partial(_asked, question)
            answer = with_pool(Workers(count, ray=ray), records, ask)
            found.append(whole(question, answer))
        same = [bool(np.array_equal(each, found[1])) for each in found]
        print(f"{name}: this process, 1, 2, 4 workers: equal to those of one worker: {same}", flush=True)


def _asked(question: Question, pool: Any) -> np.ndarray:
    return pool.answer(question, SeededEntropy(2))


def kills(records: Records, wanted: int = 20) -> None:
    """Kills random workers at random times and checks that every sum stays equal."""
    rng = random.Random(0)
    for name in ASKED:
        question, dead, rounds = question_of(name, records), 0, 0

        def use(pool: Any, question: Question = question) -> tuple[int, int]:
            expected, dead, rounds = whole(question, pool.answer(question, SeededEntropy(2))), 0, 0
            while dead < wanted:
                begun = threading.Timer(rng.uniform(0.0, 3.0), _kill_one, (pool, rng))
                begun.start()
                answer = whole(question, pool.answer(question, SeededEntropy(2)))
                dead, rounds = dead + begun.finished.is_set(), rounds + 1
                begun.cancel()
                assert np.array_equal(answer, expected)
            return dead, rounds

        dead, rounds = with_pool(Workers(2), records, use)
        print(f"{name}: {dead} kills in {rounds} rounds: every sum is the same", flush=True)


def _kill_one(pool: Any, rng: random.Random) -> None:
    alive = [process for process, _ in list(pool._crew.members.values())]
    if alive:
        os.kill(rng.choice(alive).pid, signal.SIGKILL)


def efficiency(records: Records, ray: str | None, turns: int = 5) -> None:
    """Compares two workers on one sum with two pools of one worker that compute a whole sum each."""
    for name in ASKED:
        question = question_of(name, records)
        share: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            alone = [Workers(1).holders(Path(tempfile.mkdtemp(dir=folder))) for _ in range(2)]
            pair = Workers(2, ray=ray).holders(Path(tempfile.mkdtemp(dir=folder)))
            starts = [each.__enter__() for each in (*alone, pair)]
            pools = [start(records, SeededEntropy(1), None, Memory()) for start in starts if start]
            cores = os.sched_getaffinity(0)
            for core, pool in zip(sorted(cores), pools[:2], strict=False):
                os.sched_setaffinity(0, {core})  # the worker inherits this: each worker has a core of its own
                pool.answer(question, SeededEntropy(2))
            os.sched_setaffinity(0, cores)
            for turn in range(turns + 1):  # the two workers compile and make features in the first turn
                begun = time.perf_counter()
                with ThreadPoolExecutor(2) as threads:
                    for one in [threads.submit(pool.answer, question, SeededEntropy(2)) for pool in pools[:2]]:
                        one.result()
                both, begun = time.perf_counter() - begun, time.perf_counter()
                pools[2].answer(question, SeededEntropy(2))
                if turn:
                    share.append(both / 2 / (time.perf_counter() - begun))
            for each in (*alone, pair):
                each.__exit__(None, None, None)
        print(f"{name}: efficiency of 2 workers {statistics.median(share):.2f} ({_spread(share)})", flush=True)


def shards(records: Records, turns: int = 15) -> None:
    """Compares 64 shards, one after the other in this process, with the whole sum."""
    for name in ASKED:
        question, holder, share = question_of(name, records), LocalAggregator(records, SeededEntropy(1)), []
        for turn in range(turns + 1):
            if not turn:
                for i in range(64):
                    holder.fill(question, (i, 64))
            begun = time.perf_counter()
            one = whole(question, holder.sum(question, SeededEntropy(2)))
            single, begun = time.perf_counter() - begun, time.perf_counter()
            many = sum(holder.sum(question, SeededEntropy(2), (i, 64)) for i in range(64))
            if turn:
                share.append((time.perf_counter() - begun) / single)
            assert np.array_equal(one, whole(question, many))  # pyright: ignore[reportArgumentType]
        print(f"{name}: 64 shards take {statistics.median(share):.3f} of the whole ({_spread(share)})", flush=True)


def network(records: Records, parts: int = 1_000) -> None:
    """Bytes that a round moves with a thousand parts of a few records, and the sum of all parts."""
    for name in ASKED:
        question, moved, total = question_of(name, records), [0, 0], None
        begun = time.perf_counter()
        for part, rows in enumerate(np.array_split(np.arange(len(records)), parts)):
            few = Records(records.X[rows], records.y[rows], records.schema)
            holder = LocalAggregator(few, SeededEntropy(part))
            holder._tested = TESTED.setdefault(name, holder._tested)
            task = Task(part, (0, 1), question, b"c" * 32)
            answer = holder.sum(question, KeyedEntropy(b"c" * 32))
            moved = [moved[0] + len(pickle.dumps(task)), moved[1] + len(pickle.dumps(answer))]
            total = answer if total is None else total + answer
        seconds = time.perf_counter() - begun
        print(
            f"{name}: {parts} parts of {len(records) // parts} records, a round: {moved[0] / parts:,.0f} bytes to each"
            f" and {moved[1] / parts:,.0f} back, {sum(moved) / 1e6:,.0f} MB in all; {seconds:.0f} s in turn",
            flush=True,
        )


TESTED: dict[str, set] = {}


def _spread(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}, {len(values)} turns"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("what", nargs="*", default=["bits", "kills", "efficiency", "shards", "network"])
    parser.add_argument("--records", type=int, default=6_000)
    parser.add_argument("--methods", nargs="+", default=[*ASKED])
    parser.add_argument("--ray", help="address of a cluster, or local")
    stated = parser.parse_args()
    ASKED[:] = stated.methods
    given = load(stated.data)
    n = min(stated.records, len(given))
    records = Records(np.array(given.X[:n]), np.array(given.y[:n]), given.schema)
    print(f"{n} records of {records.schema}, {os.cpu_count()} cores, jax {jax.__version__}", flush=True)
    for what in stated.what:
        work = {"bits": lambda: bits(records, stated.ray), "kills": lambda: kills(records),
                "efficiency": lambda: efficiency(records, stated.ray), "shards": lambda: shards(records),
                "network": lambda: network(records)}  # fmt: skip
        work[what]()


if __name__ == "__main__":
    main()
