"""What is saved of a recipe, and which recipes can run at all."""

from __future__ import annotations

import dataclasses
import json

from dpdistill.query import SLACK_TEXT
from dpdistill.recipe.fields import Recipe, to_json
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.published import published
from dpdistill.schema import AnySchema, DataError, TableSchema


def check_private(method: Recipe | type[Recipe]) -> None:
    """Refuse a method that only runs without a guarantee.

    Raises:
        DataError: the method has no private form.
    """
    if not method.private:
        kind = method if isinstance(method, type) else type(method)
        raise DataError(f"{kind.__name__} has no private form: `dpdistill distill --non-private` runs it.")


def check_kind(method: Recipe, schema: AnySchema) -> None:
    """Refuse a method on records that it does not distil.

    Raises:
        DataError: with the methods that do.
    """
    check_kind_of_records(type(method), type(schema))
    if (classes := len(schema.classes)) < method.least_classes:
        able = (name for name, one in RECIPES.items() if one.least_classes <= classes and type(schema) in one.schemas)
        raise DataError(
            f"{type(method).__name__} needs at least {method.least_classes} classes, and these records have {classes}: "
            f"take one of {', '.join(able)}."
        )


def check_kind_of_records(recipe: type[Recipe], schema: type[AnySchema]) -> None:
    """Refuse a method that does not distil records of a kind, images or tables.

    Raises:
        DataError: with the methods that do.
    """
    if schema in recipe.schemas:
        return
    what = "images, not tables" if schema is TableSchema else "tables, not images"
    others = ", ".join(name for name, other in RECIPES.items() if other.private and schema in other.schemas)
    raise DataError(f"{recipe.__name__} distils {what}: take one of {others}.")


def recipe_of(method: Recipe, seed: int, named: str | None = None) -> dict:
    """Returns what is saved of a method: its name, all fields, the public seed, where the settings come from.

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
    base = {f.name: f.default for f in described} if row is None else vars(row.recipe())
    fields = {f.name: to_json(getattr(method, f.name)) for f in described}
    changed = [f.name for f in described if fields[f.name] != to_json(base[f.name])]
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


def changed_releases(method: Recipe, recipe: dict) -> list[str]:
    """Names of the fields that shape releases and differ from the recipe's; one that it lacks has its default there."""
    if recipe.get("method") != method.name:
        return ["method"]
    mine = recipe_of(method, 0)["fields"]
    defaults = {f.name: to_json(f.default) for f in dataclasses.fields(method) if not f.metadata["finish"]}
    return [name for name, default in defaults.items() if recipe["fields"].get(name, default) != mine[name]]


def slack_of(method: Recipe) -> str | None:
    """Returns what a certificate says of the arithmetic of a method's sums; None where they are sums of integers."""
    return SLACK_TEXT if method.linear else None
