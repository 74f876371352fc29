"""Refuses invalid recipes before anything is read."""

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
    """Refuses an unknown method.

    Raises:
        DataError: an unknown name, with the known ones.
    """
    if name is not None:
        methods.check_method(name)


def check_settings(method: str, settings: Iterable[str], per_class: int | None = None, public: Any = None) -> None:
    """Refuses invalid values of a method's fields.

    Args:
        method: name of the method.
        settings: texts "field=value".
        per_class: value of --per-class, or None.
        public: path of public images, or None; the images are not read. Rules that join a field with them are
            checked when the method is built.

    Raises:
        DataError: an unknown field, or a value that the field refuses.
    """
    if public is None:
        recipe_from_text(method, settings, per_class=per_class)
    else:
        fields_from_text(method, settings, per_class=per_class, public_images=public)


def check_size(method: str, per_class: int | None, schema: AnySchema) -> None:
    """Refuses more synthetic records per class than memory can hold.

    Raises:
        DataError: with the largest number that fits.
    """
    fields = fields_of(method)
    if per_class is not None and "per_class" in fields:
        check_set_size(per_class, schema, "kernel" in fields)


def check_kind(method: str, table: bool, private: bool) -> None:
    """Refuses a method without a private form under a budget, and a method of the other kind of records.

    Args:
        method: name of the method.
        table: True for rows of a table.
        private: True for a run under a budget.

    Raises:
        DataError: such a method, with the methods that fit.
    """
    recipe = methods.RECIPES[method]
    if private:
        check_private(recipe)
    check_kind_of_records(recipe, TableSchema if table else Schema)
