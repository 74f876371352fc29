"""The driver: plan, schedule, ask / release / tell, finish; checkpoints, and the shared folder."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpdistill.recipe.saved import check_private, recipe_of
    from dpdistill.run.driver import distill, distill_without_privacy, finish_again, run_rounds
    from dpdistill.run.result import Result
    from dpdistill.run.start import check_ledger

__all__ = [
    "Result",
    "check_ledger",
    "check_private",
    "distill",
    "distill_without_privacy",
    "finish_again",
    "recipe_of",
    "run_rounds",
]


def __getattr__(name: str) -> Any:
    # The driver imports JAX; refusing an output folder does not need it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dpdistill.recipe import saved
    from dpdistill.run import driver, start

    return next(getattr(module, name) for module in (driver, saved, start) if hasattr(module, name))
