"""Checkpoints of a method's state in the owner's folder: written atomically and synced before they are used."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.ledger.database import sync_folder
from dpdistill.ledger.run import RunLedger
from dpdistill.run.serialize import pack, unpack

EVERY = 15.0


class Store:
    """The latest state of a run; without a folder nothing is stored.

    Args:
        folder: the owner's folder of the run, or None.
        run_id: id in the run's ledger; it names the checkpoint file, so that other runs' checkpoints stay unchanged.
        ledger: drops the values of rounds that a synced checkpoint includes; None for a run without a ledger.
    """

    def __init__(self, folder: Path | None, run_id: str = "", ledger: RunLedger | None = None) -> None:
        self._path = None if folder is None else folder / f"state-{run_id}.npz"
        self._ledger, self._saved_at = ledger, time.monotonic()

    def load(self, like: Any) -> tuple[int, Any]:
        """Returns (round to resume at, state): the checkpoint, or (0, like) without one.

        Raises:
            ValueError: the checkpoint is damaged.
        """
        if self._path is None or not self._path.exists():
            return 0, like
        try:
            t, state = unpack(self._path.read_bytes(), (np.zeros((), np.int64), like))
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise ValueError(f"The checkpoint {self._path} is damaged: restore it from a backup.") from None
        return int(t), state

    def save(self, t: int, state: object, last: bool = False) -> None:
        """Stores the state before round t, at most every 15 seconds and after the last round."""
        if self._path is not None:
            if not last and time.monotonic() - self._saved_at < EVERY:
                return
            write_synced(self._path, pack((np.asarray(t, np.int64), state)))
            self._saved_at = time.monotonic()
        if self._ledger is not None:  # also in memory, where nothing can be resumed and releases may be large
            self._ledger.drop_values(t)


def write_synced(path: Path, content: bytes) -> None:
    """Replaces a file's content: after a crash the file has either the old or the new content."""
    aside = path.with_suffix(".tmp")
    with open(aside, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    sync_folder(path.parent)
