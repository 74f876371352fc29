"""Puts this folder on the path, so that tests in every subfolder can import the shared checks of contract/.

Most of a test run is compiling. Here programs are compiled quickly, to slower code, but for those that touch records
and in tests that ask for `as_users`. With --as-users all are compiled as users have them.
"""

import contextlib
import inspect
import os
import re
from pathlib import Path

import jax
import pytest

from dpdistill.programs import compiled

# What many tests compile is compiled once. Each worker has a folder of its own: nobody reads what another one writes,
# and no program that was compiled for another set of instructions is loaded.
XLA_FLAGS = re.sub(r"\W+", "-", os.environ.get("XLA_FLAGS", "")).strip("-") or "default"
COMPILED = Path(__file__).parents[1] / "build" / "compiled" / XLA_FLAGS / os.environ.get("PYTEST_XDIST_WORKER", "alone")
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

MOST_MAPS = 25_000
"""Of memory that a process may have mapped, of the 65,530 that Linux allows: a compiled program takes six to ten."""
OPTIONS = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""About a quarter of the time, to slower code. Another arithmetic: sums may be added up in another order."""
TOUCH_RECORDS = {f"jit_{name}" for name, program in vars(compiled).items() if hasattr(program, "lower")}
"""Programs whose bits decide a guarantee: always compiled as users have them."""
NOW = {"quickly": True}


def takes(name, value):
    """Whether the XLA that is installed has such an option: names come and go between versions."""
    try:
        jax.jit(lambda x: x + 1, compiler_options={name: value})(1)
    except jax.errors.JaxRuntimeError:
        return False
    return True


QUICKLY = {name: value for name, value in OPTIONS.items() if takes(name, value)}


def pytest_addoption(parser):
    parser.addoption("--as-users", action="store_true", help="compile every program as users have it")


def pytest_configure(config):
    NOW["quickly"] = not config.getoption("--as-users")


def compile_quickly():
    """JAX takes options from those who call jit alone, so they are added where it compiles; else it stays as it is."""
    try:
        from jax._src import compiler

        compile_one = compiler.compile_or_get_cached
        at = list(inspect.signature(compile_one).parameters).index("compile_options")
    except (ImportError, AttributeError, ValueError):
        return

    def compile_so(backend, computation, *args, **options):
        name = str(computation.operation.attributes["sym_name"]).strip('"')
        if NOW["quickly"] and name not in TOUCH_RECORDS and len(args) > at - 2:
            args[at - 2].env_option_overrides = [*(QUICKLY | dict(args[at - 2].env_option_overrides)).items()]
        return compile_one(backend, computation, *args, **options)

    compiler.compile_or_get_cached = compile_so


compile_quickly()


@pytest.fixture
def as_users(monkeypatch):
    """All programs that a test is the first to run are compiled as users have them."""
    monkeypatch.setitem(NOW, "quickly", False)


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """A worker that has compiled thousands of programs lets go of them: beyond what is allowed compiling crashes."""
    yield
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        if sum(1 for _ in maps) > MOST_MAPS:
            jax.clear_caches()
