"""From a paper's table to the fields of a method."""

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
"""Of all budgets in the papers."""
IPC = "-ipc10"
"""What may be left out at the end of a name."""
MOST_BYTES = 100_000
"""Of a recipe in a file."""
KEYS = ("method", "epsilon", "delta", "fields")


@dataclass(frozen=True)
class Published:
    """A recipe by name.

    Args:
        name: method, data set, budget and records a class, as far as they are stated: "dp-kip-fc-ntk-mnist-eps1-ipc10".
        paper: authors, year and method.
        where: table, and row where the data set does not say it.
        selected: what it was chosen on, where that is known.
        method: its name.
        fields: the recipe fields that the paper states; the others are the package's.
        epsilon: of the budget; None for a run without a guarantee.
        delta: of the budget.
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
        """Returns what a certificate says of it."""
        selected = f"; selected on {self.selected}" if self.selected else ""
        return f"recipe {self.name}: {self.paper}, {self.where}{selected}"

    def recipe(self) -> Recipe:
        """The recipe of the method with these fields."""
        return from_fields(self.method, self.fields)

    def build(self) -> Recipe:
        """The method with these fields."""
        return implement(self.recipe())


def published(name: str) -> Published:
    """The recipe of a paper by its name; "-ipc10" may be left out.

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
    """The whole name of a published recipe, of which "-ipc10" may be left out; None if there is none."""
    return next((name for name in (recipe, f"{recipe}{IPC}") if name in all_published()), None)


def is_file(recipe: str) -> bool:
    """Returns whether a recipe is one in a person's file, or else the name of a published one."""
    return Path(recipe).suffix.lower() in (".yaml", ".yml")


@lru_cache(maxsize=1)
def all_published() -> dict[str, Published]:
    """Every recipe of the papers by its name, in the papers' order."""
    rows = [row for table in _tables() for row in _rows(table)]
    found = {row.name: row for row in rows}
    if len(found) < len(rows):
        raise ValueError("Expected each name of a published recipe once.")
    return found


def notes() -> dict[str, list[str]]:
    """Returns what the package does otherwise than a paper, by the paper."""
    return {one["paper"]: one["notes"] for one in _tables()}


@lru_cache(maxsize=1)
def _tables() -> list[dict[str, Any]]:
    """The papers' files."""
    import yaml  # not needed where no recipe is named

    return [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]


def read_recipe(path: str | os.PathLike) -> Published:
    """A recipe in a person's own file: method, and if stated epsilon, delta and fields.

    Raises:
        DataError: no such file, or one that is no such recipe.
    """
    stated = stated_in(path)
    stated["fields"] = fields_from_file(stated["method"], stated["fields"])
    row = Published(**{"name": Path(path).name, "paper": "", "where": "", "epsilon": None, **stated})
    row.recipe()
    return row


def stated_in(path: str | os.PathLike) -> dict[str, Any]:
    """What a recipe's file states, as it is written: method, fields, and epsilon and delta where they are stated.

    Raises:
        DataError: no such file, or one that states something else.
    """
    import yaml

    name = Path(path).name
    try:
        text = Path(path).read_bytes()
        if len(text) > MOST_BYTES:
            raise DataError(f"Expected a recipe of at most {MOST_BYTES:,} bytes in {name}.")
        stated = yaml.safe_load(text)
    except OSError:
        raise DataError(f"Expected a recipe in {name}: there is no such file that can be read.") from None
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
    """Every row of a paper's file."""
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
    """Epochs and batches of a data set of so many records as rounds and sampling probability.

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
