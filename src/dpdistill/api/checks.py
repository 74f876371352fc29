"""Refuses recipes that cannot be, before anything is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpdistill.recipe import methods
from dpdistill.recipe.build import fields_of
from dpdistill.recipe.saved import check_kind_of_records, check_private
from dpdistill.recipe.text import fields_from_text, recipe_from_text
from dpdistill.schema import AnySchema, Schema, TableSchema
from dpdistill.storage.memory import check_set_size


def check_method(name: str | None) -> None:
    """Refuses a name that is no method's.

    Raises:
        DataError: with the names that are.
    """
    if name is not None:
        methods.check_method(name)


def check_settings(method: str, settings: Iterable[str], per_class: int | None = None, public: Any = None) -> None:
    """Refuses what the fields of a method cannot hold.

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
        fields_from_text(method, settings, per_class=per_class, public_images=public)


def check_size(method: str, per_class: int | None, schema: AnySchema) -> None:
    """Refuses more synthetic records a class than this machine's memory can hold.

    Raises:
        DataError: with the largest number that fits.
    """
    fields = fields_of(method)
    if per_class is not None and "per_class" in fields:
        check_set_size(per_class, schema, "kernel" in fields)


def check_kind(method: str, table: bool, private: bool) -> None:
    """Refuses a method that has no private form under a budget, and one that distils the other kind of records.

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
