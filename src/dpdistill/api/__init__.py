"""One public function a verb: the same road as the command line."""

from dpdistill.api.options import Account, BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.api.run import Plan, distill, distill_without_privacy, finish_again, plan

__all__ = [
    "Account",
    "BudgetChoice",
    "Machine",
    "Persons",
    "Plan",
    "Reading",
    "RecipeChoice",
    "distill",
    "distill_without_privacy",
    "finish_again",
    "plan",
]
