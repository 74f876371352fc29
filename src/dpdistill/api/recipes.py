"""Methods from recipes as people write them, field=value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpdistill.ledger.run import RunLedger
from dpdistill.method import Method
from dpdistill.recipe.parts import implement
from dpdistill.recipe.text import recipe_from_text


def build(name: str, settings: Iterable[str], base: Mapping[str, Any] | None = None, **named: Any) -> Method:
    """Returns a method from "field=value" settings.

    Args:
        name: of the method.
        settings: texts "field=value"; tuples as comma-separated words, empty for none.
        base: fields of a recipe, which the settings override.
        named: further fields that have a type already; None leaves the default.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
    """
    return implement(recipe_from_text(name, settings, base, **named), Method)


def build_again(run_dir: str | os.PathLike, name: str | None, settings: Iterable[str], **named: Any) -> Method:
    """Returns the method of a run with other settings: what is not named stays as the run had it.

    Args:
        run_dir: the owner's folder of the run.
        name: of the method; None for the run's.
        settings: texts "field=value".
        named: further fields that have a type already; None leaves them out.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
        LedgerError: there is no run in the folder.
    """
    recipe = RunLedger.read(Path(run_dir)).recipe
    name = name or recipe["method"]
    kept = recipe["fields"] if name == recipe["method"] else {}
    return build(name, settings, kept, **named)
