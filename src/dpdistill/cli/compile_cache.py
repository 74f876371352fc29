"""Keeps compiled programs for later commands, in the user's cache folder."""

from __future__ import annotations

import os
import sys

from dpdistill.storage.user_cache import processor, user_cache

FOLDER, LEAST_SECONDS, MOST_BYTES = "JAX_COMPILATION_CACHE_DIR", "0.2", 1 << 30
"""JAX's variable for the folder. Programs that compile faster are not kept; beyond the size the oldest ones go."""


def keep_compiled_programs() -> None:
    """Makes JAX keep what it compiles; call it before JAX is imported.

    The folder holds programs and the shapes of their arguments, never values of records: those are arguments. It is
    JAX's own cache, with JAX's lock and limit of size. A folder that the environment states is kept, and
    JAX_ENABLE_COMPILATION_CACHE=false turns the cache off. Nothing is kept where the folder cannot be written to, and
    nothing by `audit method`: it compares the logs of runs, and JAX logs what it finds in the folder.
    """
    if FOLDER in os.environ or {"audit", "method"} <= {*sys.argv}:
        return
    folder = user_cache() / "programs" / processor()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        return
    os.environ[FOLDER] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MOST_BYTES))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", LEAST_SECONDS)
