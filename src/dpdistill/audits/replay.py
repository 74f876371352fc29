"""Records the releases of a run, and replays them in runs on other records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.audits.digest import digest
from dpdistill.method import Method, Progress
from dpdistill.private.curator import Curator
from dpdistill.query import Params, Query, Release
from dpdistill.recipe.fields import Recipe
from dpdistill.recipe.parts import implement
from dpdistill.run.checkpoint import Store
from dpdistill.run.driver import Parts
from dpdistill.storage.records import Records


@dataclass(frozen=True)
class Procedure:
    """Procedure under audit: a method, or a function from records to a method, and the function that runs it.

    Args:
        method: a private method; or a function from `Records` to one, called again for every data set.
        distill: called like `run.distill`; may do more, and must pass its keyword arguments on.
        budget: budget of a run.
        seed: seed of everything public.
    """

    method: Method | Callable[[Records], Method]
    distill: Callable[..., run.Result]
    budget: Budget
    seed: int

    def __call__(self, records: Records, parts: Parts, progress: Progress, **paid: Any) -> run.Result:
        """Returns the result of a run on the records."""
        method = implement(self.method, Method) if isinstance(self.method, Recipe) else self.method(records)
        return self.distill(records, method, self.budget, seed=self.seed, progress=progress, parts=parts, **paid)


@dataclass
class Recording:
    """Releases of one run, with its name.

    Args:
        run_id: the run's random name, which its results state.
        noise_kind: source of its noise.
        releases: releases of all rounds.
        asked: query and params of each round; empty in another process, which does not need them.
    """

    run_id: str
    noise_kind: str
    releases: list[Release]
    asked: list[tuple[Query, Params]]

    @property
    def rounds(self) -> list[tuple[Query, Params, Release]]:
        return [(*asked, release) for asked, release in zip(self.asked, self.releases, strict=True)]

    def without_questions(self) -> Recording:
        """Returns the recording for another process."""
        return replace(self, asked=[])


class Tape:
    """Recordings of all runs of a procedure, in order, with digests of queries and states.

    Args:
        recordings: recordings to replay; None to record.
    """

    def __init__(self, recordings: list[Recording] | None = None) -> None:
        self.recordings: list[Recording] = []
        self.seen: dict[str, str] = {}
        """Digests of the queries, and of the state after each round."""
        self._frozen = recordings
        self._runs = 0

    @property
    def records(self) -> bool:
        """Returns whether releases are recorded, not replayed."""
        return self._frozen is None

    @property
    def parts(self) -> Parts:
        """Returns the classes that record or replay."""
        return Parts(self._curator, self._store)

    def _curator(self, *args: Any) -> Curator:
        self._runs += 1
        if self._frozen is None:
            return _Recorder(self, *args)
        if self._runs > len(self._frozen):
            raise ValueError("Expected as many runs as recorded; the procedure started one more run.")
        return _Replayer(self, self._frozen[self._runs - 1], *args)

    def _store(self, *args: Any) -> Store:
        return _WatchedStore(self, *args)

    def note(self, name: str, value: object) -> None:
        """Keeps a digest under a name with the run's number."""
        run_number = f" of run {self._runs}" if self._runs > 1 else ""
        self.seen[name + run_number] = digest(value)


class _Recorder(Curator):
    """Curator that records its releases."""

    def __init__(self, tape: Tape, *args: Any) -> None:
        super().__init__(*args)
        self._tape, self._recording = tape, Recording(self._ledger.run_id, self.noise_kind, [], [])
        tape.recordings.append(self._recording)

    def release(self, t: int, query: Query, params: Params) -> Release:
        self._tape.note(f"the query of round {t}", (query, params))
        made = super().release(t, query, params)
        self._recording.releases.append(replace(made, value=made.value.copy()))
        self._recording.asked.append((query, jax.tree.map(np.array, params)))
        return made


class _Replayer(Curator):
    """Curator of other records that replays recorded releases, under the recorded run's name."""

    def __init__(self, tape: Tape, recording: Recording, *args: Any) -> None:
        super().__init__(*args)
        self._tape, self._recording, self._ledger.run_id = tape, recording, recording.run_id

    @property
    def noise_kind(self) -> str:
        return self._recording.noise_kind

    def release(self, t: int, query: Query, params: Params) -> Release:
        self._tape.note(f"the query of round {t}", (query, params))
        return super().release(t, query, params)

    def _draw(self, t: int, query: Query, params: Params, shape: tuple[int, ...]) -> tuple[np.ndarray, float]:
        recorded = self._recording.releases[t]
        return recorded.value, recorded.stddev


class _WatchedStore(Store):
    """Store that notes every state."""

    def __init__(self, tape: Tape, *args: Any) -> None:
        super().__init__(*args)
        self._tape = tape

    def save(self, t: int, state: object, last: bool = False) -> None:
        self._tape.note(f"the state after round {t - 1}", state)
        super().save(t, state, last)
