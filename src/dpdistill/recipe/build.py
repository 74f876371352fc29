"""Builds recipes from the contents of files and from callers; no other class is ever built from a file."""

from __future__ import annotations

import dataclasses
from typing import Any

from dpdistill.public_images.image_source import Drawn, PublicImages
from dpdistill.recipe.earlier_names import current_fields
from dpdistill.recipe.encoders import ENCODERS, SideBySide
from dpdistill.recipe.fields import Recipe
from dpdistill.recipe.kernel_names import name_of_kernel
from dpdistill.recipe.kernels import FCNTK, KERNELS, FeatureKernel, Kernel
from dpdistill.recipe.methods import RECIPES, check_method
from dpdistill.schema import DataError


def _parts(value: object) -> dict[str, Any]:
    """Returns a dataclass and the dataclasses in its fields, by class name."""
    if not dataclasses.is_dataclass(value):
        return {}
    parts = {type(value).__name__: value}
    for field in dataclasses.fields(value):
        parts |= _parts(getattr(value, field.name))
    return parts


PUBLIC_IMAGES = (Drawn(), PublicImages("", 2))
PUBLIC_ENCODERS = [FeatureKernel(SideBySide(encoder, encoder)) for encoder in ENCODERS.values()]
KINDS = {
    name: part
    for value in (*PUBLIC_ENCODERS, *KERNELS.values(), *PUBLIC_IMAGES)
    for name, part in _parts(value).items()
}
"""Kinds that a saved recipe may name (kernels, their parts, public images), each with an example."""


def is_method(name: object) -> bool:
    """Returns whether a value is the name of a method."""
    return isinstance(name, str) and name in RECIPES


def fields_of(name: str) -> dict[str, dataclasses.Field]:
    """Returns the recipe fields of a method by name.

    Raises:
        DataError: an unknown method.
    """
    check_method(name)
    return {field.name: field for field in dataclasses.fields(RECIPES[name])}


def shown(value: object) -> str:
    """Returns a field's value as command-line text: a kernel by its short name, a tuple with commas."""
    if _is_dataclass(value):
        return (name_of_kernel(value) if isinstance(value, Kernel) else None) or repr(value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _is_dataclass(value: object) -> bool:
    """Returns whether a value is a kernel, a part of a kernel, or public images, the only dataclasses of recipes."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def from_fields(name: str, values: dict[str, Any]) -> Recipe:
    """Returns the recipe of a method from its fields, as saved or as parts (`implement` turns it into the method).

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
    """
    fields = fields_of(name)
    try:
        values = current_fields(name, values)
        if unknown := set(values) - set(fields):
            raise DataError(f"Method {name} has no field {', '.join(sorted(map(repr, unknown)))}.")
        values = {field: _part(field, fields[field].default, value) for field, value in values.items()}
        recipe = RECIPES[name](**values)
        recipe.plan()
    except (ValueError, TypeError) as error:
        raise DataError(str(error)) from None
    except (OverflowError, MemoryError, RecursionError):
        raise DataError(f"A field of method {name} is too large.") from None
    return recipe


def from_json(value: Any) -> Any:
    """Returns a field's value from the output of `to_json`: lists as tuples, {"kind": name, ...} as that dataclass.

    Raises:
        DataError: an unknown kind, or a field that the kind does not have.
        ValueError, TypeError: a field's value that the kind refuses.
    """
    if isinstance(value, list | tuple):
        return tuple(from_json(item) for item in value)
    if not isinstance(value, dict):
        return value
    example = KINDS.get(str(value.get("kind")))
    if example is None:
        raise DataError(f"Unknown kind {value.get('kind')!r}: expected one of {', '.join(KINDS)}.")
    fields = current_fields(value["kind"], {name: item for name, item in value.items() if name != "kind"})
    known = {field.name: field for field in dataclasses.fields(example) if field.compare}
    unknown = set(fields) - set(known)
    if unknown:
        raise DataError(f"{type(example).__name__} has no field {', '.join(sorted(map(repr, unknown)))}.")
    optional = {name for name, field in known.items() if field.default is None}
    return type(example)(
        **{
            name: from_json(item) if name in optional else _part(name, getattr(example, name), item)
            for name, item in fields.items()
        }
    )


def _part(field: str, example: Any, value: Any) -> Any:
    """Returns a field's value from JSON: a dataclass if the example is one."""
    value = value if _is_dataclass(value) else from_json(value)
    if _is_dataclass(example) != _is_dataclass(value):
        raise DataError(f"Expected another kind of {field}; got {shown(value)}.")
    return value


def kernel_of(value: Any) -> Kernel:
    """Returns a kernel from its JSON in a saved recipe.

    Raises:
        DataError, ValueError, TypeError: as `from_json`, or the value is no kernel.
    """
    return _part("kernel", FCNTK(), value)
