"""What the command line refuses of a recipe before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpdistill.recipe import methods
from dpdistill.recipe.build import fields_of, kernel_named
from dpdistill.recipe.published import all_published, full_name, is_file, read_recipe
from dpdistill.recipe.saved import check_kind_of_records, check_private
from dpdistill.recipe.text import fields_from_text, recipe_from_text
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema
from dpdistill.storage.memory import check_set_size


def check_method(name: str | None) -> None:
    """Refuse a name that is no method's.

    Raises:
        DataError: with the names that are.
    """
    if name is not None:
        methods.check_method(name)


def check_settings(method: str, settings: Iterable[str], per_class: int | None = None, public: Any = None) -> None:
    """Refuse what the fields of a method cannot hold.

    Args:
        method: its name.
        settings: texts "field=value".
        per_class: a field of its own on the command line, or None.
        public: where public images are, or None; they are not read, so that what a field must keep to together with
            them is checked when the method is made.

    Raises:
        DataError: an unknown field, or a value that it may not hold.
    """
    if public is None:
        recipe_from_text(method, settings, per_class=per_class)
    else:
        fields_from_text(method, settings, per_class=per_class, auxiliary=public)


def check_size(method: str, per_class: int | None, schema: AnySchema) -> None:
    """Refuse more synthetic records a class than this machine's memory can hold.

    Raises:
        DataError: with the largest number that fits.
    """
    fields = fields_of(method)
    if per_class is not None and "per_class" in fields:
        check_set_size(per_class, schema, "kernel" in fields)


def check_kind(method: str, table: bool, private: bool) -> None:
    """Refuse a method that has no private form under a budget, and one that distils the other kind of records.

    Args:
        method: its name.
        table: whether the records are a table's.
        private: whether there is a budget.

    Raises:
        DataError: with the methods that do.
    """
    recipe = methods.RECIPES[method]
    if private:
        check_private(recipe)
    check_kind_of_records(recipe, TableSchema if table else Schema)


def check_names(what: str, names: Iterable[str], among: Iterable[str]) -> None:
    """Refuse names that are not among the known ones.

    Raises:
        DataError: with all that are.
    """
    if unknown := sorted({*names} - {*among}):
        raise DataError(f"Unknown {what} {', '.join(map(repr, unknown))}: choose among {', '.join(among)}.")


def stated_by(recipe: str) -> dict[str, Any]:
    """What a published recipe, or one in a .yaml file, states: method, and epsilon and delta of a budget.

    Args:
        recipe: its name or file.

    Returns:
        these, and the whole name of a published one.

    Raises:
        DataError: neither such a name nor such a file, or a field that cannot be.
    """
    row = read_recipe(recipe) if is_file(recipe) else all_published().get(full_name(recipe) or "")
    if row is None:
        raise DataError(
            f"Expected a recipe's name, as `dpdistill methods --recipes` lists them, or a .yaml file; got {recipe!r}."
        )
    stated = {name: getattr(row, name) for name in ("method", "epsilon", "delta")}
    return stated if is_file(recipe) else {"name": row.name, **stated}


def named_under(stated: Mapping[str, Any], budget: tuple[float, float] | None) -> str | None:
    """The name of a published recipe where a certificate may state it: a name says a budget, which has to be this one.

    Args:
        stated: by the recipe, `stated_by`; empty for none.
        budget: (epsilon, delta) of the run; None without a guarantee.
    """
    if "name" not in stated:
        return None
    own = None if stated["epsilon"] is None else (stated["epsilon"], stated["delta"])
    return stated["name"] if own == budget else None


def check_named(field: str, text: str, kind: str) -> None:
    """Refuse an unknown kernel.

    Raises:
        DataError: with the names that are known.
    """
    kernel_named(text, field)
