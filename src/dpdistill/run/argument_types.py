"""Refuses arguments of a wrong type, and names the expected ones."""

from __future__ import annotations

from dpdistill.accounting.schedule import Budget
from dpdistill.method import Method
from dpdistill.recipe.fields import Recipe
from dpdistill.recipe.methods import default_recipe
from dpdistill.recipe.parts import implement
from dpdistill.storage.records import Records


def check_given(records: object, method: object, budget: object = None) -> None:
    """Refuses an argument of another type, and names the expected one.

    Raises:
        TypeError: an argument of another type.
    """
    if not isinstance(records, Records):
        raise TypeError(f"Expected records from load(...) or Records.from_arrays(X, y, ...); got {_kind(records)}.")
    if method is not None and (isinstance(method, type) or not callable(getattr(method, "plan", None))):
        raise TypeError(f"Expected a method with its fields, such as DOS(per_class=10); got {_kind(method)}.")
    if not isinstance(budget, Budget | None):
        raise TypeError(f"Expected a budget such as Budget(epsilon=1.0), or None; got {_kind(budget)}.")


def _kind(given: object) -> str:
    return (
        f"the class {given.__name__}" if isinstance(given, type) else f"{type(given).__module__}.{type(given).__name__}"
    )


def method_for(records: Records, method: Recipe | None) -> Method:
    """Returns the caller's method, also from its recipe, or the default for the kind of records."""
    return implement(default_recipe(records.schema) if method is None else method, Method)
