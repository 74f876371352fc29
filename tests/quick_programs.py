"""Compiles programs quickly, once for all test workers: most of a test run is compiling.

Programs are compiled to slower code, except those that touch records and those of tests that ask for `as_users`. With
--as-users all are compiled as users have them. Compiled programs are kept in one folder that all workers read.
"""

import inspect
import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

import jax

from dpdistill.programs import clipping
from dpdistill.storage.user_cache import processor

OPTIONS = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""About a quarter of the time, to slower code. Another arithmetic: sums may be added up in another order."""
TOUCH_RECORDS = {f"jit_{name}" for name, program in vars(clipping).items() if hasattr(program, "lower")}
"""Programs whose bits decide a guarantee: always compiled as users have them."""
NOW = {"quickly": True}
KEPT_DAYS = 30
PROGRAMS_OF_A_CONTEXT = 100


def takes(name, value):
    """Returns whether the installed XLA has such an option: names come and go between versions."""
    try:
        jax.jit(lambda x: x + 1, compiler_options={name: value})(1)
    except jax.errors.JaxRuntimeError:
        return False
    return True


def compile_quickly():
    """Adds the options where JAX compiles, which takes them from callers of jit alone; returns those that it adds.

    JAX's name is private. Where it has moved nothing is changed, and the result is empty.
    """
    try:
        from jax._src import compiler

        compile_one = compiler.compile_or_get_cached
        at = list(inspect.signature(compile_one).parameters).index("compile_options")
    except (ImportError, AttributeError, ValueError):
        return {}
    quickly = {name: value for name, value in OPTIONS.items() if takes(name, value)}

    def compile_so(backend, computation, *args, **options):
        name = str(computation.operation.attributes["sym_name"]).strip('"')
        if NOW["quickly"] and name not in TOUCH_RECORDS and len(args) > at - 2:
            args[at - 2].env_option_overrides = [*(quickly | dict(args[at - 2].env_option_overrides)).items()]
        return compile_one(backend, computation, *args, **options)

    compiler.compile_or_get_cached = compile_so
    return quickly


def share_programs():
    """Lets JAX write a program into its cache as a whole or not at all; returns False where JAX's name has moved.

    JAX writes in place, so that another process may read half a program. Its own remedy, a lock on the folder for
    `jax_compilation_cache_max_size`, looks at every file of the folder each time that a program is written.
    """
    try:
        from jax._src.lru_cache import _CACHE_SUFFIX, LRUCache

        put = LRUCache.put
    except (ImportError, AttributeError):
        return False

    def put_whole(self, key, value):
        part = f"{key}.{os.getpid()}.{threading.get_ident()}"
        put(self, part, value)
        with suppress(FileNotFoundError):
            os.replace(self.path / f"{part}{_CACHE_SUFFIX}", self.path / f"{key}{_CACHE_SUFFIX}")

    LRUCache.put = put_whole
    return True


def share_contexts():
    """Lets programs of a thread share an MLIR context; returns False where JAX's name has moved.

    JAX makes one for each program: 5 of the 20 ms that a program of one operation takes, and a megabyte for as long as
    JAX keeps the program. Contexts are renewed, since a context keeps the types and constants of all its programs.
    What is compiled while another program is lowered has a context of its own: else it would become part of that one.
    """
    try:
        from jax._src.interpreters import mlir

        new_context, entered = mlir.make_ir_context, mlir.ir.Context
    except (ImportError, AttributeError):
        return False
    shared = threading.local()

    def context():
        if entered.current is not None:
            return new_context()
        shared.uses = getattr(shared, "uses", -1) + 1
        if shared.uses % PROGRAMS_OF_A_CONTEXT == 0:
            shared.context = new_context()
        return shared.context

    mlir.make_ir_context = context
    return True


def cache_folder(shared):
    """Returns the folder of compiled programs: one a processor and XLA_FLAGS, and one a worker unless shared."""
    flags = re.sub(r"\W+", "-", os.environ.get("XLA_FLAGS", "")).strip("-") or "default"
    folder = Path(__file__).parents[1] / "build" / "compiled" / f"{flags}-{processor()}"
    return folder if shared else folder / os.environ.get("PYTEST_XDIST_WORKER", "alone")


def forget_old_programs(folder):
    """Removes programs that were compiled more than a month ago: most of them are asked for no more."""
    for path in folder.glob("*"):
        with suppress(OSError):
            if path.is_file() and time.time() - path.stat().st_mtime > KEPT_DAYS * 86_400:
                path.unlink()


QUICKLY = compile_quickly()
"""Options that programs are compiled with."""
SHARED = share_programs()
SHARED_CONTEXTS = share_contexts()
COMPILED = cache_folder(SHARED)
if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
    forget_old_programs(COMPILED)
os.environ.setdefault("XDG_CACHE_HOME", str(COMPILED.parents[1] / "cache"))  # of the processes that tests start
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # reading takes a sixth
