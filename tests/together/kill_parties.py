"""A run of four owners in processes of their own that are killed and started again, and what must hold of it."""

from __future__ import annotations

import multiprocessing
import random
import socket
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from dpdistill.accounting.schedule import Budget
from dpdistill.api.together import together_join, together_plan, together_serve
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.baselines.ndpdc import NDPDC
from dpdistill.schema import Schema
from dpdistill.signatures.keys import new_key
from dpdistill.together.plan import TogetherPlan
from dpdistill.together.replay import check_transcript
from dpdistill.verification import verify

READY = multiprocessing.get_context("forkserver")
READY.set_forkserver_preload(
    ["kill_parties", "dpdistill.together.serve", "dpdistill.together.join", "dpdistill.methods"]
)
NAMES = ("a", "b", "c", "d")
COORDINATOR = "coordinator"
SCHEMA = Schema((4, 4, 1), (0.0, 1.0), ("x", "y"))


def prepare(folder: Path, rounds: int, pace: float) -> None:
    """Writes records, keys, ledgers and the plan."""
    draw = np.random.default_rng(1)
    owners = {}
    for name in NAMES:
        X, y = draw.uniform(0, 1, (40, 4, 4, 1)).astype(np.float32), draw.integers(0, 2, 40)
        np.savez(folder / f"{name}.npz", X=X, y=y)
        DatasetLedger.begin(folder / f"{name}.ledger", 1.0)
        owners[name] = new_key(folder / f"{name}.key", None), 100
    with closing(socket.create_server(("localhost", 0))) as taken:
        port = taken.getsockname()[1]
    method = NDPDC(per_class=1, rounds=rounds, sampling_prob=1.0, width=3)
    address = f"localhost:{port}"
    together_plan(folder / "shared", owners, SCHEMA, method, Budget(1.0), pace=pace, address=address)


def party(folder: Path, name: str) -> None:
    """Runs the coordinator or an owner until the run has ended."""
    if name == COORDINATOR:
        together_serve(folder / "shared", patience=2.0, wait=120.0)
        return
    plan = TogetherPlan.read(folder / "shared.run" / "plan.json")
    together_join(
        plan, folder / f"{name}.npz", folder / f"{name}.key", folder / f"{name}.ledger", folder / name, wait=60.0
    )


def started(folder: Path, name: str) -> multiprocessing.process.BaseProcess:
    process = READY.Process(target=party, args=(folder, name))
    process.start()
    return process


def killed_run(folder: Path, kills: int, rounds: int, seed: int, pace: float = 0.1, most: float = 2.0) -> list[str]:
    """Runs the plan with a number of kills of parties at random times; returns who was killed."""
    prepare(folder, rounds, pace)
    draw, killed = random.Random(seed), []
    parties = {name: started(folder, name) for name in (COORDINATOR, *NAMES)}
    try:
        while parties[COORDINATOR].is_alive() or parties[COORDINATOR].exitcode != 0:
            time.sleep(draw.uniform(0.3, most))
            name = draw.choice([COORDINATOR, *NAMES])
            if len(killed) < kills and parties[COORDINATOR].is_alive() and parties[name].is_alive():
                parties[name].kill()
                parties[name].join()
                killed.append(name)
                parties[name] = started(folder, name)
            assert parties[COORDINATOR].exitcode in (None, 0)
        for name in NAMES:
            parties[name].join(5)
    finally:
        for process in parties.values():
            process.kill()
            process.join()
    return killed


def check(folder: Path, rounds: int) -> list[tuple[str, ...]]:
    """Checks payments, sums and the result; returns the lists of all rounds."""
    plan = TogetherPlan.read(folder / "shared.run" / "plan.json")
    assert verify(folder / "shared").passed
    for name in NAMES:
        summary = DatasetLedger(folder / f"{name}.ledger").summary()
        assert len(summary.runs) == 1
        assert 0.99 < summary.spent <= 1.0
        assert len(RunLedger.read(folder / name).events) <= rounds
        found = [*check_transcript(plan, folder / "shared.run" / "transcript", folder / "shared", folder / name, name)]
        assert [each.passed for each in found] == [True] * 4, found
    from dpdistill.together.transcript import Transcript

    transcript = Transcript(folder / "shared.run" / "transcript", plan.run)
    sealed = [transcript.sealed(t) for t in range(rounds)]
    return [each.attempt.names for each in sealed if each is not None]
