"""dpdistill: private labelled data to a tiny synthetic set that may be shared, under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget as Budget
    from dpdistill.api.attack_options import ModelSearch as ModelSearch
    from dpdistill.api.attack_options import TrainingSearch as TrainingSearch
    from dpdistill.api.attack_options import VictimTraining as VictimTraining
    from dpdistill.api.attacks import attack_model as attack_model
    from dpdistill.api.attacks import attack_training as attack_training
    from dpdistill.api.audit_options import MemberReading as MemberReading
    from dpdistill.api.audits import audit as audit
    from dpdistill.api.audits import audit_method as audit_method
    from dpdistill.api.audits import audit_run as audit_run
    from dpdistill.api.audits import audit_shadows as audit_shadows
    from dpdistill.api.evaluate import HeldOut as HeldOut
    from dpdistill.api.evaluate import Scoring as Scoring
    from dpdistill.api.evaluate import evaluate as evaluate
    from dpdistill.api.options import BudgetChoice as BudgetChoice
    from dpdistill.api.options import Machine as Machine
    from dpdistill.api.options import Persons as Persons
    from dpdistill.api.options import Reading as Reading
    from dpdistill.api.options import RecipeChoice as RecipeChoice
    from dpdistill.api.real_records import Reference as Reference
    from dpdistill.api.run import Plan as Plan
    from dpdistill.api.run import distill as distill
    from dpdistill.api.run import distill_without_privacy as distill_without_privacy
    from dpdistill.api.run import finish_again as finish_again
    from dpdistill.api.run import plan as plan
    from dpdistill.api.scoring import Evaluation as Evaluation
    from dpdistill.api.scoring import HeldOutImages as HeldOutImages
    from dpdistill.api.scoring import Networks as Networks
    from dpdistill.api.scoring import Regression as Regression
    from dpdistill.api.student import Teaching as Teaching
    from dpdistill.api.student import student as student
    from dpdistill.errors import CertificateError as CertificateError
    from dpdistill.errors import CuratorError as CuratorError
    from dpdistill.errors import DataError as DataError
    from dpdistill.errors import DPDistillError as DPDistillError
    from dpdistill.errors import LedgerError as LedgerError
    from dpdistill.methods.baselines.dm import DM
    from dpdistill.methods.baselines.kip import KIP
    from dpdistill.methods.baselines.ldpdc import LDPDC
    from dpdistill.methods.baselines.ndpdc import NDPDC
    from dpdistill.methods.baselines.psg import PSG
    from dpdistill.methods.decoupled_kip import DecoupledKIP as DecoupledKIP
    from dpdistill.methods.dos import DOS as DOS
    from dpdistill.methods.dos_kip import DOSKIP as DOSKIP
    from dpdistill.methods.dp_hp import DPHP as DPHP
    from dpdistill.methods.dp_kip import DPKIP as DPKIP
    from dpdistill.methods.dp_merf import DPMERF as DPMERF
    from dpdistill.methods.dp_ntk import DPNTK as DPNTK
    from dpdistill.methods.dp_sgd import DPSGD as DPSGD
    from dpdistill.run.driver import Result as Result
    from dpdistill.run.start import begin_ledger as begin_ledger
    from dpdistill.schema import Column as Column
    from dpdistill.schema import Schema as Schema
    from dpdistill.schema import TableSchema as TableSchema
    from dpdistill.sources.load import load
    from dpdistill.storage.records import Records
    from dpdistill.storage.straighten import straighten_images
    from dpdistill.table_distiller import TableDistiller as TableDistiller
    from dpdistill.verification import verify as verify

__version__ = "0.1.0"

_PLACES = {
    "accounting.schedule": ("Budget",),
    "errors": ("CertificateError", "CuratorError", "DPDistillError", "DataError", "LedgerError"),
    "api.evaluate": ("HeldOut", "Scoring", "evaluate"),
    "api.attacks": ("attack_model", "attack_training"),
    "api.attack_options": ("ModelSearch", "TrainingSearch", "VictimTraining"),
    "api.audits": ("audit", "audit_method", "audit_run", "audit_shadows"),
    "api.audit_options": ("MemberReading",),
    "api.options": ("BudgetChoice", "Machine", "Persons", "Reading", "RecipeChoice"),
    "api.real_records": ("Reference",),
    "api.run": ("Plan", "distill", "distill_without_privacy", "finish_again", "plan"),
    "api.scoring": ("Evaluation", "HeldOutImages", "Networks", "Regression"),
    "api.student": ("Teaching", "student"),
    "run.driver": ("Result",),
    "run.start": ("begin_ledger",),
    "schema": ("Column", "Schema", "TableSchema"),
    "sources.load": ("load",),
    "storage.records": ("Records",),
    "storage.straighten": ("straighten_images",),
    "table_distiller": ("TableDistiller",),
    "verification": ("verify",),
}
"""Where the public names are, but for those of methods. A module is imported when a name is asked for: JAX is slow."""
_ROOMS = ("accounting", "audits", "evaluation", "methods", "publish", "recipe", "run", "schema", "sources", "storage")
"""Parts of the package that are asked for by name: `dpdistill.sources`."""
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
__all__ = [
    "DM",
    "DOS",
    "DOSKIP",
    "DPHP",
    "DPKIP",
    "DPMERF",
    "DPNTK",
    "DPSGD",
    "KIP",
    "LDPDC",
    "NDPDC",
    "PSG",
    "Budget",
    "BudgetChoice",
    "CertificateError",
    "Column",
    "CuratorError",
    "DPDistillError",
    "DataError",
    "DecoupledKIP",
    "Evaluation",
    "HeldOut",
    "HeldOutImages",
    "LedgerError",
    "Machine",
    "MemberReading",
    "ModelSearch",
    "Networks",
    "Persons",
    "Plan",
    "Reading",
    "RecipeChoice",
    "Records",
    "Reference",
    "Regression",
    "Result",
    "Schema",
    "Scoring",
    "TableDistiller",
    "TableSchema",
    "Teaching",
    "TrainingSearch",
    "VictimTraining",
    "attack_model",
    "attack_training",
    "audit",
    "audit_method",
    "audit_run",
    "audit_shadows",
    "begin_ledger",
    "distill",
    "distill_without_privacy",
    "evaluate",
    "finish_again",
    "load",
    "plan",
    "straighten_images",
    "student",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'methods')}"), name)
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
