"""Measures how fast this machine is, once, and keeps it in the user's cache folder."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.run.dry_run import Work, work_of
from dpdistill.storage.user_cache import user_cache

TRIALS, BEST = 15, 1e-13
"""Calls of a timed program, and the fewest seconds that a unit of work takes."""
FORMAT = 1
"""Version of what is measured: a file of another one is measured again."""


def seconds_each() -> Work:
    """Returns the seconds that a unit of each kind of work takes on this machine: measured once, then read from a file.

    The file lies in the user's cache folder and holds facts of the machine alone. A folder that cannot be written, or
    a file that cannot be read, costs two seconds each time.
    """
    path = user_cache() / "machine.json"
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

    product, of_product, _ = _timed(jnp.matmul, a, b)
    number, of_number, _ = _timed(plain, z)
    convolution, of_convolution, compiling = _timed(jax.grad(convolved), x, first, w)
    number /= of_number.numbers
    convolution = max(convolution - number * of_convolution.numbers, convolution / 2) / of_convolution.convolutions
    return Work(
        products=max(product / of_product.products, BEST),
        convolutions=max(convolution, BEST),
        numbers=max(number, BEST),
        equations=max(compiling / of_convolution.equations, BEST),
        seconds=1.0,
    )


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
