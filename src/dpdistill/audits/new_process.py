"""Replays a run in a new process that has never seen the records, without their caches and memory."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpdistill.audits.neighbours import random_records
from dpdistill.audits.observe import Observation, observe
from dpdistill.audits.replay import Procedure, Recording, Tape
from dpdistill.schema import AnySchema

OPENED = ", which was opened"
"""Suffix of the name of a private file that a replay opened."""
_START = "from dpdistill.audits.new_process import main; main()"
_JOB, _PATHS, _ANSWER = "job", "paths", "answer"


@dataclass(frozen=True)
class Job:
    """Replay for another process: the releases, and random records instead of the private ones.

    Args:
        procedure: the procedure to run.
        recordings: the recorded releases.
        schema, n, dtype, seed, majority: facts of the random records.
        private: files and folders of the private records; opening one of them is noted.
    """

    procedure: Procedure
    recordings: tuple[Recording, ...]
    schema: AnySchema
    n: int
    dtype: str
    seed: tuple[int, int]
    majority: int
    private: tuple[str, ...] = ()


def packed(job: Job) -> bytes | None:
    """Returns the pickled job; None if the new process cannot import the procedure.

    Nested functions, and functions of a script or notebook, cannot be imported.
    """
    procedure = job.procedure
    parts = (procedure.distill, procedure.method, type(procedure.method))
    if any(getattr(part, "__module__", "") == "__main__" for part in parts):
        return None
    try:
        return pickle.dumps(job)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def replay_fresh(job: bytes) -> Observation:
    """Returns the observation of a replay in a new process.

    Raises:
        RuntimeError: the process failed; with its last line.
    """
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        (at / _JOB).write_bytes(job)
        (at / _PATHS).write_text(json.dumps(sys.path))
        with open(at / "words", "w+") as words:
            command = [sys.executable, "-c", _START, folder]
            # What JAX finds in its cache, and logs of it, would differ from the recorded run.
            alone = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=alone, check=False)
            words.seek(0)
            last = words.read().strip().splitlines()[-1:]
        if done.returncode:
            raise RuntimeError(f"The replay in a fresh process failed: {' '.join(last)}")
        return json.loads((at / _ANSWER).read_text())


def main() -> None:
    """Replays the job in the folder named on the command line, and writes the observation there."""
    at = Path(sys.argv[1])
    sys.path[:] = json.loads((at / _PATHS).read_text())
    job: Job = pickle.loads((at / _JOB).read_bytes())
    opened = _watch_files(job.private)
    records = random_records(job.schema, job.n, job.dtype, job.seed, job.majority)
    _, seen = observe(job.procedure, records, Tape(list(job.recordings)))
    (at / _ANSWER).write_text(json.dumps(seen | {name + OPENED: "" for name in opened}))


def _watch_files(private: Sequence[str]) -> list[str]:
    """Returns a list that collects the names of private files opened from here on."""
    places, opened = [Path(name).resolve() for name in private], []

    def noted(event: str, args: Any) -> None:
        if event == "open" and isinstance(args[0], str | bytes):
            path = Path(os.fsdecode(args[0])).resolve()
            for place in places:
                if place in (path, *path.parents) and str(place) not in opened:
                    opened.append(str(place))

    sys.addaudithook(noted)
    return opened
