"""The command line's one table of methods, and recipes written as field=value."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable
from typing import Any

from dpdistill.methods import DM, DOS, LDPDC, NDPDC
from dpdistill.private.ledger import RunLedger
from dpdistill.schema import DataError

METHODS: dict[str, Any] = {"dos": DOS, "ndpdc": NDPDC, "ldpdc": LDPDC, "dm": DM}


def fields_of(name: str) -> dict[str, dataclasses.Field]:
    """The recipe fields of a method, by name.

    Raises:
        DataError: an unknown method.
    """
    if name not in METHODS:
        raise DataError(f"Unknown method {name!r}: choose among {', '.join(METHODS)}.")
    return {field.name: field for field in dataclasses.fields(METHODS[name])}


def build(name: str, settings: Iterable[str], **named: Any) -> Any:
    """A method from "field=value" settings.

    Args:
        name: of the method.
        settings: texts "field=value"; tuples as comma-separated words, empty for none.
        named: further fields that have a type already; None leaves the default.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
    """
    return from_fields(name, _stated(name, settings, named))


def build_again(run_dir: str, name: str | None, settings: Iterable[str], **named: Any) -> Any:
    """The method of a run, with other settings: what is not named stays as the run had it.

    Args:
        run_dir: the owner's folder of the run.
        name: of the method; None for the run's.
        settings: texts "field=value".
        named: further fields that have a type already; None leaves them out.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
        LedgerError: there is no run in the folder.
    """
    recipe = RunLedger.read(run_dir).recipe
    name = name or recipe["method"]
    kept = recipe["fields"] if name == recipe["method"] else {}
    return from_fields(name, {**kept, **_stated(name, settings, named)})


def _stated(name: str, settings: Iterable[str], named: dict[str, Any]) -> dict[str, Any]:
    """The fields that a caller states, parsed."""
    fields, values = fields_of(name), {k: v for k, v in named.items() if v is not None}
    hints = typing.get_type_hints(METHODS[name])
    for setting in settings:
        field, equals, text = setting.partition("=")
        if not equals:
            raise DataError(f"Expected --set field=value; got {setting!r}.")
        if field not in fields:
            raise DataError(f"Method {name} has no field {field!r}: it has {', '.join(fields)}.")
        if field in values:
            raise DataError(f"The field {field!r} is set twice.")
        values[field] = _parse(field, text, hints[field])
    return values


def from_fields(name: str, values: dict[str, Any]) -> Any:
    """A method from the fields of a saved recipe.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
    """
    unknown = set(values) - set(fields_of(name))
    if unknown:
        raise DataError(f"Method {name} has no field {', '.join(sorted(map(repr, unknown)))}.")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        method = METHODS[name](**values)
        method.plan()
    except (ValueError, TypeError) as error:
        raise DataError(str(error)) from None
    except (OverflowError, MemoryError):
        raise DataError(f"A field of method {name} is too large.") from None
    return method


def _parse(field: str, text: str, kind: Any) -> Any:
    if isinstance(kind, types.GenericAlias):
        return tuple(word for word in text.split(",") if word)
    try:
        return kind(text)
    except ValueError:
        name = {int: "a whole number", float: "a number"}.get(kind, kind.__name__)
        raise DataError(f"Expected {field} as {name}; got {text!r}.") from None
