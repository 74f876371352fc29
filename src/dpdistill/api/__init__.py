"""One public function a verb: the same road as the command line."""

from dpdistill.api.evaluate import HeldOut, Scoring, evaluate
from dpdistill.api.options import Account, BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.api.real_records import Reference
from dpdistill.api.run import Plan, distill, distill_without_privacy, finish_again, plan
from dpdistill.api.scoring import Evaluation, HeldOutImages, Networks, Regression
from dpdistill.api.student import Teaching, student

__all__ = [
    "Account",
    "BudgetChoice",
    "Evaluation",
    "HeldOut",
    "HeldOutImages",
    "Machine",
    "Networks",
    "Persons",
    "Plan",
    "Reading",
    "RecipeChoice",
    "Reference",
    "Regression",
    "Scoring",
    "Teaching",
    "distill",
    "distill_without_privacy",
    "evaluate",
    "finish_again",
    "plan",
    "student",
]
