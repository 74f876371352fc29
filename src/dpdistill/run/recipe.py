"""What is saved of a method: its recipe; and which methods can run at all."""

from __future__ import annotations

import dataclasses
import json

from dpdistill.method import Method, to_json
from dpdistill.schema import AnySchema, TableSchema


def check_private(method: Method) -> None:
    """Refuse a method that only runs without a guarantee.

    Raises:
        ValueError: the method has no private form.
    """
    if not getattr(method, "private", True):
        raise ValueError(f"{type(method).__name__} has no private form: run it without a guarantee (--non-private).")


def check_kind(method: Method, schema: AnySchema) -> None:
    """Refuse a method for images on a table.

    Raises:
        ValueError: with the methods' own words.
    """
    if isinstance(schema, TableSchema) and not getattr(method, "tables", False):
        raise ValueError(f"{type(method).__name__} distils images, not tables: take dp-merf, dp-hp or dp-kip.")


def name_of(method: Method) -> str:
    """The method's `name`, as in the command line's table; without one, that of its class in small letters."""
    return getattr(method, "name", type(method).__name__.lower())


def recipe_of(method: Method, seed: int) -> dict:
    """What is saved of a method: its name, all fields, the public seed, where the settings come from."""
    described = dataclasses.fields(method)  # type: ignore[arg-type]
    fields = {f.name: to_json(getattr(method, f.name)) for f in described}
    changed = [f.name for f in described if getattr(method, f.name) != f.default]
    return {
        "method": name_of(method),
        "title": getattr(method, "title", type(method).__name__),
        "fields": json.loads(json.dumps(fields)),
        "changed": changed,
        "seed": int(seed),
        "origin": f"caller changed {', '.join(changed)}" if changed else getattr(method, "origin", "package default"),
        "references": list(getattr(method, "references", ())),
    }


def changed_releases(method: Method, recipe: dict) -> list[str]:
    """Names of the fields that shape releases and differ from the recipe's."""
    if recipe.get("method") != name_of(method):
        return ["method"]
    mine = recipe_of(method, 0)["fields"]
    fields = [f.name for f in dataclasses.fields(method) if not f.metadata.get("finish")]  # type: ignore[arg-type]
    return [name for name in fields if recipe["fields"].get(name) != mine[name]]
