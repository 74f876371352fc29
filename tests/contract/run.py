"""A whole run: its noise is nobody's seed, and nothing but its releases speaks of the records."""

from __future__ import annotations

import contextlib
import hashlib
import io
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np

from contract.data import SCHEMA, make_records, subset
from contract.methods.small import tiny
from contract.private.curators import full_batches, make_curator, memory_ledger
from contract.private.queries import ZeroQuery
from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.method import Progress
from dpdistill.private import curator
from dpdistill.run import driver
from dpdistill.run.serialize import releases_id


class Stop(Exception):
    """A run that is killed."""


def stop_after(rounds: int) -> Progress:
    """A progress that kills the run when so many rounds are released."""

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "releasing" and done == rounds:
            raise Stop

    return progress


def check_noise_is_nobodys_seed() -> None:
    """By default the noise comes from the operating system: the same run twice has nothing in common but its law."""
    method, noises = tiny("dos", strategies=("crop",)), []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 - whatever the process has seeded
        ledger = memory_ledger(full_batches(4))
        asked, state = (
            make_curator(make_records(5), full_batches(4), ledger=ledger),
            method.init(jax.random.key(0), SCHEMA),
        )
        assert asked.noise_kind == "operating-system entropy", "The noise is stamped as another kind."
        for t in range(2):
            query, params = method.ask(state)
            release = asked.release(t, query, params)
            state = method.tell(state, release)
        noises.append(asked.release(2, ZeroQuery(dimension=3000), 0.0).value.ravel())
    assert abs(np.corrcoef(noises)[0, 1]) < 0.07, "The noises of two runs are correlated."


@contextlib.contextmanager
def canned_releases(seed: int = 9):
    """Releases, and a run's random name, that do not depend on the records: whatever else comes out must not either."""

    def draw(self: Any, t: int, query: Any, params: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, float]:
        blocks = (len(self._schema.classes),) if query.by_class else ()
        return 20.0 * np.random.default_rng((seed, t)).normal(size=(*blocks, *shape)), 1.0

    with (
        mock.patch.object(curator.Curator, "_draw", draw),
        mock.patch.object(driver, "releases_id", lambda run_id, state: releases_id("one name", state)),
    ):
        yield


def digest_folder(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def check_only_releases_speak(folder: Path, name: str = "dos") -> None:
    """With the same releases, other records give the same result, the same files and the same words on the terminal."""
    found = []
    for k, records in enumerate((make_records(30, 1), subset(make_records(11, 2, low=0.7), [3, 1, 2]))):
        heard = io.StringIO()
        told: list[tuple] = []
        target = folder / str(k) / "shared"
        with canned_releases(), contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            result = run.distill(records, tiny(name), Budget(1.0), progress=lambda *said: told.append(said))  # noqa: B023
            result.save(target)
        files = digest_folder(target)
        found.append((result.X.tobytes(), result.y.tobytes(), files, heard.getvalue(), told))
        assert {"synthetic.npz", "certificate.json", "recipe.json", "report.html"} <= set(files)
        if hasattr(tiny(name), "per_class"):
            assert result.y.tolist() == sorted([0, 1, 2] * 2), "The labels are not the planned ones."
    for what, one, other in zip(("images", "labels", "files", "terminal", "progress"), *found, strict=True):
        assert one == other, f"Something beside the releases speaks of the records: the {what}."
