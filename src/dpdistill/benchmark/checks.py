"""Refuses invalid runs of a suite before the first run begins."""

from __future__ import annotations

from pathlib import Path

from dpdistill.benchmark.scoring import Student
from dpdistill.benchmark.suite import REAL, Run, Suite
from dpdistill.recipe.kernels import KERNELS, FeatureKernel
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.methods.generator_method import GeneratorRecipe
from dpdistill.recipe.names import kinds_of
from dpdistill.schema import DataError
from dpdistill.storage.files import show


def check_runs(path: Path, suite: Suite) -> list[Run]:
    """Returns the runs of a suite in order, after building each.

    Args:
        path: the suite's file.
        suite: content of the file.

    Raises:
        DataError: invalid runs.
    """
    runs = list(suite.all_runs())
    try:
        _check(runs)
    except (ValueError, TypeError) as error:
        raise DataError(f"{show(path)}: {error}") from None
    return runs


def _check(runs: list[Run]) -> None:
    names: dict[str, Run] = {}
    for run in runs:
        if run.method != REAL:
            run.build()
        private = run.method != REAL and RECIPES[run.method].private
        if private != (run.epsilon is not None):
            raise DataError(f"Expected {run.label!r} {'with' if private else 'without'} epsilon, as its method is.")
        if run.method == REAL and not run.source.schema:
            raise DataError(f"Expected {run.label!r} on tables alone; {run.source.name!r} holds images.")
        if run.score.mode == "paper" and not 0.0 < run.source.test_share < 1.0:
            raise DataError(
                f"Expected {run.label!r} on data sets with 0 < test_share < 1: in mode paper all records of "
                f"{run.source.name!r} are split anew."
            )
        if run.score.student is not None:
            _check_student(run, run.score.student)
        if run.public is not None and not getattr(run.build(), "subspace", 0):
            raise DataError(f"Expected {run.label!r} with a subspace: nothing else reads public images.")
        if run.public is not None and run.public.train == run.source.train:
            raise DataError(f"Expected {run.label!r} with other public images than the private ones of the run.")
        _ = run.budget  # the property refuses invalid budgets
        if (other := names.setdefault(run.name, run)) is not run:
            raise DataError(f"{run.label!r} on {run.source.name!r} is the same run as {other.label!r}: name it once.")


def _check_student(run: Run, how: Student) -> None:
    """Refuses a teacher or images that the method does not provide."""
    if run.source.schema:
        raise DataError(f"Expected {run.label!r} without a student: it learns from pictures, and tables have none.")
    method = run.build()
    if how.taught_by == "classifier" and not hasattr(method, "classifier"):
        raise DataError(f"{run.label!r} has a student of a classifier, and {run.method} releases none: use krr.")
    if how.taught_by == "krr" and not isinstance(getattr(method, "kernel", KERNELS["scatternet"]), FeatureKernel):
        raise DataError(f"{run.label!r} has a student of krr, and its kernel has no features.")
    generates = isinstance(method, GeneratorRecipe) or getattr(method, "generator_steps", 0) > 0
    if "generated" in kinds_of(how.pictures) and not generates:
        raise DataError(f"{run.label!r} has a student of generated pictures, and no generator: set generator_steps.")
