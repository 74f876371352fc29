"""Puts this folder on the path, so that tests in every subfolder can import the shared checks of contract/."""

import contextlib
import os
from pathlib import Path

import jax
import pytest

# What many tests compile is compiled once. Each worker has a folder of its own: nobody reads what another one writes.
COMPILED = Path(__file__).parents[1] / "build" / "compiled" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

MOST_MAPS = 40_000
"""Of memory that a process may have mapped, of the 65,530 that Linux allows: a compiled program takes ten."""


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """A worker that has compiled thousands of programs lets go of them: beyond what is allowed compiling crashes."""
    yield
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        if sum(1 for _ in maps) > MOST_MAPS:
            jax.clear_caches()
