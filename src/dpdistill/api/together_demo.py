"""Distils scikit-learn's digits, cut among three owners, by processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.demo import Demo
from dpdistill.api.listener import SILENT, Listener
from dpdistill.schema import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

OWNERS = ("north", "south", "west")
SECONDS = 300.0
"""Longest time to wait for processes of this machine."""


def demo_together(out: str | os.PathLike = "demo", epsilon: float = 1.0, *, listener: Listener = SILENT) -> Demo:
    """Distils digits of three owners to one image per class: each owner is a process with its own folder and ledger.

    Args:
        out: folder for the result; the owners' folders are in DIR.run next to it. Neither may exist.
        epsilon: epsilon of the budget, > 0; delta is 1e-5.
        listener: receives progress.

    Returns:
        The result and two accuracies, as `demo`.

    Raises:
        DataError: a folder that exists already, or an owner's process that failed.
    """
    from dpdistill.accounting.schedule import Budget
    from dpdistill.api.demo import accuracy_of
    from dpdistill.api.together import together_plan, together_serve
    from dpdistill.evaluation.score import scaled
    from dpdistill.folder.layout import owner_folder
    from dpdistill.folder.save import check_output
    from dpdistill.methods.baselines.ldpdc import LDPDC
    from dpdistill.sources.load import load

    path = check_output(out)
    folder = owner_folder(path)
    if folder.exists():
        raise DataError(f"Expected no folder at {folder}: `dpdistill demo together` makes it.")
    records, test = load("digits:train"), load("digits:test")
    places = {name: folder / name for name in OWNERS}
    keys = {name: _owner(place, records, k, epsilon) for k, (name, place) in enumerate(places.items())}
    address = f"localhost:{_free_port()}"
    method, owners = LDPDC(per_class=1, sampling_prob=1.0), {name: (key, len(records)) for name, key in keys.items()}
    _, file = together_plan(path, owners, records.schema, method, Budget(epsilon), address=address, pace=0.0)
    with _owners(places, file):
        result = together_serve(path, wait=SECONDS, patience=SECONDS, listener=listener)
    made = result.distilled
    return Demo(path, result, accuracy_of(made.X, made.y, test), accuracy_of(*scaled(records), test), len(records))


def _owner(place: Path, records: Any, k: int, epsilon: float) -> Path:
    """Makes an owner's folder: records, key and ledger; returns the public key."""
    import numpy as np

    from dpdistill.ledger.dataset import DatasetLedger
    from dpdistill.signatures.keys import new_key

    place.mkdir(mode=0o700, parents=True)
    place.parent.chmod(0o700)
    np.savez(
        place / "records.npz", X=np.asarray(records.X[k :: len(OWNERS)]), y=np.asarray(records.y[k :: len(OWNERS)])
    )
    DatasetLedger.begin(place / "data.ledger", epsilon)
    return new_key(place / "owner.key", None)


@contextmanager
def _owners(places: dict[str, Path], plan: Path) -> Iterator[None]:
    """Runs the owners' processes; each writes what it prints to a file in its folder.

    Raises:
        DataError: a process that failed.
    """
    started = {}
    try:
        for name, place in places.items():
            options = {"--plan": plan, "--key": place / "owner.key", "--ledger": place / "data.ledger"}
            words = [str(word) for pair in {**options, "--run": place / "run"}.items() for word in pair]
            command = [
                sys.executable,
                "-m",
                "dpdistill",
                "together",
                "join",
                str(place / "records.npz"),
                *words,
                "--yes",
            ]
            with (place / "log.txt").open("wb") as log:
                started[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        yield
        for name, process in started.items():
            if process.wait(SECONDS):
                raise DataError(f"The owner {name} failed: {places[name] / 'log.txt'} says why.")
    finally:
        for process in started.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def _free_port() -> int:
    with closing(socket.create_server(("localhost", 0))) as taken:
        return taken.getsockname()[1]
