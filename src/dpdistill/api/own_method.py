"""Methods that are not of the package: by FILE.py:NAME, or MODULE:NAME."""

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
    """Returns whether a text names a method outside of the package."""
    return name is not None and ":" in name


def own_method(choice: RecipeChoice) -> Method | Callable[[Records], Method]:
    """Imports a method, or a function of records that makes one.

    Args:
        choice: its `method` names a class of methods, a method or a function, as FILE.py:NAME or MODULE:NAME;
            `settings` and `per_class` are for a class alone.

    Raises:
        DataError: nothing of that name, an object of another kind, or a choice that does not fit it.
    """
    name = choice.method or ""
    if choice.recipe or choice.public:
        raise DataError(f"Expected no --recipe and no --public with {name}: it is no method of the package.")
    found: Any = _imported(name)
    from dpdistill.api.recipes import build
    from dpdistill.method import Method
    from dpdistill.recipe.methods import RECIPES, listed
    from dpdistill.recipe.parts import code_of

    if isinstance(found, type) and issubclass(found, Method):
        if found.name in RECIPES and code_of(RECIPES[found.name]) is not found:
            raise DataError(f"Expected another name of {name}: {found.name!r} is a method of the package.")
        with listed(found):
            return build(found.name, choice.settings, per_class=choice.per_class)
    if choice.settings or choice.per_class is not None:
        raise DataError(f"Expected no --set with {name}: it is no class of methods.")
    if not isinstance(found, Method) and not callable(found):
        raise DataError(f"Expected {name} to be a class of methods, a method, or a function of records.")
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
