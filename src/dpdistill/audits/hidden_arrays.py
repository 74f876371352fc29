"""Finds arrays and records in a method's code outside its fields, whose origin cannot be replayed."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import jax
import numpy as np

from dpdistill.method import Method
from dpdistill.storage.records import Records

DEPTH = 5
"""Largest depth of nested containers and functions to search."""


def held(method: Method) -> tuple[str, ...]:
    """Returns descriptions of arrays in closures, defaults and attributes of a method's code, and of named records.

    Args:
        method: the method; its fields are not searched, since they are the public recipe.
    """
    own = {f.name for f in fields(method)}
    found = [*_within({k: v for k, v in vars(method).items() if k not in own}, "its attributes", DEPTH)]
    for kind in type(method).__mro__[: type(method).__mro__.index(Method)]:
        for name, value in vars(kind).items():
            if name not in own and not name.startswith("__dataclass"):
                found += _within(value, f"{kind.__name__}.{name}", DEPTH)
    return tuple(dict.fromkeys(found))


def _within(value: object, where: str, depth: int) -> Iterator[str]:
    if isinstance(value, Records):
        yield f"{where} holds records"
    elif isinstance(value, np.ndarray | jax.Array):
        if value.size > 1:
            yield f"{where} holds an array of shape {value.shape}"
    elif depth:
        for part in _parts(value):
            yield from _within(part, where, depth - 1)
        if isinstance(value, types.FunctionType):
            named = (value.__globals__.get(name) for name in _names(value.__code__))
            yield from (f"{where} names records" for part in named if isinstance(part, Records))


def _parts(value: object) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, property):
        yield from (value.fget, value.fset)
    elif isinstance(value, types.FunctionType):
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values())
        yield from (cell.cell_contents for cell in value.__closure__ or () if _filled(cell))
    elif isinstance(value, types.MethodType | staticmethod | classmethod):
        yield from (getattr(value, "__self__", None), value.__func__)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
