"""Workers that carry out tasks: processes of this machine, or actors of a Ray cluster. Both survive lost workers."""

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
"""Largest number of workers that may be lost in one round."""
FIRST_LOSSES = 5
"""Largest number of lost workers before any task of a round is answered: too little memory loses every worker."""
LOST = (
    "Workers are lost repeatedly: use fewer (--workers), or machines with more memory; in a script, put the code "
    'under if __name__ == "__main__", since workers import the script.'
)


class Lost(Exception):
    """A worker is lost, and with it the answer to its task."""


class WorkerGroup(ABC):
    """Answers tasks in any order; a task whose worker is lost is given to another worker.

    Args:
        holding: the records that the workers open.
        count: number of workers.
    """

    def __init__(self, holding: Holding, count: int) -> None:
        self._holding, self._count = holding, count
        self.members: dict[int, Any] = {}

    def answers(self, tasks: Sequence[Task]) -> list[Any]:
        """Returns the answers of `Worker.answer` to all tasks.

        Raises:
            Unanswered: workers are lost repeatedly.
        """
        try:
            return self._answers(tasks)
        except BaseException:
            self.dismiss()  # an answer to a task of this round must never count for a later one
            raise

    def _answers(self, tasks: Sequence[Task]) -> list[Any]:
        answers: dict[int, Any] = {}
        waiting, free, busy, lost = list(range(len(tasks)))[::-1], list(range(self._count)), dict[Any, Any](), 0
        while len(answers) < len(tasks):
            while waiting and free:
                i, number = waiting.pop(), free.pop()
                if number not in self.members:
                    self.members[number] = self.start(number)
                busy[self.ask(self.members[number], tasks[i])] = i, number
            ticket = self.first(list(busy))
            i, number = busy.pop(ticket)
            free.append(number)
            try:
                answers[i] = self.answer(ticket)
            except Lost:
                waiting.append(i)
                self.end(self.members.pop(number))
                lost += 1
                if lost >= (MOST_LOSSES if answers else FIRST_LOSSES):
                    raise Unanswered(LOST) from None
        return [answers[i] for i in range(len(tasks))]

    def dismiss(self) -> None:
        """Ends all workers; the next round starts others."""
        while self.members:
            self.end(self.members.popitem()[1])

    def close(self) -> None:
        """Ends the workers and frees their resources."""
        self.dismiss()

    @abstractmethod
    def start(self, number: int) -> Any:
        """Starts a worker."""

    @abstractmethod
    def end(self, member: object) -> None:
        """Kills a worker, if it exists: a lost one may never end by itself."""

    @abstractmethod
    def ask(self, member: object, task: Task) -> Any:
        """Gives a worker a task and returns a ticket for its answer."""

    @abstractmethod
    def first(self, tickets: list[Any]) -> Any:
        """Waits for the first ticket that is answered, or whose worker is lost."""

    @abstractmethod
    def answer(self, ticket: object) -> Any:
        """Returns the worker's answer.

        Raises:
            Lost: the worker is lost.
        """


class Processes(WorkerGroup):
    """Processes of this machine, each with its own connection.

    The message of a killed worker ends in the middle. With separate connections this is detected.
    (`ProcessPoolExecutor` has one connection for all and would wait for ever.)
    """

    def start(self, number: int) -> Any:
        """Starts a process and returns this process's end of the connection."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(self._holding, number, theirs), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def end(self, member: Any) -> None:
        """Kills a process."""
        process, connection = member
        connection.close()
        process.kill()
        process.join(10)

    def ask(self, member: Any, task: Task) -> Any:
        """Sends the task and returns the connection of the answer."""
        process, connection = member
        try:
            connection.send(task)
        except OSError:
            process.kill()  # its answer will show that it is lost
        return connection

    def first(self, tickets: list[Any]) -> Any:
        """Returns the first connection with an answer, or without a process."""
        return wait(tickets)[0]

    def answer(self, ticket: Any) -> Any:
        """Returns the message of the connection."""
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
        except Exception:  # the task could not even be read
            connection.send(("", FAILED))
            continue
        connection.send(worker.answer(task))


def _end_with_parent() -> None:
    """Ends a worker whose run was killed, so that it does not write where the next run reads."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Actors(WorkerGroup):
    """Actors of a Ray cluster, with a core each.

    Args:
        holding: the records that they open; its address must be visible to all machines of the cluster.
        count: number of actors.
        address: address of the cluster; "local" starts one on this machine.

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
                f"The Ray cluster has {cores} cores for {count} workers, which would wait for ever: use fewer "
                "(--workers), or add machines first."
            )
        self._kind = ray.remote(Worker)

    def close(self) -> None:
        """Ends the workers, and the cluster if it was started here."""
        super().close()
        if self._started:
            self._ray.shutdown()

    def start(self, number: int) -> Any:
        """Starts an actor."""
        return self._kind.options(num_cpus=1).remote(self._holding, number)

    def end(self, member: object) -> None:
        """Kills an actor."""
        self._ray.kill(member)

    def ask(self, member: Any, task: Task) -> Any:
        """Returns a reference to the answer."""
        return member.answer.remote(task)

    def first(self, tickets: list[Any]) -> Any:
        """Returns the first reference with an answer, or without an actor."""
        return self._ray.wait(tickets, num_returns=1)[0][0]

    def answer(self, ticket: object) -> Any:
        """Returns the value of the reference."""
        try:
            return self._ray.get(ticket)
        except self._ray.exceptions.RayTaskError:  # the task could not even be read
            return "", FAILED
        except self._ray.exceptions.RayError:
            raise Lost from None
