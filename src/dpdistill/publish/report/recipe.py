"""Returns the recipe, the scores and the list of files as rows of names and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpdistill.publish.report import words
from dpdistill.publish.report.folder import Folder
from dpdistill.publish.report.guarantee import mapping
from dpdistill.recipe.build import fields_of, is_method
from dpdistill.recipe.methods.decoupled_kip import chosen
from dpdistill.recipe.released_accuracy import accuracy_of


def facts(recipe: Mapping[str, Any], counts: Sequence[float] = ()) -> list[tuple[str, Any]]:
    """Returns method, origin and seed, if stated, and the kernel that released counts chose, if any."""
    stated = {"method": "Method", "origin": "Origin of the recipe", "seed": "Public seed"}
    found = [(name, words.plain(recipe[key])) for key, name in stated.items() if recipe.get(key) is not None]
    candidates = mapping(recipe.get("fields")).get("candidates")
    if counts and isinstance(candidates, list) and len(candidates) == len(counts):
        noisy = ", ".join(f"{name} {count:.0f}" for name, count in zip(candidates, counts, strict=True))
        name = candidates[chosen(counts)]
        how = f"{name}: the largest of the released noisy numbers of rightly named records, {noisy}."
        lead = f"That of {candidates[0]} includes a lead of the size of the noise."
        found.append(("Chosen kernel", words.plain(f"{how} {lead}")))
    return found


def accuracy(folder: Folder) -> list[tuple[str, str]]:
    """Returns the released accuracy of all records and of each class in words; empty without one."""
    if folder.accuracy is None:
        return []
    budget = mapping(mapping(folder.certificate.get("schedule")).get("budget"))
    if budget.get("rows_per_unit", 1) != 1:
        return [("all records", WEIGHTED)]
    *classes, together = (accuracy_of(row) for row in folder.accuracy)
    named = zip(folder.schema.classes, classes, strict=True)
    return [(name, str(found or HIDDEN)) for name, found in (("all records", together), *named)]


WEIGHTED = "not stated: of a person with several records, those that the classifier misses count less than the others"
"""Text for the accuracy of a run that protects persons with several records."""
HIDDEN = "hidden by the noise"
"""Text for an accuracy whose interval tells nothing."""
OF_IMAGES = {"architecture"}
"""Fields that do not apply to a table: its generator is always dense."""


def fields(recipe: Mapping[str, Any], table: bool = False) -> list[tuple[str, Any, str, str]]:
    """Returns (name, value, mark, meaning) of each field that applies.

    The mark is "default", "changed", or empty if unknown; the meaning is empty for a method unknown to this version.
    """
    name = recipe.get("method")
    known = fields_of(name) if isinstance(name, str) and is_method(name) else {}
    changed, stated = recipe.get("changed"), mapping(recipe.get("fields"))
    stated = {name: value for name, value in stated.items() if not (table and name in OF_IMAGES)}
    marks = {name: "changed" if name in changed else "default" for name in stated} if isinstance(changed, list) else {}
    meanings = {name: field.metadata["help"] for name, field in known.items()}
    return [(name, value, marks.get(name, ""), meanings.get(name, "")) for name, value in stated.items()]


def references(recipe: Mapping[str, Any]) -> list[Any]:
    """Returns the papers of the method that the recipe lists."""
    listed = recipe.get("references")
    return listed if isinstance(listed, list) else []


def scores(data: Any, name: str = "", depth: int = 0) -> Iterable[tuple[str, str]]:
    """Yields the contents of scores.json as (name, value): mean and std as one value, the names of levels joined."""
    if isinstance(data, Mapping) and {"mean", "std"} <= set(data):
        spread = f" ± {words.plain(data['std'])}" if data["std"] else ""  # std is 0 for a single network
        yield name or "score", words.plain(data["mean"]) + spread
        data = {key: value for key, value in data.items() if key not in ("mean", "std")}
    nested = isinstance(data, list) and any(isinstance(item, Mapping | list) for item in data)
    if depth == words.DEEPEST or not (isinstance(data, Mapping) or nested):
        yield name or "score", words.plain(data)
        return
    for key, value in data.items() if isinstance(data, Mapping) else enumerate(data, 1):
        yield from scores(value, f"{name} / {key}" if name else str(key), depth + 1)
