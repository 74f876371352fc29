"""Runs of the command line that are killed and resumed, and what must hold of them: used by test_kill and kill_many."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import kill_child
import numpy as np

from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.run.output_folder import owner_folder
from dpdistill.verification import verify

READY = multiprocessing.get_context("forkserver")
"""Processes that have imported everything when they begin: it takes four fifths of a short run."""
READY.set_forkserver_preload(["dpdistill.cli.distill", "dpdistill.methods", "dpdistill.run.driver"])
ROUNDS = 4
METHODS = {
    "dos": ["--method", "dos", "--set", "networks=3", "--set", "steps=20"],
    "ndpdc": ["--method", "ndpdc", "--set", f"rounds={ROUNDS}"],
}
METHODS["dos, workers"] = [*METHODS["dos"], "--workers", "2"]
IN_WORKERS = ("sampling", "sum")
"""Of a run with workers these happen elsewhere: tests/workers kills there."""
BY_ROUND = (
    "sampling", "sum", "noise", "commit-before", "commit-after",
    "checkpoint-before", "checkpoint-after", "drop-before", "drop-after",
)  # fmt: skip
IN_DATASET = ("rotate-before", "rotate-after")
AT_START = ("key-before", "key-after", "created", "reserve-before", "reserve-after")
AT_END = (
    "finish", "synthetic.npz-before", "synthetic.npz-after", "synthetic.png-before", "000.png-before",
    "recipe.json-before", "certificate.json-before", "certificate.json-after", "report.html-before",
    "report.html-after", "handing-over-before", "handing-over-after", "shared-before", "shared-after",
    "finished-before", "finished-after",
)  # fmt: skip


class Killed:
    """One run under a folder of its own: killed as often as asked, then left to end, then judged.

    Args:
        folder: an empty folder.
        method: "dos" (one-shot), also with workers, or "ndpdc" (adaptive).
        overwrite: the command has --overwrite, as that of `make demo`.
        ledger: the command has --ledger.
        cache: folder of compiled code, or None.
    """

    def __init__(self, folder: Path, method: str, overwrite: bool, ledger: bool, cache: Path | None = None) -> None:
        self.shared, self.log, self.said, self.cache = folder / "shared", folder / "log", folder / "said", cache
        self.run_dir, self.ledger = owner_folder(self.shared), folder / "all.ledger" if ledger else None
        rng, data = np.random.default_rng(0), folder / "data.npz"
        np.savez(data, X=rng.integers(0, 256, (300, 8, 8), dtype=np.uint8), y=np.arange(300) % 2)
        # A small epsilon: its accounting takes a second.
        self.argv = ["distill", str(data), "--classes", "2", "--out", str(self.shared), "--per-class", "1"]
        self.argv += ["--epsilon", "0.05", "--set", "sampling_prob=0.5", "--set", "width=4", *METHODS[method]]
        self.argv += ["--overwrite"] * overwrite + (["--ledger", str(self.ledger)] if ledger else [])
        if self.ledger is not None:
            DatasetLedger.begin(self.ledger, 0.2)
        self.kept: dict[int, tuple] = {}
        self.run_id: str | None = None
        self.earlier: list[str] = []
        self._read = 0

    def once_more(self) -> None:
        """After the run has ended: the same command, with --overwrite, is a new run; the old one is archived."""
        assert self.run_id is not None
        assert "--overwrite" in self.argv
        self.earlier, self.run_id, self.kept = [*self.earlier, self.run_id], None, {}
        self.log.unlink()
        self._read = 0

    @property
    def ended(self) -> bool:
        """The owner's mark is there: the command had done its work, so giving it again asks for another run."""
        return (self.run_dir / "finished").exists() and _rows_of(self.run_dir)[0] not in (None, *self.earlier)

    def start(self, phase: str | None = None, round: int = 0, seconds: float | None = None) -> int:
        """The command, killed at a phase, or from outside after some seconds, or not at all; its exit code."""
        spec, cache = {"phase": phase, "round": round, "log": str(self.log)}, self.cache and str(self.cache)
        process = READY.Process(target=kill_child.main, args=(spec, self.argv, str(self.said), cache))
        process.start()
        process.join(seconds)
        process.kill()  # if it has not ended
        process.join()
        self.errors = self.said.read_text() if self.said.exists() else ""
        self._look()
        return process.exitcode

    def _look(self) -> None:
        """What a committed round said before, it says for ever; nothing committed was drawn again since."""
        said = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        drawn = [int(line.split()[1]) for line in said[self._read :] if line.startswith("draw")]
        self._read = len(said)
        run_id, rows = _rows_of(self.run_dir)
        if run_id in self.earlier:
            assert len(rows) == ROUNDS
            assert not drawn
            return
        if self.run_id is None:
            self.run_id = run_id
        elif run_id != self.run_id:
            assert not self.kept, "another ledger was started"
            self.run_id = run_id
        else:
            assert not set(drawn) & set(self.kept), f"rounds {drawn} drawn again: {sorted(self.kept)} were committed"
        for round, row in self.kept.items():
            assert rows[round][:5] == row[:5], f"round {round} changed"
            assert rows[round][5] in (None, row[5]), f"the value of round {round} changed"
        # A value that a checkpoint includes is dropped: keep what it was.
        self.kept = {t: (*row[:5], row[5] or self.kept.get(t, (None,) * 6)[5]) for t, row in rows.items()}
        for round, digest in (line.split()[1:] for line in said if line.startswith("out")):
            value = self.kept[int(round)][5] if int(round) in self.kept else None
            assert value is None or hashlib.sha256(value).hexdigest() == digest, f"round {round} was handed out anew"

    def check(self) -> None:
        """What must hold of a run that has ended."""
        run = RunLedger.read(self.run_dir)
        assert sorted(self.kept) == list(range(ROUNDS))
        assert list(run.events) == [run.schedule.event(t) for t in range(ROUNDS)]
        outs = [line.split()[1:] for line in self.log.read_text().splitlines() if line.startswith("out")]
        digests = {t: {digest for round, digest in outs if int(round) == t} for t in range(ROUNDS)}
        assert all(len(found) <= 1 for found in digests.values()), "two values were handed out for one round"
        archived = [_rows_of(self.run_dir, path.name)[1] for path in self.run_dir.glob("ledger-*.sqlite")]
        assert sum(len(rows) > 0 for rows in archived) == len(self.earlier), "a ledger with rounds was archived"
        assert all(len(rows) in (0, ROUNDS) for rows in archived)
        assert (self.run_dir / "finished").exists()
        assert not (self.run_dir / "workers").exists(), "Records were left for workers."
        assert not self.shared.with_name("shared.partial").exists()
        assert not [path for path in self.shared.rglob("*") if path.name.startswith(".") or path.suffix == ".new"]
        result = verify(self.shared)
        assert result.passed, result.checks
        assert any(check.name == "ledger" and check.passed for check in result.checks)
        if self.ledger is not None:
            runs = [known.run_id for known in DatasetLedger(self.ledger).summary().runs]
            assert runs == [*self.earlier, self.run_id]


def _rows_of(run_dir: Path, name: str = "ledger.sqlite") -> tuple[str | None, dict[int, tuple]]:
    """(run_id, rows by round) of a ledger, read from a copy: looking must not mend what a kill left."""
    if not (run_dir / name).exists():
        return None, {}
    copy = run_dir.with_name("copy")
    shutil.copytree(run_dir, copy)
    try:
        with closing(sqlite3.connect(copy / name)) as db:
            if not db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                return None, {}
            (run_id,) = db.execute("SELECT run_id FROM run").fetchone()
            columns = "round, noise_multiplier, sampling_prob, stddev, dtype, shape, value"
            return run_id, {row[0]: row[1:] for row in db.execute(f"SELECT {columns} FROM rounds")}
    finally:
        shutil.rmtree(copy)


def any_point(rng: random.Random, method: str, ledger: bool) -> tuple[str, int]:
    """A random phase and round."""
    start = [phase for phase in AT_START if ledger or not phase.startswith("reserve")]
    by_round = BY_ROUND + IN_DATASET * ledger
    if "workers" in method:
        by_round = tuple(phase for phase in by_round if phase not in IN_WORKERS)
    phase = rng.choice(rng.choice((by_round, by_round, start, AT_END)))
    first = 1 if (phase, method) == ("sampling", "dos") else 0  # the pilot takes every record
    return phase, rng.randrange(first, ROUNDS)
