"""Counts the work of programs without compiling or running them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Trace, eval_context
from jax.extend.core import Var, jaxprs_in_params

from dpdistill.recipe.features import SHAPES_ONLY

try:
    from jax.extend.core import set_current_trace
except ImportError:  # jax < 0.8.2
    from jax.core import set_current_trace  # type: ignore[attr-defined]

FREE = ("reshape", "broadcast_in_dim", "squeeze", "expand_dims", "stop_gradient", "iota", "copy", "copy_p")
"""Operations that a compiler leaves out or joins to the next one."""
PLACING = ("device_put", "copy", "copy_p", "random_wrap", "random_unwrap")
"""Operations that only place a value: a dry run does them, so that known numbers stay known."""


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

    def larger(self, pixels: float, products: float = 1.0) -> Work:
        """Returns the work of the same programs on images of so many times the pixels.

        Args:
            pixels: that number.
            products: growth of the matrix products of one pixel.
        """
        grown = self.times(pixels)
        return grown._replace(equations=self.equations, products=products * grown.products)

    def seconds_at(self, each: Work) -> float:
        """Returns the seconds that the work takes, from those of a unit of each kind."""
        return sum(a * b for a, b in zip(self, each, strict=True))


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
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.zeros((*shape, 2), jnp.uint32))
    if jnp.issubdtype(dtype, jnp.inexact):
        return jax.device_put(np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype))
    return jax.device_put(np.zeros(shape, dtype))


@contextmanager
def shapes_only() -> Iterator[None]:
    """A context in which this thread asks features for their shapes alone.

    Its precision has a name that no run uses: JAX keeps what is traced under it apart from what runs trace.
    """
    token = SHAPES_ONLY.set(True)
    try:
        with jax.default_matmul_precision("float32"):
            yield
    finally:
        SHAPES_ONLY.reset(token)


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
        with shapes_only(), set_current_trace(dry), np.errstate(all="ignore"):
            yield dry
    finally:
        for cache, misses in zip(caches, before, strict=True):
            if cache.cache_info().misses > misses:
                cache.cache_clear()
        jax.clear_caches()
