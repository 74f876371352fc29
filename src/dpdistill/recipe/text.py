"""Reads recipes from text: field=value on the command line, in a suite or in a file."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from dpdistill.public_images.image_source import ImageSource
from dpdistill.recipe.build import from_fields
from dpdistill.recipe.earlier_names import current_fields, current_name
from dpdistill.recipe.fields import Recipe
from dpdistill.recipe.kernel_names import kernel_named
from dpdistill.recipe.kernels import KERNELS, Kernel
from dpdistill.recipe.methods import RECIPES, check_method
from dpdistill.recipe.parts import fields_of_kind
from dpdistill.recipe.rules import WORDS, Rule, rules_of
from dpdistill.schema import DataError


def recipe_from_text(
    method: str, settings: Iterable[str], base: Mapping[str, Any] | None = None, **stated: Any
) -> Recipe:
    """Returns the recipe of a method from settings "field=value".

    Args:
        method: name of the method.
        settings: texts "field=value"; tuples as comma-separated words, empty for none.
        base: fields of another recipe, which the settings override.
        stated: further fields that have their final type; None keeps the default.

    Raises:
        DataError: an unknown method or field, a field that is stated twice, or a value that is not allowed.
    """
    return from_fields(method, {**current_fields(method, base or {}), **fields_from_text(method, settings, **stated)})


def fields_from_text(method: str, settings: Iterable[str], **stated: Any) -> dict[str, Any]:
    """Returns the fields of settings and a caller with their types; `recipe_from_text` checks the values.

    Raises:
        DataError: an unknown method or field, a field that is stated twice, or an unknown kernel.
    """
    check_method(method)
    rules, typed = rules_of(RECIPES[method]), {name: value for name, value in stated.items() if value is not None}
    texts = _split(method, settings, rules, typed)
    return typed | {name: _value(name, text, rules[name]) for name, text in texts.items()}


def fields_from_file(method: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields from YAML with their types: kernels from their short names, tuples from lists.

    Raises:
        DataError: an unknown method or field, or an unknown kernel.
    """
    check_method(method)
    rules, stated = rules_of(RECIPES[method]), current_fields(method, stated)
    for name in stated:
        _check_field(method, name, rules)
    return {
        name: _part(name, value, rules[name])
        if rules[name].kind not in WORDS
        else tuple(value)
        if isinstance(value, list)
        else value
        for name, value in stated.items()
    }


def _check_field(method: str, name: str, rules: Mapping[str, Rule]) -> None:
    """Refuses a field that the method does not have."""
    if name not in rules:
        raise DataError(f"Method {method} has no field {name!r}: it has {', '.join(rules)}.")


def _split(method: str, settings: Iterable[str], rules: Mapping[str, Rule], taken: Container[str]) -> dict[str, str]:
    """Returns the texts of settings by field; the fields in `taken` must not be among them."""
    if "public_images" in taken and "public_images" not in rules:
        raise DataError(f"Method {method} reads no public images: leave --public out.")
    if "per_class" in taken and "per_class" not in rules:
        raise DataError(f"Method {method} stores as many records as --set samples=N says: leave --per-class out.")
    texts: dict[str, str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise DataError(f"Expected --set field=value; got {setting!r}.")
        name = current_name(method, name)
        _check_field(method, name, rules)
        if name in texts or name in taken:
            raise DataError(f"The field {name!r} is set twice.")
        texts[name] = text
    return texts


def _value(name: str, text: str, rule: Rule) -> Any:
    """Returns a field's value from text; an invalid text stays a text, which the recipe refuses."""
    if rule.kind not in WORDS:
        return _part(name, text, rule)
    if rule.kind is tuple:
        return tuple(word for word in text.split(",") if word)
    if rule.kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return rule.one_kind(text)
    except ValueError:
        return text


def _part(field: str, name: Any, rule: Rule) -> Kernel:
    """Returns the kernel of a name, if the field can hold it."""
    if issubclass(rule.one_kind, ImageSource):
        raise DataError(f"The field {field!r} is public images: name them with --public DATA, or leave it out.")
    kernel, wanted = kernel_named(name, field), fields_of_kind(rule.one_kind)
    if not isinstance(kernel, wanted):
        able = (name for name, other in KERNELS.items() if isinstance(other, wanted))
        raise DataError(f"The method cannot use {field}={name}: choose among {', '.join(able)}.")
    return kernel
