"""What is saved of a method: its recipe; and which methods can run at all."""

from __future__ import annotations

import dataclasses
import json

from dpdistill.accounting.schedule import Budget
from dpdistill.data.records import Records
from dpdistill.method import Method, to_json
from dpdistill.methods import METHODS
from dpdistill.published import published
from dpdistill.schema import AnySchema, TableSchema


def check_given(records: object, method: object, budget: object = None) -> None:
    """Refuse what is of another type, with what to pass in its place.

    Raises:
        TypeError: as said.
    """
    if not isinstance(records, Records):
        raise TypeError(
            f"Expected records as load(...) or Records.from_arrays(X, y, ...) gives them; got {_kind(records)}."
        )
    if isinstance(method, type) or not callable(getattr(method, "plan", None)):
        raise TypeError(f"Expected a method with its fields, such as DOS(per_class=10); got {_kind(method)}.")
    if not isinstance(budget, Budget | None):
        raise TypeError(f"Expected a budget such as Budget(epsilon=1.0), or None; got {_kind(budget)}.")


def _kind(given: object) -> str:
    return (
        f"the class {given.__name__}" if isinstance(given, type) else f"{type(given).__module__}.{type(given).__name__}"
    )


def check_private(method: Method) -> None:
    """Refuse a method that only runs without a guarantee.

    Raises:
        ValueError: the method has no private form.
    """
    if not method.private:
        raise ValueError(f"{type(method).__name__} has no private form: `dpdistill distill --non-private` runs it.")


def check_kind(method: Method, schema: AnySchema) -> None:
    """Refuse a method on records that it does not distil.

    Raises:
        ValueError: with the methods' own words.
    """
    if not isinstance(schema, method.schemas):
        what = "images, not tables" if isinstance(schema, TableSchema) else "tables, not images"
        others = ", ".join(name for name, other in METHODS.items() if other.private and type(schema) in other.schemas)
        raise ValueError(f"{type(method).__name__} distils {what}: take one of {others}.")
    if (classes := len(schema.classes)) < method.least_classes:
        able = (name for name, one in METHODS.items() if one.least_classes <= classes and type(schema) in one.schemas)
        raise ValueError(
            f"{type(method).__name__} needs at least {method.least_classes} classes, and these records have {classes}: "
            f"take one of {', '.join(able)}."
        )


def recipe_of(method: Method, seed: int, named: str | None = None) -> dict:
    """What is saved of a method: its name, all fields, the public seed, where the settings come from.

    Args:
        method: a distiller.
        seed: public.
        named: the published recipe that the fields were taken from, by name; what differs from it is named then, in
            the place of what differs from the package's defaults.

    Raises:
        DataError: no recipe of that name.
        ValueError: one of another method.
    """
    described = dataclasses.fields(method)
    row = None if named is None else published(named)
    if row is not None and row.method != method.name:
        raise ValueError(f"Expected method {row.method} with the recipe {row.name}; got {method.name}.")
    base = {f.name: f.default for f in described} if row is None else vars(row.build())
    fields = {f.name: to_json(getattr(method, f.name)) for f in described}
    changed = [f.name for f in described if getattr(method, f.name) != base[f.name]]
    origins = [method.origin if row is None and not changed else None, row and row.origin]
    origins.append(f"caller changed {', '.join(changed)}" if changed else None)
    return {
        "method": method.name,
        "title": method.title,
        "fields": json.loads(json.dumps(fields)),
        "changed": changed,
        "seed": int(seed),
        "origin": "; ".join(origin for origin in origins if origin),
        "references": list(method.references),
        **({} if row is None else {"named": row.name}),
    }


def changed_releases(method: Method, recipe: dict) -> list[str]:
    """Names of the fields that shape releases and differ from the recipe's; one that it lacks has its default there."""
    if recipe.get("method") != method.name:
        return ["method"]
    mine = recipe_of(method, 0)["fields"]
    defaults = {f.name: to_json(f.default) for f in dataclasses.fields(method) if not f.metadata["finish"]}
    return [name for name, default in defaults.items() if recipe["fields"].get(name, default) != mine[name]]
