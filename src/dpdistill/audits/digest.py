"""Digests any value down to the bits of its arrays, equally in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype)


def digest(value: object) -> str:
    """Returns the SHA-256 of a value: types, field names, and every number bit for bit.

    Args:
        value: numbers, texts, arrays, dataclasses, and containers or objects of these; functions count by name.
    """
    made = hashlib.sha256()
    for part in _parts(value, ()):
        made.update(b"%d:" % len(part) + part)
    return made.hexdigest()


def _parts(value: object, inside: tuple[int, ...]) -> Iterator[bytes]:
    kind = type(value)
    yield f"{kind.__module__}.{kind.__qualname__}".encode()
    if isinstance(value, PLAIN):
        yield value if isinstance(value, bytes) else repr(value).encode()
    elif isinstance(value, jax.Array | np.ndarray):
        array = np.asarray(jax.random.key_data(value) if _is_key(value) else value)
        yield f"{array.dtype.str} {array.shape}".encode()
        yield np.ascontiguousarray(array).tobytes()
    elif id(value) in inside:
        yield b"itself"
    else:
        for name, part in _named(value):
            yield name.encode()
            yield from _parts(part, (*inside, id(value)))


def _named(value: object) -> Iterator[tuple[str, Any]]:
    """Yields the named parts of a container or an object in a fixed order."""
    if is_dataclass(value) and not isinstance(value, type):
        yield from ((f.name, getattr(value, f.name)) for f in fields(value))
    elif isinstance(value, Mapping):
        yield from ((repr(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(i), part) for i, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("", part) for part in sorted(map(digest, value)))
    elif callable(value) and hasattr(value, "__qualname__"):
        yield value.__qualname__, value.__module__
    else:
        yield from sorted(getattr(value, "__dict__", {}).items())


def _is_key(value: object) -> bool:
    """Returns whether an array holds JAX random keys, which NumPy cannot read."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
