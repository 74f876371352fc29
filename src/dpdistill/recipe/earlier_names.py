"""Names that fields of recipes had in earlier versions: accepted when something is read, never written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpdistill.errors import DataError

EARLIER_NAMES: dict[str, dict[str, str]] = {
    "dos": {"auxiliary": "public_images"},
    "PublicImages": {"word": "declared_by"},
}
"""The earlier and the current names of the fields of a method, by its name, or of a part, by its kind."""
_CHANGED = "caller changed "
"""How the origin of a recipe begins to list fields."""


def current_name(owner: object, name: str) -> str:
    """Returns the current name of a field of a method or of a part.

    Args:
        owner: the method's name or the part's kind.
        name: of the field, current or earlier.
    """
    return _names(owner).get(name, name)


def current_fields(owner: object, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of a method or of a part by their current names.

    Raises:
        DataError: a field that is stated by both of its names.
    """
    names = _names(owner)
    for earlier, name in names.items():
        if earlier in fields and name in fields:
            raise DataError(f"Expected the field {name!r} once; got it as {earlier!r}, its earlier name, too.")
    return {names.get(name, name): value for name, value in fields.items()}


def current_recipe(recipe: dict[str, Any]) -> dict[str, Any]:
    """Returns a saved recipe with the current names of all fields, as this version would have written it.

    A recipe that is not one, such as a stranger's, is returned as it is.
    """
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
    """Returns fields by the earliest names that they had: for a hash that has to stay the same in every version."""
    first = {name: earlier for earlier, name in _names(owner).items()}
    return {first.get(name, name): value for name, value in fields.items()}


def _names(owner: object) -> dict[str, str]:
    return EARLIER_NAMES.get(owner, {}) if isinstance(owner, str) else {}


def _parts(value: Any) -> Any:
    """A field's value as JSON has it, with the current names of the fields of all parts."""
    if isinstance(value, list):
        return [_parts(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _parts(item) for name, item in current_fields(value.get("kind"), value).items()}
