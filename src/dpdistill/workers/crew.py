"""Who carries out tasks: processes of this machine, or actors of a Ray cluster. Both lose members, and go on."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from threading import Thread
from typing import Any, Protocol

from dpdistill.private.checks import CuratorError
from dpdistill.schema import DataError
from dpdistill.workers.worker import FAILED, Holding, Task, Worker

MOST_LOSSES = 100
"""So many workers may be lost in one round."""
FIRST_LOSSES = 5
"""So many before any task of a round is answered: memory that is too small for them loses every one."""
LOST = "Workers are lost again and again: take fewer (--workers), or machines with more memory."


class Crew(Protocol):
    """Answers tasks in any order; a task whose worker is lost is given to another one."""

    def answers(self, tasks: Sequence[Task]) -> list[Any]:
        """What `Worker.answer` says of each task."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


class Processes:
    """Processes of this machine.

    Args:
        holding: what they open.
        count: how many.
    """

    def __init__(self, holding: Holding, count: int) -> None:
        self._holding, self._count = holding, count
        self._pool: ProcessPoolExecutor | None = None

    def answers(self, tasks: Sequence[Task]) -> list[Any]:
        """What `Worker.answer` says of each task."""
        found: dict[int, Any] = {}
        for lost in range(MOST_LOSSES):
            if lost == FIRST_LOSSES and not found:
                break
            pool = self._started()
            try:
                asked: dict[Future, int] = {
                    pool.submit(_carry_out, t): i for i, t in enumerate(tasks) if i not in found
                }
                for future in as_completed(asked):
                    found[asked[future]] = future.result()
                return [found[i] for i in range(len(tasks))]
            except BrokenProcessPool:
                self.close()
        raise CuratorError(LOST)

    def close(self) -> None:
        """Let the workers go."""
        if self._pool is None:
            return
        # They are killed, not waited for: one that was lost may hold the lock that the others end by.
        alive = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = None
        for process in alive:
            process.kill()
        for process in alive:
            process.join(10)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            begin = self._holding, context.Value("i", 0)
            self._pool = ProcessPoolExecutor(self._count, context, _begin, begin)
        return self._pool


_WORKER: Worker | None = None


def _begin(holding: Holding, number: Any) -> None:
    global _WORKER  # one a process, which outlives its tasks
    Thread(target=_end_with_parent, daemon=True).start()
    with number.get_lock():
        index, number.value = number.value, number.value + 1
    _WORKER = Worker(holding, index)


def _end_with_parent() -> None:
    """A worker whose run was killed ends, and does not go on writing where the next one reads."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _carry_out(task: Task) -> Any:
    assert _WORKER is not None
    return _WORKER.answer(task)


class Actors:
    """Actors of a Ray cluster.

    Args:
        holding: what they open; its address is one that all machines of the cluster see.
        count: how many, a core each.
        address: of the cluster; "local" starts one on this machine.

    Raises:
        DataError: Ray is not installed, or no cluster answers.
    """

    def __init__(self, holding: Holding, count: int, address: str) -> None:
        try:
            import ray
        except ImportError:
            raise DataError("A cluster needs Ray: pip install 'dpdistill[ray]'.") from None
        self._ray, self._holding, self._started = ray, holding, not ray.is_initialized()
        if self._started:
            try:
                cores = count if address == "local" else None
                ray.init(
                    address, num_cpus=cores, log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR
                )
            except (ConnectionError, ValueError, RuntimeError):
                raise DataError(f"No Ray cluster answers at {address}.") from None
        self._kind = ray.remote(Worker)
        self._free = [self._new(i) for i in range(count)]

    def answers(self, tasks: Sequence[Task]) -> list[Any]:
        """What `Worker.answer` says of each task."""
        found: dict[int, Any] = {}
        waiting, busy, lost = list(range(len(tasks)))[::-1], {}, 0
        while len(found) < len(tasks):
            while waiting and self._free:
                i, (number, actor) = waiting.pop(), self._free.pop()
                busy[actor.answer.remote(tasks[i])] = i, number, actor
            (ready, *_), _ = self._ray.wait(list(busy), num_returns=1)
            i, number, actor = busy.pop(ready)
            try:
                found[i] = self._ray.get(ready)
                self._free.append((number, actor))
            except self._ray.exceptions.RayTaskError:  # what it was given could not even be read
                found[i] = "", FAILED
                self._free.append((number, actor))
            except self._ray.exceptions.RayError:
                waiting.append(i)
                self._free.append(self._new(number))
                lost += 1
                if lost >= (MOST_LOSSES if found else FIRST_LOSSES):
                    self._free += [(each, actor) for _, each, actor in busy.values()]
                    raise CuratorError(LOST) from None
        return [found[i] for i in range(len(tasks))]

    def close(self) -> None:
        """Let the workers go."""
        for _, actor in self._free:
            self._ray.kill(actor)
        self._free = []
        if self._started:
            self._ray.shutdown()

    def _new(self, number: int) -> tuple[int, Any]:
        return number, self._kind.options(num_cpus=1).remote(self._holding, number)
