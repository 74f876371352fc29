"""Imports methods from outside the package, named FILE.py:NAME or MODULE:NAME."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.options import RecipeChoice
from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.method import Method
    from dpdistill.storage.records import Records


def is_own(name: str | None) -> bool:
    """Returns whether a text names a method outside the package."""
    return name is not None and ":" in name


def own_method(choice: RecipeChoice) -> Method | Callable[[Records], Method]:
    """Imports a method, or a function from records to a method.

    Args:
        choice: `method` names a method class, a method or a function, as FILE.py:NAME or MODULE:NAME;
            `settings` and `per_class` require a class.

    Raises:
        DataError: an unknown name, an object of another kind, or options that do not fit the object.
    """
    name = choice.method or ""
    if choice.recipe or choice.public:
        raise DataError(f"Expected no --recipe and no --public with {name}: they are for the package's methods.")
    found: Any = _imported(name)
    from dpdistill.api.recipes import build
    from dpdistill.method import Method
    from dpdistill.recipe.methods import RECIPES, listed
    from dpdistill.recipe.parts import code_of

    if isinstance(found, type) and issubclass(found, Method):
        if found.name in RECIPES and code_of(RECIPES[found.name]) is not found:
            raise DataError(f"Expected a new name for {name}: {found.name!r} is a method of the package.")
        with listed(found):
            return build(found.name, choice.settings, per_class=choice.per_class)
    if choice.settings or choice.per_class is not None:
        raise DataError(f"Expected no --set with {name}: only a method class has settings.")
    if not isinstance(found, Method) and not callable(found):
        raise DataError(f"Expected {name} to be a method class, a method, or a function of records.")
    made: Any = found  # what a function makes is checked when it is called
    return made


def _imported(name: str) -> object:
    where, _, what = name.rpartition(":")
    folder, module = (str(Path(where).resolve().parent), Path(where).stem) if where.endswith(".py") else (".", where)
    sys.path.insert(0, str(Path(folder).resolve()))
    try:
        return pkgutil.resolve_name(f"{module}:{what}")
    except (ImportError, AttributeError, ValueError) as error:
        raise DataError(
            f"Expected --method FILE.py:NAME or MODULE:NAME; {name!r} cannot be imported: {error}"
        ) from None
