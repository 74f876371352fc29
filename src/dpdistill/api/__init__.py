"""One public function a verb: the same road as the command line."""

from dpdistill.api.attack_options import ModelSearch, TrainingSearch, VictimTraining
from dpdistill.api.attacks import attack_model, attack_training
from dpdistill.api.audit_options import MemberReading
from dpdistill.api.audits import audit, audit_method, audit_run, audit_shadows
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
    "MemberReading",
    "ModelSearch",
    "Networks",
    "Persons",
    "Plan",
    "Reading",
    "RecipeChoice",
    "Reference",
    "Regression",
    "Scoring",
    "Teaching",
    "TrainingSearch",
    "VictimTraining",
    "attack_model",
    "attack_training",
    "audit",
    "audit_method",
    "audit_run",
    "audit_shadows",
    "distill",
    "distill_without_privacy",
    "evaluate",
    "finish_again",
    "plan",
    "student",
]
