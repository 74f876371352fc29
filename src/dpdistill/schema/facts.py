"""Reads public facts from files: dataclasses from lists, mappings and values of exactly their types."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from dpdistill.schema.errors import DataError

T = TypeVar("T")


class Strict:
    """Lazy substitute for pydantic.Strict: importing pydantic is slow, so it happens when facts are read."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source) | {"strict": True}


StrictBool = Annotated[bool, Strict()]
StrictFloat = Annotated[float, Strict()]
StrictInt = Annotated[int, Strict()]
STRICT = {"extra": "forbid"}
"""The `__pydantic_config__` of a dataclass that is read from files: an unknown key is a fault. Its flags and numbers
are StrictBool, StrictFloat and StrictInt, so that pydantic converts nothing.
"""
FORMS = ("list", "mapping")
"""Tags of fields that may have either form."""
_RULES = {
    "bool_type": "as true or false",
    "dataclass_type": "as a mapping",
    "float_type": "as a number (1e30 at most)",
    "int_type": "as a whole number",
    "string_type": "as a text",
    "too_long": "as a shorter list",
    "tuple_type": "as a list",
    "union_tag_not_found": "as a list, or as a mapping to lists",
}


def read_facts(kind: type[T], content: Any, what: str = "the schema") -> T:
    """Returns a dataclass from JSON or YAML values; a list stands for a tuple.

    Args:
        kind: the dataclass.
        content: lists, mappings and values.
        what: name of the content, for a fault without a place in it.

    Raises:
        TypeError: another type or an unknown key, in one sentence with its place and value.
        DataError: values that the dataclass itself refuses.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        fault: Any = error.errors(include_url=False)[0]
        if fault["type"] == "value_error":
            raise DataError(str(fault["ctx"]["error"])) from None
        raise TypeError(_sentence(kind, content, fault, what)) from None


def _sentence(kind: Any, content: Any, fault: Any, what: str) -> str:
    loc = [part for part in fault["loc"] if part not in FORMS]
    match fault["type"]:
        case "unexpected_keyword_argument":
            for part in loc[:-1]:
                kind = get_args(kind)[0] if isinstance(part, int) else get_type_hints(kind)[part]
                kind = get_args(kind)[0] if type(None) in get_args(kind) else kind  # location of an optional value
            keys = ", ".join(field.name for field in fields(kind))
            return f"Unknown key {loc[-1]!r:.80} in {_place(content, loc[:-1], what)}; expected {keys}."
        case "missing":
            return f"Expected {_place(content, loc, what)}, which is missing."
        case "literal_error":
            rule = f"among {fault['ctx']['expected']}"
        case other:
            rule = _RULES.get(other) or f"otherwise ({fault['msg']})"
    return f"Expected {_place(content, loc, what)} {rule}; got {_shown(fault['input'])}."


def _shown(value: Any) -> str:
    """Returns a value as the file writes it: a list without Python's quotes and brackets."""
    return f"{', '.join(map(str, value)):.80}" if isinstance(value, list) and value else f"{value!r:.80}"


def _place(content: Any, loc: list[str | int], what: str) -> str:
    """Returns a place such as columns[3].bounds of 'age', counted from 1."""
    parts = [f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in loc]
    column = content["columns"][loc[1]] if loc[1:] and loc[0] == "columns" else None
    name = f" of {column['name']!r:.80}" if isinstance(column, dict) and "name" in column else ""
    return ("".join(parts).removeprefix(".") or what) + name
