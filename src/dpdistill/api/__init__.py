"""One public function a verb: the same road as the command line."""

from dpdistill.api.attack_options import ModelSearch, TrainingSearch, VictimTraining
from dpdistill.api.attacks import attack_model, attack_training
from dpdistill.api.audit_options import MemberReading
from dpdistill.api.audits import audit, audit_method, audit_run, audit_shadows
from dpdistill.api.options import Account, BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.api.run import Plan, distill, distill_without_privacy, finish_again, plan

__all__ = [
    "Account",
    "BudgetChoice",
    "Machine",
    "MemberReading",
    "ModelSearch",
    "Persons",
    "Plan",
    "Reading",
    "RecipeChoice",
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
    "finish_again",
    "plan",
]
