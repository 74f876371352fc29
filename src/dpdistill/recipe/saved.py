"""The saved form of a recipe, and checks whether a recipe can run."""

from __future__ import annotations

import dataclasses
import json

from dpdistill.query import SLACK_TEXT
from dpdistill.recipe.fields import Recipe, to_json
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.published import published
from dpdistill.schema import AnySchema, DataError, TableSchema


def check_private(method: Recipe | type[Recipe]) -> None:
    """Refuses a method that runs only without a guarantee.

    Raises:
        DataError: the method has no private form.
    """
    if not method.private:
        kind = method if isinstance(method, type) else type(method)
        raise DataError(f"{kind.__name__} has no private form: `dpdistill distill --non-private` runs it.")


def check_kind(method: Recipe, schema: AnySchema) -> None:
    """Refuses a method for records that it does not distil.

    Raises:
        DataError: names the methods that distil these records.
    """
    check_kind_of_records(type(method), type(schema))
    target = schema.target if isinstance(schema, TableSchema) else None
    if target is not None and method.target == "never":
        able = (name for name, one in RECIPES.items() if one.target != "never")
        raise DataError(
            f"{type(method).__name__} learns classes, and the label {target!r:.80} is a number to predict: choose one "
            f"of {', '.join(able)}, or state classes of the label instead of bounds."
        )
    if target is None and method.target == "only":
        raise DataError(
            f"{type(method).__name__} predicts a number: name a numeric column of schema.yaml as label, or choose "
            "another method."
        )
    if isinstance(schema, TableSchema) and schema.label is None and target is None and method.least_classes > 1:
        able = (name for name, one in RECIPES.items() if one.least_classes == 1 and TableSchema in one.schemas)
        raise DataError(
            f"{type(method).__name__} needs a label, and this table has none: choose one of {', '.join(able)}, or "
            "state label and classes in schema.yaml."
        )
    if (classes := len(schema.classes)) < method.least_classes:
        able = (name for name, one in RECIPES.items() if one.least_classes <= classes and type(schema) in one.schemas)
        raise DataError(
            f"{type(method).__name__} needs at least {method.least_classes} classes, and these records have {classes}: "
            f"choose one of {', '.join(able)}."
        )


def check_kind_of_records(recipe: type[Recipe], schema: type[AnySchema]) -> None:
    """Refuses a method that does not distil a kind of records, images or tables.

    Raises:
        DataError: names the methods that distil these records.
    """
    if schema in recipe.schemas:
        return
    what = "images, not tables" if schema is TableSchema else "tables, not images"
    others = ", ".join(name for name, other in RECIPES.items() if other.private and schema in other.schemas)
    raise DataError(f"{recipe.__name__} distils {what}: choose one of {others}.")


def recipe_of(method: Recipe, seed: int, named: str | None = None) -> dict:
    """Returns the saved form of a method: its name, all fields, the public seed, the origin of the settings.

    Args:
        method: a distiller.
        seed: public seed.
        named: name of the published recipe that the fields come from; the origin then lists differences from this
            recipe instead of differences from the package's defaults.

    Raises:
        DataError: no recipe of that name.
        ValueError: the recipe belongs to another method.
    """
    described = dataclasses.fields(method)
    row = None if named is None else published(named)
    if row is not None and row.method != method.name:
        raise ValueError(f"Expected method {row.method} with the recipe {row.name}; got {method.name}.")
    base = {f.name: f.default for f in described} if row is None else vars(row.recipe())
    fields = {f.name: to_json(getattr(method, f.name)) for f in described}
    changed = [f.name for f in described if fields[f.name] != to_json(base[f.name])]
    left_out = {f.name for f in described if f.name in method.later and fields[f.name] == to_json(f.default)}
    origins = [method.origin if row is None and not changed else None, row and row.origin]
    origins.append(f"caller changed {', '.join(changed)}" if changed else None)
    return {
        "method": method.name,
        "title": method.title,
        "fields": json.loads(json.dumps({name: value for name, value in fields.items() if name not in left_out})),
        "changed": changed,
        "seed": int(seed),
        "origin": "; ".join(origin for origin in origins if origin),
        "references": list(method.references),
        **({} if row is None else {"named": row.name}),
    }


def changed_releases(method: Recipe, recipe: dict) -> list[str]:
    """Returns the fields that shape releases and differ from the recipe's; fields missing there have their defaults."""
    if recipe.get("method") != method.name:
        return ["method"]
    mine = recipe_of(method, 0)["fields"]
    defaults = {f.name: to_json(f.default) for f in dataclasses.fields(method) if not f.metadata["finish"]}
    return [
        name for name, default in defaults.items() if recipe["fields"].get(name, default) != mine.get(name, default)
    ]


def slack_of(method: Recipe) -> str | None:
    """Returns a certificate's sentence about rounding in a method's sums; None for sums of integers."""
    return SLACK_TEXT if method.linear else None
