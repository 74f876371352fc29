"""The recipe, the scores and the list of files, as rows of names and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpdistill.report import words
from dpdistill.report.guarantee import mapping


def facts(recipe: Mapping[str, Any], certificate: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Method, origin, seed and public data, as far as they are stated."""
    rows = [
        ("Method", recipe.get("method")),
        ("Origin of the recipe", recipe.get("origin", certificate.get("origin"))),
        ("Public seed", recipe.get("seed", certificate.get("public_seed"))),
        ("Public data", _public(certificate.get("public_data"))),
    ]
    return [(name, words.plain(value)) for name, value in rows if value is not None]


def _public(data: Any) -> str:
    if not isinstance(data, list) or not data:
        return "none"
    named = [item if isinstance(item, Mapping) else {"statement": item} for item in data]
    return "; ".join(
        f"{words.plain(item.get('statement'))} (SHA-256 {words.plain(item.get('sha256', 'not stated'))})"
        for item in named
    )


def fields(recipe: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """(name, value, mark) of each field; the mark is "default", "changed" with the default, or empty if unknown."""
    defaults, changed = mapping(recipe.get("defaults")), recipe.get("changed")
    listed = changed if isinstance(changed, list) else []

    def mark(name: str, value: Any) -> str:
        if name in defaults:
            return "default" if defaults[name] == value else f"changed (default {words.plain(defaults[name])})"
        if not defaults and not isinstance(changed, list):
            return ""
        return "changed" if name in listed else "default"

    return [(name, value, mark(name, value)) for name, value in mapping(recipe.get("fields")).items()]


def references(recipe: Mapping[str, Any]) -> list[Any]:
    """The papers of the method, as the recipe lists them."""
    listed = recipe.get("references")
    return listed if isinstance(listed, list) else []


def scores(data: Any, name: str = "", depth: int = 0) -> Iterable[tuple[str, str]]:
    """Whatever scores.json holds as (name, value): mean and std as one value, the names of levels joined."""
    if isinstance(data, Mapping) and {"mean", "std"} <= set(data):
        yield name or "score", f"{words.plain(data['mean'])} ± {words.plain(data['std'])}"
        data = {key: value for key, value in data.items() if key not in ("mean", "std")}
    nested = isinstance(data, list) and any(isinstance(item, Mapping | list) for item in data)
    if depth == words.DEEPEST or not (isinstance(data, Mapping) or nested):
        yield name or "score", words.plain(data)
        return
    for key, value in data.items() if isinstance(data, Mapping) else enumerate(data, 1):
        yield from scores(value, f"{name} / {key}" if name else str(key), depth + 1)
