"""The driver: plan, schedule, ask / release / tell, finish; checkpoints, and the shared folder."""

from dpdistill.run.driver import Result, distill, distill_without_privacy, finish_again, run_rounds
from dpdistill.run.recipe import check_private, recipe_of
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
