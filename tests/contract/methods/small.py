"""Methods in small settings, from what their fields say of themselves, and the queries that they ask."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contract.data import SCHEMA, fitting
from contract.private.curators import NOISE

from dpdistill.features.scattering import ScatterNet
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.kernel import Kernel
from dpdistill.methods import METHODS
from dpdistill.private import checks
from dpdistill.public_images.image_source import Drawn, ImageSource
from dpdistill.query import Event, Release
from dpdistill.recipe import kernels as recipe
from dpdistill.recipe.rules import Rule, rules_of
from dpdistill.schema import AnySchema

AS_IT_IS = "as it is"
FEW_KERNELS = ("scatternet", "scatternet-white")
"""Kernels that stand for all where a field names several: the others take longer to compile."""
SCATTER = FeatureKernel(ScatterNet(J=1, L=2, groups=1, normalise=True))


@dataclass(frozen=True)
class PixelKernel(Kernel):
    """k(x, z) = <x, z>, a kernel that has no linear query."""

    def __call__(self, X: Any, Z: Any) -> Any:
        return flattened(X) @ flattened(Z).T

    def diagonal(self, X: Any) -> Any:
        return jnp.square(flattened(X)).sum(1)


def flattened(X: Any) -> Any:
    """The simplest encoder."""
    return X.reshape(len(X), -1)


def tiny(name: str, most: int = 2, **changes: Any) -> Any:
    """A method of the table in a setting that takes a second: no whole number is more than `most`."""
    kind = METHODS[name]
    small = {field.name: _small(field, rules_of(kind)[field.name], most) for field in dataclasses.fields(kind)}
    return kind(**{**small, **changes})


def is_sampling_prob(rule: Rule) -> bool:
    """Whether a field holds a number in (0, 1]: a probability of being sampled."""
    return (rule.gt, rule.le) == (0, 1)


def _small(field: dataclasses.Field, rule: Rule, most: int) -> Any:
    if rule.kind is int:
        return min(field.default, most)
    if is_sampling_prob(rule):
        return 1.0
    return next(iter(small_parts(rule.kind)), field.default)


def small_parts(kind: type) -> list[Any]:
    """Small kernels, or public images, that a field of this kind takes."""
    parts = (FCNTK(), SCATTER, PixelKernel(), Drawn(40), Drawn(41))
    return [part for part in parts if issubclass(kind, recipe.Kernel | ImageSource) and isinstance(part, kind)]


def variants(name: str, most: int = 2) -> dict[str, Any]:
    """A method in its tiny setting, and with each field that shapes releases switched: on, off, all, another kernel."""
    found = {AS_IT_IS: tiny(name, most)}
    for field in dataclasses.fields(METHODS[name]):
        rule, default = rules_of(METHODS[name])[field.name], getattr(found[AS_IT_IS], field.name)
        ends = [float(v) for v in (rule.ge, rule.le) if v in (0, 1) and rule.kind is float]
        ends = [most] if rule.kind is int and default == 0 else ends
        ends += [0.5] if rule.kind is float and default == rule.ge == 0 else []
        several = FEW_KERNELS if {*FEW_KERNELS} <= {*rule.choices} else rule.choices
        words = {str: rule.choices, tuple: (several,)}.get(rule.kind, ends)
        switched = [not default] if rule.kind is bool else words
        for value in () if field.metadata["finish"] else (*switched, *small_parts(rule.kind)):
            if value != default:
                found[f"{field.name}={value}"] = tiny(name, most, **{field.name: value})
    return found


def forget_queries() -> None:
    """Asks anew what `queries_of` has kept: a name of the table stands for another method."""
    _queries_of.cache_clear()


def rounds_of(method: Any) -> int:
    """The rounds that a method promises."""
    return sum(stage.rounds for stage in method.plan())


DEFAULT, OTHERS, ALL = "default", "others", "all"
"""Which variants of a method are looked at: as it is, all others, or all."""


def chosen_variants(name: str, which: str) -> dict[str, Any]:
    """Returns the variants of a method that `which` names."""
    return {k: method for k, method in variants(name).items() if which in (ALL, DEFAULT if k == AS_IT_IS else OTHERS)}


def queries_of(name: str, schema: AnySchema = SCHEMA, which: str = DEFAULT) -> dict[str, tuple[Any, Any]]:
    """Every query that a method asks, in the first variant that asks it, with params of that one's last round.

    Queries are told apart by their class, by what is no number in them, and by the structure of their params. The
    others are those that the method does not ask as it is.
    """
    found = _queries_of(name, schema, which == DEFAULT)
    return {label: asked for label, asked in found.items() if which != OTHERS or not label.endswith(f", {AS_IT_IS}")}


@lru_cache(maxsize=64)
def _queries_of(name: str, schema: AnySchema, default: bool) -> dict[str, tuple[Any, Any]]:
    found: dict[Any, tuple[str, Any, Any]] = {}
    if not isinstance(schema, METHODS[name].schemas):
        return {}
    for variant, method in chosen_variants(name, DEFAULT if default else ALL).items():
        with contextlib.suppress(ValueError):  # a kernel of images, with a table
            for query, params in asked(method, fitting(name, schema), rounds_of(method)):
                values = (getattr(query, field.name) for field in dataclasses.fields(query))
                kind = type(query), *(v for v in values if not isinstance(v, int | float)), jax.tree.structure(params)
                if kind not in found or found[kind][0] == variant:
                    found[kind] = variant, query, params
    return {f"{name}: {type(q).__name__}, {variant}": (q, params) for variant, q, params in found.values()}


def asked(method: Any, schema: AnySchema = SCHEMA, rounds: int = 2) -> list[tuple[Any, Any]]:
    """(query, params) of the first rounds, in between a release of random numbers."""
    rng, state, found = np.random.default_rng(5), method.init(jax.random.key(1), schema), []
    for t in range(rounds):
        query, params = method.ask(state)
        found.append((query, params))
        value = 10.0 * rng.normal(size=release_shape(query, params, schema))
        state = method.tell(state, Release(t, value, 1.0, Event(NOISE)))
    return found


def release_shape(query: Any, params: Any, schema: AnySchema = SCHEMA) -> tuple[int, ...]:
    """Shape of a release's value."""
    if math.isfinite(query.clip_norm):
        shape = checks.check_query(query, params, schema)
    else:
        x, label = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
        x = x if query.encoder is None else jax.eval_shape(query.encoder, x)
        shape = jax.eval_shape(query.contribution, params, jax.ShapeDtypeStruct(x.shape[1:], x.dtype), label).shape
    return (len(schema.classes), *shape) if query.by_class else tuple(shape)
