"""Builds methods from recipes as people write them, field=value."""

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
        name: name of the method.
        settings: texts "field=value"; tuples as comma-separated words, an empty text for none.
        base: recipe fields that the settings override.
        named: further typed fields; None keeps the default.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
    """
    return implement(recipe_from_text(name, settings, base, **named), Method)


def build_again(run_dir: str | os.PathLike, name: str | None, settings: Iterable[str], **named: Any) -> Method:
    """Returns the method of a run with changed settings; other fields keep the run's values.

    Args:
        run_dir: the owner's folder of the run.
        name: name of the method; None for the run's.
        settings: texts "field=value".
        named: further typed fields; None keeps the run's value.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
        LedgerError: there is no run in the folder.
    """
    recipe = RunLedger.read(Path(run_dir)).recipe
    name = name or recipe["method"]
    kept = recipe["fields"] if name == recipe["method"] else {}
    return build(name, settings, kept, **named)
