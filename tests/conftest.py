"""Puts this folder on the path, so that tests in every subfolder can import the shared checks of contract/."""

import os
from pathlib import Path

import jax

# What many tests compile is compiled once. Each worker has a folder of its own: nobody reads what another one writes.
COMPILED = Path(__file__).parents[1] / "build" / "compiled" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
