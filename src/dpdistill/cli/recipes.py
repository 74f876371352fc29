"""Recipes as a person writes them, field=value, and the kernels of kernel ridge regression."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpdistill.evaluation.teacher import Teacher
from dpdistill.folder.layout import CLASSIFIER, RECIPE, read_object
from dpdistill.kernels import KERNELS, Kernel
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Distilled, Method
from dpdistill.recipe.build import kernel_named, kernel_of, shown
from dpdistill.recipe.parts import implement
from dpdistill.recipe.published import is_file, published, read_recipe
from dpdistill.recipe.text import recipe_from_text
from dpdistill.schema import DataError, Schema

RIDGE = 1e-3
"""Of kernel ridge regression on a set whose recipe states none."""


def build(name: str, settings: Iterable[str], base: Mapping[str, Any] | None = None, **named: Any) -> Method:
    """A method from "field=value" settings.

    Args:
        name: of the method.
        settings: texts "field=value"; tuples as comma-separated words, empty for none.
        base: fields of a recipe, which the settings override.
        named: further fields that have a type already; None leaves the default.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
    """
    return implement(recipe_from_text(name, settings, base, **named), Method)


def build_again(run_dir: str, name: str | None, settings: Iterable[str], **named: Any) -> Method:
    """The method of a run, with other settings: what is not named stays as the run had it.

    Args:
        run_dir: the owner's folder of the run.
        name: of the method; None for the run's.
        settings: texts "field=value".
        named: further fields that have a type already; None leaves them out.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
        LedgerError: there is no run in the folder.
    """
    recipe = RunLedger.read(run_dir).recipe
    name = name or recipe["method"]
    kept = recipe["fields"] if name == recipe["method"] else {}
    return build(name, settings, kept, **named)


def published_fields(recipe: str) -> dict[str, Any]:
    """The fields of a published recipe, by its name, or of one in a .yaml file."""
    return (read_recipe(recipe) if is_file(recipe) else published(recipe)).fields


def _fields_in(folder: str) -> dict[str, Any]:
    """Fields of the recipe in a folder; none where there is no recipe."""
    path = Path(folder) / RECIPE
    if not path.exists():
        return {}
    try:
        return dict(read_object(path)["fields"])
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path} is not a recipe that can be read.") from None


def softness_in(folder: str) -> float:
    """Softness of the labels in the recipe of a folder; 0 where it has none.

    Raises:
        DataError: a recipe that cannot be read, or a softness that is none.
    """
    softness = _fields_in(folder).get("softness", 0.0)
    if type(softness) not in (int, float) or not 0 <= softness < math.inf:
        raise DataError(f"The softness in {Path(folder) / RECIPE} cannot be used: {softness!r}.")
    return softness


def kernel_in(folder: str) -> tuple[Kernel, float] | None:
    """Kernel and ridge of the recipe in a folder; None where there is no recipe, or it names no kernel.

    Raises:
        DataError: a recipe that cannot be read, or an unknown kernel.
    """
    fields = _fields_in(folder)
    if "kernel" not in fields:
        return None
    try:
        return implement(kernel_of(fields["kernel"]), Kernel), fields.get("ridge", RIDGE)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f"The kernel in {Path(folder) / RECIPE} cannot be used: {error}") from None


def teacher_in(folder: str, distilled: Distilled) -> Teacher | None:
    """The released classifier in a folder, on the features of its recipe's kernel; None where there is none.

    Raises:
        DataError: a classifier without a kernel in the recipe, or one that does not fit it.
    """
    if distilled.classifier is None:
        return None
    recipe = kernel_in(folder)
    if recipe is None:
        raise DataError(f"Expected the kernel of {CLASSIFIER} in the recipe of {folder}; it names none.")
    assert isinstance(distilled.schema, Schema)
    return Teacher(distilled.classifier, recipe[0], distilled.schema)


def regressions(
    names: Iterable[str], ridge: float | None, recipe: tuple[Kernel, float] | None
) -> dict[str, tuple[Kernel, float]]:
    """Kernels and ridges of the regressions on a synthetic set, by their short names.

    Args:
        names: of the kernels; none for the recipe's, or scatternet where it has none.
        ridge: of all of them; None for the recipe's with the recipe's kernel, and RIDGE with others.
        recipe: what `kernel_in` found.

    Raises:
        DataError: an unknown name.
    """
    kernel, own = recipe or (KERNELS["scatternet"], RIDGE)
    kernels = [implement(kernel_named(name), Kernel) for name in names] or [kernel]
    return {shown(k): (k, ridge if ridge is not None else own if k == kernel else RIDGE) for k in kernels}
