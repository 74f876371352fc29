"""Holders of records in other processes: each question goes to all shards, and their integers are added here."""

from __future__ import annotations

import multiprocessing
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.errors import CuratorError
from dpdistill.private.aggregator import Question
from dpdistill.private.noise import Entropy
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Records, Unshown
from dpdistill.storage.shards import remove_parts, write_parts
from dpdistill.workers.processes import Actors, Processes, WorkerGroup
from dpdistill.workers.worker import FAILED, FULL, Holding, Task

FOLDER = "workers"
"""Folder in DIR.run for the records and features that workers read during a run."""
KEY = 32


@dataclass(frozen=True)
class Workers:
    """Distribution of a run's sums over workers. It changes the speed, never the guarantee or any bit of a sum.

    Args:
        count: number of worker processes, with one core each; 0 leaves the work to this process.
        ray: address of a Ray cluster, "auto", or "local"; None uses processes of this machine.
        share: location of the records for the workers: a folder, or a location that fsspec supports, such as
            "s3://bucket/folder", visible to every machine; None uses DIR.run.
        parts: number of parts into which the records are cut there; a worker fetches the parts it works on.
        shards: number of shards per part; None uses four per worker.
    """

    count: int = 0
    ray: str | None = None
    share: str | None = None
    parts: int = 1
    shards: int | None = None

    def __post_init__(self) -> None:
        if self.count < 0 or self.parts < 1 or (self.shards is not None and self.shards < 1):
            raise ValueError(f"Expected workers={self.count} >= 0, parts={self.parts} >= 1, and shards >= 1.")
        if self.count and getattr(multiprocessing.current_process(), "_inheriting", False):
            # A worker that imports the run's script would otherwise start, and pay for, another run.
            raise RuntimeError('Put the script\'s code under if __name__ == "__main__": workers import the script.')
        if self.ray is not None and self.count < 1:
            raise ValueError("Expected the number of workers with the address of a Ray cluster.")
        if self.ray not in (None, "local") and self.share is None:
            raise ValueError("Expected share: a location that is visible to all machines of the Ray cluster.")

    @contextmanager
    def holders(self, run_dir: Path | None) -> Iterator[Callable[..., Any] | None]:
        """Yields a function that makes the holders of a run; None for this process. Their files are removed in the end.

        Args:
            run_dir: the owner's folder; None uses a temporary one.
        """
        if run_dir is not None:
            shutil.rmtree(run_dir / FOLDER, ignore_errors=True)  # remains of a killed run
        if self.count == 0:
            yield None
            return
        with tempfile.TemporaryDirectory() as temporary:
            own = (Path(temporary) if run_dir is None else run_dir.absolute()) / FOLDER
            own.mkdir(mode=0o700)
            pools: list[RemoteAggregator] = []

            def start(records: Records, entropy: Entropy, most: int | None, space: Memory | None) -> RemoteAggregator:
                pools.append(RemoteAggregator(records, entropy, most, space or Memory(), self, own))
                return pools[-1]

            try:
                yield start
            finally:
                for pool in pools:
                    pool.close()
                shutil.rmtree(own, ignore_errors=True)


class RemoteAggregator(Unshown):
    """Holders in worker processes.

    Args:
        records: the private records, which are written to the location that the workers read.
        entropy: source of the workers' keys.
        rows_per_unit: as in `LocalAggregator`.
        space: memory limit of features.
        workers: distribution of the work.
        folder: the owner's folder, for the records and the features.

    Guarantee:
        Only integer sums leave a worker: the noise is added, and paid for, in this process. A task is a function of the
        records, of the key of places and of the key of the round's coins, so that it may be repeated.
    """

    def __init__(
        self,
        records: Records,
        entropy: Entropy,
        rows_per_unit: int | None,
        space: Memory,
        workers: Workers,
        folder: Path,
    ) -> None:
        self._workers, self._kinds = workers, set[str]()
        # A unique name: files of other runs or other programs are never overwritten.
        name = f"dpdistill-{secrets.token_hex(8)}"
        self._address = _within(workers.share, name) if workers.share else str(folder / name)
        apart = workers.ray is not None and workers.ray != "local"  # other machines, each with its own disk
        features = Memory(space.size) if apart else Memory(space.size, folder / f"{name}-features", shared=True)
        if features.folder is not None:
            features.folder.mkdir(mode=0o700)
        holding = Holding(self._address, entropy.bytes(KEY), entropy.kind, rows_per_unit, features)
        self._crew: WorkerGroup = (
            Processes(holding, workers.count) if workers.ray is None else Actors(holding, workers.count, workers.ray)
        )
        try:
            write_parts(records, self._address, workers.parts)
        except BaseException:
            self.close()
            raise
        units = records.units
        self._size = len(records) if units is None else len(np.unique(units[units >= 0]))

    def __len__(self) -> int:
        return self._size

    def answer(self, question: Question, entropy: Entropy) -> np.ndarray:
        """Returns the integer sum of a round over all shards; coins come from one key, drawn for the round."""
        key = entropy.bytes(KEY)
        if question.features is not None and question.sampling_prob < 1.0:  # it may need features of all shards
            self._all(question, None)
        return np.asarray(sum(self._all(question, key)), np.int64)

    def _all(self, question: Question, coins: bytes | None) -> list[Any]:
        n = self._workers.shards or 4 * self._workers.count
        shards = [(part, (i, n)) for i in range(n) for part in range(self._workers.parts)]
        answers = self._crew.answers([Task(part, shard, question, coins) for part, shard in shards])
        self._kinds |= {kind for kind, _ in answers if kind}
        errors = [answer for _, answer in answers if isinstance(answer, str)]
        if errors:
            raise {FAILED: RuntimeError, FULL: MemoryError}.get(errors[0], CuratorError(errors[0]))
        if len(self._kinds) > 1:
            raise CuratorError(f"Expected workers on machines of one kind; got {' and '.join(sorted(self._kinds))}.")
        return [answer for _, answer in answers]

    def close(self) -> None:
        """Ends the workers, and removes the records that they read."""
        try:
            self._crew.close()
        finally:
            remove_parts(self._address)


def _within(share: str, name: str) -> str:
    """Returns a location below the shared one; file:// is an ordinary folder, so that our modes apply."""
    if "://" in share and not share.startswith("file://"):
        return f"{share.rstrip('/')}/{name}"
    return str(Path(share.removeprefix("file://")).absolute() / name)
