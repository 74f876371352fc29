"""A worker: it opens parts of the records, adds up shards of them, and prints nothing."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpdistill.errors import CuratorError, is_out_of_memory
from dpdistill.private.aggregator import LocalAggregator, Question
from dpdistill.private.chunking import Shard
from dpdistill.private.noise import KeyedEntropy
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Unshown
from dpdistill.storage.shards import open_part

FAILED = "failed"
"""Answer of a worker to any error other than a refusal; it reveals nothing about the error."""
FULL = "out of memory"
"""Answer of a worker whose machine has too little memory."""


@dataclass(frozen=True)
class Holding:
    """Facts that a worker needs to open the records.

    Args:
        address: location of the parts.
        key: key of places and of the choice among a unit's records, 32 bytes; secret.
        kind: kind of the entropy that the key came from.
        rows_per_unit: as in `LocalAggregator`.
        space: memory limit and folder of features; the workers of one machine share the folder.
    """

    address: str
    key: bytes = field(repr=False)
    kind: str
    rows_per_unit: int | None
    space: Memory


@dataclass(frozen=True)
class Task:
    """Task to add up a shard of a part; without a key of coins, to compute its features only."""

    part: int
    shard: Shard
    question: Question
    coins: bytes | None = field(repr=False)


class Worker(Unshown):
    """Answers tasks with integers, a refusal, or FAILED.

    Args:
        holding: the records to open.
        index: number of the worker, which selects its core and device.
        silent: discard everything that this process prints.
    """

    def __init__(self, holding: Holding, index: int = 0, silent: bool = True) -> None:
        self._holding, self._holders = holding, dict[int, LocalAggregator]()
        self.kind = settle(index, silent)

    def size(self, part: int) -> int | str:
        """Returns the number of units of a part."""
        return self._safely(lambda: len(self._holder(part)))

    def answer(self, task: Task) -> tuple[str, Any]:
        """Returns (kind of this machine, integer sum of a shard); None for features, a text for an error."""
        return self.kind, self._safely(lambda: self._answer(task))

    def _answer(self, task: Task) -> np.ndarray | None:
        holder = self._holder(task.part)
        if task.coins is None:
            holder.fill(task.question, task.shard)
            return None
        coins = KeyedEntropy(task.coins + task.part.to_bytes(8, "little"), self._holding.kind)
        return holder.sum(task.question, coins, task.shard)

    def _holder(self, part: int) -> LocalAggregator:
        if part not in self._holders:
            given = self._holding
            space = given.space
            if space.folder is not None and space.shared:
                folder = space.folder / f"features-of-{part}"
                folder.mkdir(mode=0o700, exist_ok=True)
                space = replace(space, folder=folder)
            entropy = KeyedEntropy(given.key + part.to_bytes(8, "little"), given.kind)
            self._holders[part] = LocalAggregator(open_part(given.address, part), entropy, given.rows_per_unit, space)
        return self._holders[part]

    def _safely(self, work: Any) -> Any:
        try:
            return work()
        except CuratorError as error:
            return str(error)
        except BaseException as error:
            return FULL if is_out_of_memory(error) else FAILED


def settle(index: int, silent: bool) -> str:
    """Restricts the process to one core and one device and silences it, so that results do not depend on other
    processes.

    Returns:
        The facts that decide on the low bits of its numbers: the kind of its core, of its device, and JAX.
    """
    if silent:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share a GPU's memory
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[index % len(cores)]})
    import jax

    devices = jax.local_devices()
    device = devices[index % len(devices)]
    jax.config.update("jax_default_device", device)
    return f"{_core()}, {device.device_kind}, jax {jax.__version__}"


def _core() -> str:
    """Returns the kind of this machine's cores, if it is known."""
    with suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
