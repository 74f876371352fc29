"""What workers draw: coins of its own for every round and every part, places of its own for every part."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from contract.data import SCHEMA
from contract.private.curators import NOISE, OnlyCoins, memory_ledger
from contract.private.queries import FlatQuery
from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.private.curator import Curator
from dpdistill.query import Stage
from dpdistill.storage.records import Records
from dpdistill.workers import Workers, processes, remote_aggregator, worker

ROUNDS, PARTS, PIXELS = 4, 2, 64


class InThisProcess(processes.WorkerGroup):
    """Workers that answer in this process, so that what they hold can be looked at."""

    def start(self, number: int) -> Any:
        return worker.Worker(self._holding, number, silent=False)

    def end(self, member: Any) -> None:
        pass

    def ask(self, member: Any, task: Any) -> Any:
        return member, task

    def first(self, tickets: list[Any]) -> Any:
        return tickets[0]

    def answer(self, ticket: Any) -> Any:
        member, task = ticket
        return member.answer(task)


def check_coins_of_workers() -> None:
    """Who is in a sample differs from round to round and from part to part, and so do the places of two parts.

    Every record lights a pixel of its own: a sum without noise shows who was in the sample.
    """
    records = Records(np.eye(PIXELS, dtype=np.float32).reshape(-1, 8, 8, 1), np.zeros(PIXELS, np.int64), SCHEMA)
    schedule = Schedule((Stage(ROUNDS, 0.5),), (NOISE,), Budget(1.0))
    here = mock.patch.object(remote_aggregator, "Processes", InThisProcess)
    quiet = mock.patch.object(worker, "settle", return_value="kind")  # it would settle this process on one core
    with tempfile.TemporaryDirectory() as name, here, quiet, Workers(1, parts=PARTS).holders(Path(name)) as holders:
        assert holders is not None
        # OnlyCoins hands out real bytes for the keys of workers, which are as long as the coins of four records.
        asked = Curator(
            records, schedule, memory_ledger(schedule), OnlyCoins(remote_aggregator.KEY // 8, 5), None, None, holders
        )
        sums = np.stack([asked.release(t, FlatQuery(by_class=False), np.float32(1.0)).value for t in range(ROUNDS)])
        held: dict[int, Any] = asked._holders._crew.members[0]._holders  # pyright: ignore[reportAttributeAccessIssue]
        places = [held[part]._records._places for part in range(PARTS)]
    sampled = (np.abs(sums) > 0.5).reshape(ROUNDS, PARTS, PIXELS // PARTS)
    assert 0.35 < sampled.mean() < 0.65, "The size of a sample is not that of the stated probability."
    for t in range(1, ROUNDS):
        differ = (sampled[t] != sampled[:t]).mean((1, 2))
        assert differ.min() > 0.25, "Two rounds have the same coins: sampling amplifies nothing."
    assert (sampled[:, 0] != sampled[:, 1]).mean() > 0.25, "Two parts have the same coins."
    assert not np.array_equal(*places), "Two parts have the same places."
