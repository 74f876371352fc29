"""Turns rows of papers' tables into fields of methods."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpdistill.recipe.build import fields_of, from_fields
from dpdistill.recipe.fields import Recipe
from dpdistill.recipe.parts import implement
from dpdistill.recipe.text import fields_from_file
from dpdistill.schema import DataError

FOLDER = Path(__file__).parent
DELTA = 1e-5
"""Delta of all budgets in the papers."""
IPC = "-ipc10"
"""Ending of a name that may be omitted."""
SHORT = {"auto": "dos-kip-auto-eps1-ipc10", "auto-classifier": "decoupled-kip-auto-eps1-ipc10"}
"""Short names of recipes for data that no recipe is named for."""
MOST_BYTES = 100_000
"""Largest size of a recipe file."""
KEYS = ("method", "epsilon", "delta", "fields")


@dataclass(frozen=True)
class Published:
    """A recipe by name.

    Args:
        name: method, data set, budget and records per class, if stated: "dp-kip-fc-ntk-mnist-eps1-ipc10".
        paper: authors, year and method.
        where: table, and the row if the data set does not identify it.
        selected: data on which the settings were selected, if known.
        method: name of the method.
        fields: the recipe fields that the paper states; other fields have the package's defaults.
        epsilon: epsilon of the budget; None for a run without a guarantee.
        delta: delta of the budget.
    """

    name: str
    paper: str
    where: str
    method: str
    fields: dict[str, Any] = field(hash=False)
    epsilon: float | None
    delta: float = DELTA
    selected: str = ""

    @property
    def origin(self) -> str:
        """Text that a certificate states as the recipe's origin."""
        selected = f"; selected on {self.selected}" if self.selected else ""
        return f"recipe {self.name}: {self.paper}, {self.where}{selected}"

    def recipe(self) -> Recipe:
        """Returns the recipe of the method with these fields."""
        return from_fields(self.method, self.fields)

    def build(self) -> Recipe:
        """Returns the method with these fields."""
        return implement(self.recipe())


def published(name: str) -> Published:
    """Returns the recipe of a paper by name; "-ipc10" may be omitted.

    Raises:
        DataError: no recipe of that name.
    """
    whole = full_name(name)
    if whole is None:
        raise DataError(
            f"Expected a recipe's name, as `dpdistill methods --recipes` lists them, or a .yaml file; got {name!r}."
        )
    return all_published()[whole]


def full_name(recipe: str) -> str | None:
    """Returns the full name of a published recipe, which may be stated shorter; None for an unknown name."""
    return next((name for name in (SHORT.get(recipe, recipe), f"{recipe}{IPC}") if name in all_published()), None)


def is_file(recipe: str) -> bool:
    """Returns whether a text names a user's recipe file instead of a published recipe."""
    return Path(recipe).suffix.lower() in (".yaml", ".yml")


@lru_cache(maxsize=1)
def all_published() -> dict[str, Published]:
    """Returns every recipe of the papers by name, in the papers' order."""
    rows = [row for table in _tables() for row in _rows(table)]
    result = {row.name: row for row in rows}
    if len(result) < len(rows):
        raise ValueError("Expected each name of a published recipe once.")
    return result


def notes() -> dict[str, list[str]]:
    """Returns the package's deviations from each paper."""
    return {one["paper"]: one["notes"] for one in _tables()}


@lru_cache(maxsize=1)
def _tables() -> list[dict[str, Any]]:
    """Reads the papers' files."""
    import yaml  # imported here because most runs name no recipe

    return [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]


def read_recipe(path: str | os.PathLike) -> Published:
    """Reads a user's recipe file: method, and optionally epsilon, delta and fields.

    Raises:
        DataError: no such file, or a file that is no such recipe.
    """
    stated = stated_in(path)
    stated["fields"] = fields_from_file(stated["method"], stated["fields"])
    row = Published(**{"name": Path(path).name, "paper": "", "where": "", "epsilon": None, **stated})
    row.recipe()
    return row


def stated_in(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the statements of a recipe file unchanged: method, fields, and epsilon and delta if stated.

    Raises:
        DataError: no such file, or other contents.
    """
    import yaml

    name = Path(path).name
    try:
        text = Path(path).read_bytes()
        if len(text) > MOST_BYTES:
            raise DataError(f"Expected a recipe of at most {MOST_BYTES:,} bytes in {name}.")
        stated = yaml.safe_load(text)
    except OSError:
        raise DataError(f"Expected a recipe in {name}: the file does not exist or cannot be read.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise DataError(f"Expected YAML in {name}: method, and epsilon, delta and fields if they are stated.") from None
    if not isinstance(stated, dict) or not isinstance(stated.get("method"), str):
        raise DataError(f"Expected method: NAME in {name}.")
    if unknown := [key for key in stated if key not in KEYS]:
        raise DataError(f"Expected {', '.join(KEYS)} in {name}; got {unknown[0]!r}.")
    fields = stated.get("fields") or {}
    if not isinstance(fields, dict):
        raise DataError(f"Expected fields: a name and a value each in {name}.")
    numbers = {key: stated.get(key) for key in ("epsilon", "delta")}
    for key, value in numbers.items():
        if value is not None and type(value) not in (int, float):
            raise DataError(f"Expected {key} as a number in {name}; got {value!r}.")
    budget = {key: value for key, value in numbers.items() if value is not None}
    return {"method": stated["method"], "fields": fields, **budget}


def _rows(table: dict[str, Any]) -> Iterator[Published]:
    """Yields every row of a paper's file."""
    for family in table["families"]:
        columns, epsilon = family["columns"], family.get("epsilon")
        for data, rows in family["rows"].items():
            for row in rows:
                stated = {**(family.get("fields") or {}), **dict(zip(columns, row, strict=True))}
                name = family["name"].format(data=data, **stated)
                budget = stated.pop("epsilon", epsilon)
                fields = _of_batches(stated, table.get("records", {}).get(data))
                if data in table.get("strategies", {}) and "strategies" in fields_of(family["method"]):
                    fields["strategies"] = table["strategies"][data]
                typed = fields_from_file(family["method"], fields)
                paper, selected = family.get("paper", table["paper"]), family.get("selected", "")
                yield Published(name, paper, family["where"], family["method"], typed, budget, selected=selected)


def _of_batches(stated: dict[str, Any], records: int | None) -> dict[str, Any]:
    """Converts epochs and batch size for a given number of records to rounds and sampling probability.

    sampling_prob = batch / records,    rounds = epochs / sampling_prob, rounded up
    """
    fields = {key: value for key, value in stated.items() if key not in ("epochs", "batch_fraction", "subsampling")}
    share = stated.get("batch_fraction")
    if records is not None and "batch" in fields:
        share = fields.pop("batch") / records
    if share is not None:
        fields["sampling_prob"] = share
        if "epochs" in stated:
            fields["rounds"] = math.ceil(stated["epochs"] / share - 1e-9)
    return fields
