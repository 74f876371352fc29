"""Counts the work of a run's programs without compiling or running them, and times this machine once."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Trace, eval_context
from jax.extend.core import Var, jaxprs_in_params

try:
    from jax.extend.core import set_current_trace
except ImportError:  # jax < 0.8.2
    from jax.core import set_current_trace

FREE = ("reshape", "broadcast_in_dim", "squeeze", "expand_dims", "stop_gradient", "iota", "copy", "copy_p")
"""Operations that a compiler leaves out or joins to the next one."""
PLACING = ("device_put", "copy", "copy_p", "random_wrap", "random_unwrap")
"""Operations that only place a value: a dry run does them, so that known numbers stay known."""
TRIALS, BEST = 15, 1e-13
"""Calls of a timed program, and the fewest seconds that a unit of work takes."""
FORMAT = 1
"""Version of what is measured: a file of another one is measured again."""


class Work(NamedTuple):
    """Work of programs; every part is one number.

    Args:
        products: floating-point operations of matrix products.
        convolutions: floating-point operations of convolutions.
        numbers: numbers that all other operations make.
        equations: operations that are compiled, each program once.
        seconds: time that Python and NumPy take between the programs.
    """

    products: float = 0.0
    convolutions: float = 0.0
    numbers: float = 0.0
    equations: float = 0.0
    seconds: float = 0.0

    def plus(self, other: Work, times: float = 1.0) -> Work:
        """Returns this work and another one, so many times."""
        return Work(*(a + times * b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Work:
        """Returns so many times this work."""
        return NOTHING.plus(self, factor)

    def seconds_at(self, each: Work) -> float:
        """Returns the seconds that the work takes, from those of a unit of each kind; never less than 0."""
        return max(0.0, sum(a * b for a, b in zip(self, each, strict=True)))


NOTHING = Work()


def work_of(jaxpr: Any, known: dict[int, tuple[Any, Work]]) -> Work:
    """Returns the work of a traced function. XLA's own cost analysis counts the body of a loop only once.

    Args:
        jaxpr: the function.
        known: functions that were counted already, by their identity.
    """
    if id(jaxpr) not in known:
        total = NOTHING
        for equation in jaxpr.eqns:
            total = total.plus(_work_of_equation(equation, known))
        known[id(jaxpr)] = jaxpr, total
    return known[id(jaxpr)][1]


def _work_of_equation(equation: Any, known: dict[int, tuple[Any, Work]]) -> Work:
    name, params = equation.primitive.name, equation.params
    inner = [work_of(getattr(one, "jaxpr", one), known) for one in jaxprs_in_params(params)]
    if name == "cond":
        return max(inner, key=lambda work: work.products + work.convolutions + work.numbers)
    if inner and not name.startswith(("reduce", "scatter", "select_and", "sort")):
        whole = NOTHING
        for work in inner:
            whole = whole.plus(work)
        times = params["length"] if name == "scan" else 1
        return NOTHING.plus(whole, times)._replace(equations=whole.equations)
    made, read = (sum(_size(v) for v in of) for of in (equation.outvars, equation.invars))
    wide = max((v.aval.dtype.itemsize / 4 for v in equation.outvars if hasattr(v.aval, "dtype")), default=1.0)
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        depth = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
        return Work(products=2.0 * made * depth * max(1.0, wide), numbers=made + read, equations=1.0)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval.shape
        each = math.prod(kernel) / kernel[params["dimension_numbers"].rhs_spec[0]]
        return Work(convolutions=2.0 * made * each, numbers=made + read, equations=1.0)
    numbers = 0 if name in FREE else max(made, read if name.startswith("reduce") else 0)
    return Work(numbers=numbers, equations=1.0)


def held_bytes(jaxpr: Any) -> int:
    """Returns the most bytes that arguments, results and values in between of a traced function take at once."""
    last = {v: i for i, equation in enumerate(jaxpr.eqns) for v in _variables(equation)}
    last |= {v: -1 for v in jaxpr.outvars if isinstance(v, Var)}
    held = most = sum(map(_bytes, (*jaxpr.invars, *jaxpr.constvars)))
    for i, equation in enumerate(jaxpr.eqns):
        inner = [held_bytes(getattr(one, "jaxpr", one)) for one in jaxprs_in_params(equation.params)]
        held += sum(map(_bytes, equation.outvars))
        most = max(most, held + max(inner, default=0))
        held -= sum(_bytes(v) for v in _variables(equation) if last[v] == i)
    return most


def _variables(equation: Any) -> set[Var]:
    return {v for v in equation.invars if isinstance(v, Var)}


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


def _bytes(variable: Any) -> int:
    return _size(variable) * getattr(getattr(variable.aval, "dtype", None), "itemsize", 0)


class DryRun(Trace):
    """Stands for the device: counts each program that is called, and gives public random numbers instead of results."""

    def __init__(self) -> None:
        super().__init__()
        self.work, self.memory = NOTHING, 0
        self._known: dict[int, tuple[Any, Work]] = {}
        self._called: dict[int, Any] = {}
        self._values: dict[Any, Any] = {}

    def of(self, function: Callable[[], Any]) -> tuple[Any, Work]:
        """Returns what a function returns, and its work: programs that were called before are compiled already."""
        before, began = self.work, time.process_time()
        result = function()
        work = self.work._replace(seconds=time.process_time() - began)
        return result, work.plus(before._replace(seconds=0.0), -1.0)

    def process_primitive(self, primitive: Any, args: Any, params: Any) -> Any:
        """Returns numbers of the shape of the result. Every operation outside of a program is one of its own."""
        if "jaxpr" in params and primitive.name in ("jit", "pjit"):
            jaxpr = params["jaxpr"].jaxpr
            work = work_of(jaxpr, self._known)
            if id(jaxpr) not in self._called:
                self._called[id(jaxpr)], self.memory = jaxpr, max(self.memory, held_bytes(jaxpr))
            else:
                work = work._replace(equations=0.0)
            self.work = self.work.plus(work)
            return [self._value(v.aval) for v in jaxpr.outvars]
        with eval_context():
            if primitive.name in PLACING:
                return primitive.bind(*args, **params)
            made = jax.eval_shape(lambda *given: primitive.bind(*given, **params), *args)
        leaves = made if isinstance(made, list | tuple) else [made]
        self.work = self.work.plus(Work(numbers=sum(math.prod(leaf.shape) for leaf in leaves)))
        return [self._value(leaf) for leaf in made] if primitive.multiple_results else self._value(made)

    def stage_value(self, value: Any) -> Any:
        """Returns a value as an array: known numbers stay known."""
        with eval_context():
            return jnp.asarray(value)

    def process_call(self, primitive: Any, function: Any, args: Any, params: Any) -> Any:
        """Returns what the function of a call returns."""
        return function.call_wrapped(*args)

    def process_custom_jvp_call(self, primitive: Any, function: Any, jvp: Any, args: Any, /, **_: Any) -> Any:
        """Returns what a function with a derivative of its own returns."""
        return function.call_wrapped(*args)

    def process_custom_vjp_call(self, primitive: Any, function: Any, fwd: Any, bwd: Any, args: Any, /, **_: Any) -> Any:
        """Returns what a function with a derivative of its own returns."""
        return function.call_wrapped(*args)

    def _value(self, aval: Any) -> Any:
        key = (tuple(aval.shape), aval.dtype)
        if key not in self._values:
            with eval_context():
                self._values[key] = _numbers(*key)
        return self._values[key]


def _numbers(shape: tuple[int, ...], dtype: Any) -> Array:
    """Normal random numbers, zeros if whole, or keys of a random number generator."""
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(np.zeros((*shape, 2), np.uint32))
    if jnp.issubdtype(dtype, jnp.inexact):
        return jax.device_put(np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype))
    return jax.device_put(np.zeros(shape, dtype))


@contextmanager
def dry_run() -> Iterator[DryRun]:
    """A context in which this thread counts the programs that it calls, and runs none.

    What was traced or cached within is dropped at the end: no later run computes with the numbers of a dry run.
    """
    caches = [
        value
        for name, module in list(sys.modules.items())
        if name.startswith("dpdistill.")
        for value in vars(module).values()
        if hasattr(value, "cache_clear")
    ]
    before = [cache.cache_info().misses for cache in caches]
    dry = DryRun()
    try:
        with set_current_trace(dry), np.errstate(all="ignore"):
            yield dry
    finally:
        for cache, misses in zip(caches, before, strict=True):
            if cache.cache_info().misses > misses:
                cache.cache_clear()
        jax.clear_caches()


def seconds_each() -> Work:
    """Returns the seconds that a unit of each kind of work takes on this machine: measured once, then read from a file.

    The file lies in the user's cache folder and holds facts of the machine alone. A folder that cannot be written, or
    a file that cannot be read, costs two seconds each time.
    """
    path = _cache_folder() / "dpdistill" / "machine.json"
    key, kept = " ".join(map(str, _machine())), {}
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = dict(json.loads(path.read_text()))
        found = Work(*map(float, kept[key]))
        if all(0.0 < value < 1.0 for value in found[:-1]):
            return found
    found = _measured()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps({**kept, key: list(found)}))
        os.replace(aside, path)
    return found


def _cache_folder() -> Path:
    """Returns the user's cache folder: XDG_CACHE_HOME, or .cache at home."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    return Path(stated) if Path(stated).is_absolute() else Path(os.path.expanduser("~")) / ".cache"


def _machine() -> tuple[Any, ...]:
    """Returns what the speed depends on: processor, cores that this process may use, device and version of JAX."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return model, cores, jax.devices()[0].device_kind, jax.__version__, FORMAT


def _measured() -> Work:
    """Returns the seconds that a unit of each kind of work takes: the best of a few trials of small programs."""
    rng = np.random.default_rng(0)
    a, b, x, first, w, z = (
        jnp.asarray(rng.standard_normal(shape, np.float32))
        for shape in ((640, 96), (96, 96), (20, 28, 28, 1), (3, 3, 1, 64), (3, 3, 64, 64), (64, 64, 64))
    )

    def convolved(x: Array, first: Array, w: Array) -> Array:
        for kernel in (first, w, w):
            x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu((x - x.mean((1, 2), keepdims=True)) / jnp.sqrt(x.var((1, 2), keepdims=True) + 1e-5))
            h = x.shape[1] // 2
            x = x[:, : 2 * h, : 2 * h].reshape(len(x), h, 2, h, 2, -1).mean((2, 4))
        return jnp.square(x).sum()

    def plain(z: Array) -> Array:
        for _ in range(3):
            for _ in range(3):
                z = jnp.maximum(z, 0.1) * 0.5 + z
            z = jnp.sqrt(jnp.square(z.transpose(1, 2, 0)) + z.sum(0) + 1e-5)
        return z

    timed = [_timed(*of) for of in ((jnp.matmul, a, b), (plain, z), (jax.grad(convolved), x, first, w))]
    (product, of_product), (number, of_number), (convolution, of_convolution) = ((s, n) for s, n, _ in timed)
    number /= of_number.numbers
    convolution = max(convolution - number * of_convolution.numbers, convolution / 2) / of_convolution.convolutions
    equation = timed[2][2] / of_convolution.equations
    return Work(*(max(s, BEST) for s in (product / of_product.products, convolution, number, equation)), 1.0)


def _timed(function: Callable[..., Any], *arguments: Array) -> tuple[float, Work, float]:
    """Returns the seconds of a compiled function, its work, and the seconds that it takes to compile."""
    traced = jax.jit(function).trace(*arguments)
    began = time.process_time()  # compiling takes one core, and waits where others are busy
    compiled = traced.lower().compile()
    compiling, seconds = time.process_time() - began, math.inf
    for _ in range(TRIALS):
        before = time.perf_counter(), time.process_time()  # the first is more on busy cores, the second on many
        jax.block_until_ready(compiled(*arguments))
        seconds = min(seconds, time.perf_counter() - before[0], time.process_time() - before[1])
    return seconds, work_of(traced.jaxpr.jaxpr, {}), compiling
