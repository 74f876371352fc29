"""Recipe fields as a person writes them, field=value, and what they may hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable
from typing import Any

from dpdistill.public_images.auxiliary import Auxiliary
from dpdistill.recipe.build import fields_of, from_fields, kernel_named
from dpdistill.recipe.kernels import KERNELS
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.names import check_names
from dpdistill.recipe.parts import fields_of_kind
from dpdistill.recipe.published.stated import named_under, stated_by
from dpdistill.recipe.saved import kind_refusal
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema
from dpdistill.storage.memory import check_set_size

__all__ = [
    "KINDS",
    "check_kind",
    "check_method",
    "check_named",
    "check_names",
    "check_settings",
    "check_size",
    "kind_of",
    "named_under",
    "parse",
    "split",
    "stated_by",
    "stated_fields",
]

KINDS = {kind.__name__: kind for kind in (int, float, bool, str, tuple)}
"""Of values that a person writes as such; the others are kernels and public images, by their names."""


def check_method(name: str | None) -> None:
    """Refuse a name that is no method's.

    Raises:
        DataError: with the names that are.
    """
    if name is not None:
        fields_of(name)


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
    named = {"per_class": per_class, "auxiliary": public}
    fields = stated_fields(method, settings, **named)
    if public is None:
        from_fields(method, fields)


def stated_fields(name: str, settings: Iterable[str], **named: Any) -> dict[str, Any]:
    """The fields that a caller states, with their types.

    Args:
        name: of the method.
        settings: texts "field=value"; tuples as comma-separated words, empty for none.
        named: further fields that have a type already; None leaves them out.

    Raises:
        DataError: an unknown method or field, or one that is stated twice.
    """
    fields, values = fields_of(name), {k: v for k, v in named.items() if v is not None}
    texts = split(name, settings, fields, values)
    return values | {field: _parse(field, text, fields[field]) for field, text in texts.items()}


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
    recipe = RECIPES[method]
    if private and not recipe.private:
        raise DataError(f"{recipe.__name__} has no private form: `dpdistill distill --non-private` runs it.")
    if refusal := kind_refusal(recipe, TableSchema if table else Schema):
        raise DataError(refusal)


def split(method: str, settings: Iterable[str], fields: Container[str], taken: Container[str]) -> dict[str, str]:
    """The texts of settings, by field.

    Args:
        method: its name.
        settings: texts "field=value".
        fields: that the method has.
        taken: those that are stated in another way.

    Raises:
        DataError: a text that is none, a field that there is not, or one that is stated twice.
    """
    if "auxiliary" in taken and "auxiliary" not in fields:
        raise DataError(f"Method {method} reads no public images: leave --public out.")
    if "per_class" in taken and "per_class" not in fields:
        raise DataError(f"Method {method} stores as many records as --set samples=N says: leave --per-class out.")
    texts: dict[str, str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise DataError(f"Expected --set field=value; got {setting!r}.")
        if name not in fields:
            raise DataError(f"Method {method} has no field {name!r}: it has {', '.join(fields)}.")  # type: ignore
        if name in texts or name in taken:
            raise DataError(f"The field {name!r} is set twice.")
        texts[name] = text
    return texts


def check_named(field: str, text: str, kind: str) -> None:
    """Refuse an unknown kernel, and public images, which have an option of their own.

    Raises:
        DataError: as said.
    """
    if kind == "images":
        raise DataError(f"The field {field!r} is public images: name them with --public DATA, or leave it out.")
    if kind == "kernel":
        kernel_named(text, field)


def parse(text: str, kind: str) -> Any:
    """A field's value from what a person wrote; what is no such value stays a text, which the method refuses."""
    if kind == "tuple":
        return tuple(word for word in text.split(",") if word)
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return KINDS.get(kind, str)(text)
    except ValueError:
        return text


def kind_of(field: dataclasses.Field) -> str:
    """How the value of a recipe's field is written: a name of KINDS, "kernel" or "images"."""
    if isinstance(field.default, Auxiliary):
        return "images"
    return "kernel" if dataclasses.is_dataclass(field.default) else field.metadata["allowed"].kind.__name__


def _parse(field: str, text: str, described: dataclasses.Field) -> Any:
    """A field's value from what a person wrote."""
    check_named(field, text, kind := kind_of(described))
    if kind != "kernel":
        return parse(text, kind)
    wanted = fields_of_kind(described.metadata["allowed"].kind)
    allowed = [name for name, kernel in KERNELS.items() if isinstance(kernel, wanted)]
    if text not in allowed:
        raise DataError(f"The method cannot use {field}={text}: choose among {', '.join(allowed)}.")
    return KERNELS[text]
