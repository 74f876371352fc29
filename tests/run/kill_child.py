"""The command line with a trap: it kills itself with SIGKILL at a chosen point. Run in a process by killing.py."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import sys
from pathlib import Path

import jax

from dpdistill import cli
from dpdistill.methods import DOS, NDPDC
from dpdistill.private import aggregator, curator
from dpdistill.programs import clipping
from dpdistill.run import checkpoint as store

SPEC = {}
"""Where to die, such as {"phase": "commit-before", "round": 2, "log": "FILE"}."""
KINDS = {
    "INSERT INTO rounds": "commit",
    "UPDATE rounds": "drop",
    "INSERT INTO runs": "reserve",
    "UPDATE runs": "rotate",
}
NOW = {"round": -1, "chunks": 0}


def log(*words: object) -> None:
    handle = os.open(SPEC["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, (" ".join(map(str, words)) + "\n").encode())
    os.close(handle)


def die(phase: str, anywhere: bool = False) -> None:
    if phase == SPEC["phase"] and (anywhere or NOW["round"] == SPEC["round"]):
        os.kill(os.getpid(), signal.SIGKILL)


class Trapped(sqlite3.Connection):
    """Dies around the COMMIT that ends a transaction of interest."""

    kind: str | None = None

    def execute(self, sql, *args):
        if sql.startswith("CREATE TABLE run ("):
            die("created", anywhere=True)
        if sql.startswith("BEGIN"):
            self.kind = None
        self.kind = next((kind for start, kind in KINDS.items() if sql.startswith(start)), self.kind)
        if sql == "COMMIT" and self.kind:
            die(f"{self.kind}-before", anywhere=self.kind == "reserve")
        cursor = super().execute(sql, *args)
        if sql == "COMMIT" and self.kind:
            die(f"{self.kind}-after", anywhere=self.kind == "reserve")
        return cursor


def trap_database() -> None:
    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **options: connect(*args, factory=Trapped, **options)


def trap_curator() -> None:
    release, draw = curator.Curator.release, curator.Curator._draw
    coins, rows, noise = aggregator.poisson_coins, clipping.grid_rows, curator.rounded_gaussian

    def told_release(self, t, *args):
        NOW.update(round=t, chunks=0)
        answer = release(self, t, *args)
        log("out", t, hashlib.sha256(answer.value.tobytes()).hexdigest())
        return answer

    def told_draw(self, t, *args):
        log("draw", t)
        return draw(self, t, *args)

    def trapped_coins(*args):
        answer = coins(*args)
        die("sampling")
        return answer

    def trapped_rows(*args):
        NOW["chunks"] += 1
        if NOW["chunks"] == 2:
            die("sum")
        return rows(*args)

    def trapped_noise(*args):
        answer = noise(*args)
        die("noise")
        return answer

    trapped_rows.trace = rows.trace  # what is counted before the run
    curator.Curator.release, curator.Curator._draw = told_release, told_draw
    aggregator.poisson_coins, clipping.grid_rows, curator.rounded_gaussian = trapped_coins, trapped_rows, trapped_noise


def trap_finish() -> None:
    for method in (DOS, NDPDC):
        finish = method.finish

        def trapped(self, state, schema, progress, finish=finish):
            def told(*args):
                die("finish", anywhere=True)
                progress(*args)

            distilled = finish(self, state, schema, told)
            die("finish", anywhere=True)
            return distilled

        method.finish = trapped


def trap_files() -> None:
    """Dies before or after a file takes its name: the checkpoint, a public file, the folder, the owner's mark."""
    replace, rename, link = os.replace, os.rename, os.link

    def trapped_replace(source, target):
        name, checkpoint = Path(target).name, Path(target).name.startswith("state-")
        die("checkpoint-before" if checkpoint else f"{name}-before", anywhere=not checkpoint)
        replace(source, target)
        die("checkpoint-after" if checkpoint else f"{name}-after", anywhere=not checkpoint)

    def trapped_rename(*args, **options):
        die("archive-before", anywhere=True)
        rename(*args, **options)
        die("archive-after", anywhere=True)

    def trapped_link(*args, **options):
        die("key-before", anywhere=True)
        link(*args, **options)
        die("key-after", anywhere=True)

    os.replace, os.rename, os.link = trapped_replace, trapped_rename, trapped_link


def main(spec: dict, argv: list[str], errors: str, cache: str | None) -> None:
    """What a process does; its errors go to a file, and what is compiled to a folder."""
    SPEC.update(spec)
    for stream, path in ((1, os.devnull), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    store.EVERY = 0.0
    trap_database()
    trap_curator()
    trap_finish()
    trap_files()
    sys.argv = ["dpdistill", *argv]
    cli.main()
