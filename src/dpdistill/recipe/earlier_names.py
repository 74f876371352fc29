"""Earlier names of recipe fields: accepted when a file or text is read, never written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpdistill.errors import DataError

EARLIER_NAMES: dict[str, dict[str, str]] = {
    "dos": {"auxiliary": "public_images"},
    "PublicImages": {"word": "declared_by"},
}
"""Earlier and current field names, by the name of the method or the kind of the part."""
_CHANGED = "caller changed "
"""Text of a recipe's origin that precedes the changed fields."""


def current_name(owner: object, name: str) -> str:
    """Returns the current name of a field of a method or of a part.

    Args:
        owner: the method's name or the part's kind.
        name: name of the field, current or earlier.
    """
    return _names(owner).get(name, name)


def current_fields(owner: object, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of a method or of a part with their current names.

    Raises:
        DataError: a field that is stated under both of its names.
    """
    names = _names(owner)
    for earlier, name in names.items():
        if earlier in fields and name in fields:
            raise DataError(
                f"Expected the field {name!r} once; got it also under its earlier name {earlier!r}: leave one out."
            )
    return {names.get(name, name): value for name, value in fields.items()}


def current_recipe(recipe: dict[str, Any]) -> dict[str, Any]:
    """Returns a saved recipe with the current names of all fields, as this version would have written it.

    A value that is no valid recipe, such as one from an untrusted file, is returned unchanged.
    """
    if not isinstance(recipe, dict):  # JSON of an untrusted file
        return recipe
    names, fields, changed = _names(recipe.get("method")), recipe.get("fields"), recipe.get("changed")
    origin: object = recipe.get("origin")
    if not isinstance(fields, dict):
        return recipe
    try:
        found = {**recipe, "fields": {n: _parts(v) for n, v in current_fields(recipe.get("method"), fields).items()}}
    except DataError:
        return recipe
    if isinstance(changed, list) and isinstance(origin, str) and all(isinstance(name, str) for name in changed):
        before: list[str] = changed
        now = [names.get(name, name) for name in before]
        found["changed"], listed = now, _CHANGED + ", ".join(before)
        if changed and origin.endswith(listed):
            found["origin"] = origin.removesuffix(listed) + _CHANGED + ", ".join(now)
    return found


def first_fields(owner: object, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields with their earliest names, for a hash that must stay equal in every version."""
    first = {name: earlier for earlier, name in _names(owner).items()}
    return {first.get(name, name): value for name, value in fields.items()}


def _names(owner: object) -> dict[str, str]:
    return EARLIER_NAMES.get(owner, {}) if isinstance(owner, str) else {}


def _parts(value: Any) -> Any:
    """Returns a field's JSON value with the current names of the fields of all parts."""
    if isinstance(value, list):
        return [_parts(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _parts(item) for name, item in current_fields(value.get("kind"), value).items()}
