"""Who carries out tasks: processes of this machine, or actors of a Ray cluster. Both lose members, and go on."""

from __future__ import annotations

import logging
import multiprocessing
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any

from dpdistill.errors import Unanswered
from dpdistill.schema import DataError
from dpdistill.workers.worker import FAILED, Holding, Task, Worker

MOST_LOSSES = 100
"""So many workers may be lost in one round."""
FIRST_LOSSES = 5
"""So many before any task of a round is answered: memory that is too small for them loses every one."""
LOST = (
    "Workers are lost again and again: take fewer (--workers), or machines with more memory; in a script, begin what "
    'it does with if __name__ == "__main__", since workers import it.'
)


class Lost(Exception):
    """A worker is gone, and with it the answer to its task."""


class Crew(ABC):
    """Answers tasks in any order; a task whose worker is lost is given to another one.

    Args:
        holding: what the workers open.
        count: how many they are.
    """

    def __init__(self, holding: Holding, count: int) -> None:
        self._holding, self._count = holding, count
        self.members: dict[int, Any] = {}

    def answers(self, tasks: Sequence[Task]) -> list[Any]:
        """Returns what `Worker.answer` says of each task.

        Raises:
            Unanswered: workers are lost again and again.
        """
        try:
            return self._answers(tasks)
        except BaseException:
            self.dismiss()  # no answer to a task of this round is ever taken for one of the next
            raise

    def _answers(self, tasks: Sequence[Task]) -> list[Any]:
        found: dict[int, Any] = {}
        waiting, free, busy, lost = list(range(len(tasks)))[::-1], list(range(self._count)), dict[Any, Any](), 0
        while len(found) < len(tasks):
            while waiting and free:
                i, number = waiting.pop(), free.pop()
                if number not in self.members:
                    self.members[number] = self.start(number)
                busy[self.ask(self.members[number], tasks[i])] = i, number
            ticket = self.first(list(busy))
            i, number = busy.pop(ticket)
            free.append(number)
            try:
                found[i] = self.answer(ticket)
            except Lost:
                waiting.append(i)
                self.end(self.members.pop(number))
                lost += 1
                if lost >= (MOST_LOSSES if found else FIRST_LOSSES):
                    raise Unanswered(LOST) from None
        return [found[i] for i in range(len(tasks))]

    def dismiss(self) -> None:
        """End all workers; the next round starts others."""
        while self.members:
            self.end(self.members.popitem()[1])

    def close(self) -> None:
        """Let the workers go."""
        self.dismiss()

    @abstractmethod
    def start(self, number: int) -> Any:
        """A new worker."""

    @abstractmethod
    def end(self, member: object) -> None:
        """Kill a worker, if it is there: one that was lost may never end by itself."""

    @abstractmethod
    def ask(self, member: object, task: Task) -> Any:
        """Give a worker a task; what stands for its answer."""

    @abstractmethod
    def first(self, tickets: list[Any]) -> Any:
        """Wait for the first of these that is answered, or whose worker is lost."""

    @abstractmethod
    def answer(self, ticket: object) -> Any:
        """Returns what the worker answered.

        Raises:
            Lost: it is gone.
        """


class Processes(Crew):
    """Processes of this machine, each with a connection of its own.

    What a worker sends when it is killed ends in the middle; nobody shares its connection, so that this is noticed.
    (`ProcessPoolExecutor` has one for all: it waits for the rest for ever.)
    """

    def start(self, number: int) -> Any:
        """A process, and this process's end of the connection."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(self._holding, number, theirs), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def end(self, member: Any) -> None:
        """Kill a process."""
        process, connection = member
        connection.close()
        process.kill()
        process.join(10)

    def ask(self, member: Any, task: Task) -> Any:
        """The connection that the answer comes by."""
        process, connection = member
        try:
            connection.send(task)
        except OSError:
            process.kill()  # its answer will tell that it is lost
        return connection

    def first(self, tickets: list[Any]) -> Any:
        """The first connection with an answer, or without a process."""
        return wait(tickets)[0]

    def answer(self, ticket: Any) -> Any:
        """Returns what came by the connection."""
        try:
            return ticket.recv()
        except (EOFError, OSError):
            raise Lost from None


def _serve(holding: Holding, number: int, connection: Connection) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    worker = Worker(holding, number)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        except Exception:  # what it was given could not even be read
            connection.send(("", FAILED))
            continue
        connection.send(worker.answer(task))


def _end_with_parent() -> None:
    """A worker whose run was killed ends, and does not go on writing where the next one reads."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Actors(Crew):
    """Actors of a Ray cluster, a core each.

    Args:
        holding: what they open; its address is one that all machines of the cluster see.
        count: how many.
        address: of the cluster; "local" starts one on this machine.

    Raises:
        DataError: Ray is not installed, or no cluster answers.
    """

    def __init__(self, holding: Holding, count: int, address: str) -> None:
        super().__init__(holding, count)
        try:
            import ray
        except ImportError:
            raise DataError("A cluster needs Ray: pip install 'dpdistill[ray]'.") from None
        self._ray, self._started = ray, not ray.is_initialized()
        if self._started:
            try:
                cores = count if address == "local" else None
                ray.init(
                    address, num_cpus=cores, log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR
                )
            except (ConnectionError, ValueError, RuntimeError):
                raise DataError(f"No Ray cluster answers at {address}.") from None
        if (cores := int(ray.cluster_resources().get("CPU", 0))) < count:
            self.close()
            raise DataError(
                f"The Ray cluster has {cores} cores for {count} workers, which would wait for ever: take fewer "
                "(--workers), or add machines first."
            )
        self._kind = ray.remote(Worker)

    def close(self) -> None:
        """Let the workers go, and the cluster if it was started here."""
        super().close()
        if self._started:
            self._ray.shutdown()

    def start(self, number: int) -> Any:
        """An actor."""
        return self._kind.options(num_cpus=1).remote(self._holding, number)

    def end(self, member: object) -> None:
        """Kill an actor."""
        self._ray.kill(member)

    def ask(self, member: Any, task: Task) -> Any:
        """A reference to the answer."""
        return member.answer.remote(task)

    def first(self, tickets: list[Any]) -> Any:
        """The first reference with an answer, or without an actor."""
        return self._ray.wait(tickets, num_returns=1)[0][0]

    def answer(self, ticket: object) -> Any:
        """Returns what the reference stands for."""
        try:
            return self._ray.get(ticket)
        except self._ray.exceptions.RayTaskError:  # what it was given could not even be read
            return "", FAILED
        except self._ray.exceptions.RayError:
            raise Lost from None
