"""dpdistill: distils private labelled data into a tiny synthetic set that may be shared, under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget as Budget
    from dpdistill.api.account import account as account
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
    from dpdistill.api.catalogue import FieldDescription as FieldDescription
    from dpdistill.api.catalogue import MethodDescription as MethodDescription
    from dpdistill.api.catalogue import RecipeDescription as RecipeDescription
    from dpdistill.api.catalogue import list_kernels as list_kernels
    from dpdistill.api.catalogue import list_methods as list_methods
    from dpdistill.api.catalogue import list_recipes as list_recipes
    from dpdistill.api.count import RowCount as RowCount
    from dpdistill.api.count import count as count
    from dpdistill.api.demo import Demo as Demo
    from dpdistill.api.demo import demo as demo
    from dpdistill.api.doctor import doctor as doctor
    from dpdistill.api.documents import Exported as Exported
    from dpdistill.api.documents import export as export
    from dpdistill.api.documents import report as report
    from dpdistill.api.evaluate import HeldOut as HeldOut
    from dpdistill.api.evaluate import Scoring as Scoring
    from dpdistill.api.evaluate import evaluate as evaluate
    from dpdistill.api.fill import Filled as Filled
    from dpdistill.api.fill import fill as fill
    from dpdistill.api.house import house_summary as house_summary
    from dpdistill.api.house import write_house_page as write_house_page
    from dpdistill.api.ledger import HeadCheck as HeadCheck
    from dpdistill.api.ledger import begin_ledger as begin_ledger
    from dpdistill.api.ledger import check_heads as check_heads
    from dpdistill.api.ledger import ledger_summary as ledger_summary
    from dpdistill.api.listener import Listener as Listener
    from dpdistill.api.options import Account as Account
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
    from dpdistill.api.sample import Sample as Sample
    from dpdistill.api.sample import sample as sample
    from dpdistill.api.scoring import Evaluation as Evaluation
    from dpdistill.api.scoring import HeldOutImages as HeldOutImages
    from dpdistill.api.scoring import Networks as Networks
    from dpdistill.api.scoring import Regression as Regression
    from dpdistill.api.signing import new_key as new_key
    from dpdistill.api.signing import sign as sign
    from dpdistill.api.student import Teaching as Teaching
    from dpdistill.api.student import student as student
    from dpdistill.api.tables import SchemaDraft as SchemaDraft
    from dpdistill.api.tables import TableCheck as TableCheck
    from dpdistill.api.tables import check_table as check_table
    from dpdistill.api.tables import draft_schema as draft_schema
    from dpdistill.api.together import together_check as together_check
    from dpdistill.api.together import together_join as together_join
    from dpdistill.api.together import together_plan as together_plan
    from dpdistill.api.together import together_serve as together_serve
    from dpdistill.api.together_demo import demo_together as demo_together
    from dpdistill.certificate.check import Verification as Verification
    from dpdistill.errors import CertificateError as CertificateError
    from dpdistill.errors import CuratorError as CuratorError
    from dpdistill.errors import DataError as DataError
    from dpdistill.errors import DPDistillError as DPDistillError
    from dpdistill.errors import LedgerError as LedgerError
    from dpdistill.ledger.dataset import LedgerSummary as LedgerSummary
    from dpdistill.methods.aim import AIM as AIM
    from dpdistill.methods.baselines.dm import DM as DM
    from dpdistill.methods.baselines.kip import KIP as KIP
    from dpdistill.methods.baselines.ldpdc import LDPDC as LDPDC
    from dpdistill.methods.baselines.ndpdc import NDPDC as NDPDC
    from dpdistill.methods.baselines.psg import PSG as PSG
    from dpdistill.methods.decoupled_kip import DecoupledKIP as DecoupledKIP
    from dpdistill.methods.dos import DOS as DOS
    from dpdistill.methods.dos_kip import DOSKIP as DOSKIP
    from dpdistill.methods.dp_hp import DPHP as DPHP
    from dpdistill.methods.dp_kip import DPKIP as DPKIP
    from dpdistill.methods.dp_merf import DPMERF as DPMERF
    from dpdistill.methods.dp_ntk import DPNTK as DPNTK
    from dpdistill.methods.dp_sgd import DPSGD as DPSGD
    from dpdistill.methods.table_classifier import TableClassifier as TableClassifier
    from dpdistill.methods.table_regression import TableRegression as TableRegression
    from dpdistill.publish.export.publisher import Publisher as Publisher
    from dpdistill.run.result import Result as Result
    from dpdistill.schema import Column as Column
    from dpdistill.schema import Schema as Schema
    from dpdistill.schema import TableSchema as TableSchema
    from dpdistill.sources.load import load as load
    from dpdistill.storage.records import Records as Records
    from dpdistill.storage.straighten import straighten_images as straighten_images
    from dpdistill.table_distiller import TableDistiller as TableDistiller
    from dpdistill.verification import verify as verify

__version__ = "0.9.0"

_PLACES = {
    "accounting.schedule": ("Budget",),
    "errors": ("CertificateError", "CuratorError", "DPDistillError", "DataError", "LedgerError"),
    "api.evaluate": ("HeldOut", "Scoring", "evaluate"),
    "api.attacks": ("attack_model", "attack_training"),
    "api.attack_options": ("ModelSearch", "TrainingSearch", "VictimTraining"),
    "api.audits": ("audit", "audit_method", "audit_run", "audit_shadows"),
    "api.audit_options": ("MemberReading",),
    "api.real_records": ("Reference",),
    "api.scoring": ("Evaluation", "HeldOutImages", "Networks", "Regression"),
    "api.student": ("Teaching", "student"),
    "api.account": ("account",),
    "api.catalogue": (
        *("FieldDescription", "MethodDescription", "RecipeDescription"),
        *("list_kernels", "list_methods", "list_recipes"),
    ),
    "api.count": ("RowCount", "count"),
    "api.demo": ("Demo", "demo"),
    "api.doctor": ("doctor",),
    "api.documents": ("Exported", "export", "report"),
    "api.fill": ("Filled", "fill"),
    "api.house": ("house_summary", "write_house_page"),
    "api.ledger": ("HeadCheck", "begin_ledger", "check_heads", "ledger_summary"),
    "api.listener": ("Listener",),
    "api.options": ("Account", "BudgetChoice", "Machine", "Persons", "Reading", "RecipeChoice"),
    "api.run": ("Plan", "distill", "distill_without_privacy", "finish_again", "plan"),
    "api.sample": ("Sample", "sample"),
    "api.signing": ("new_key", "sign"),
    "api.tables": ("SchemaDraft", "TableCheck", "check_table", "draft_schema"),
    "api.together": ("together_check", "together_join", "together_plan", "together_serve"),
    "api.together_demo": ("demo_together",),
    "certificate.check": ("Verification",),
    "ledger.dataset": ("LedgerSummary",),
    "publish.export.publisher": ("Publisher",),
    "run.driver": ("Result",),
    "schema": ("Column", "Schema", "TableSchema"),
    "sources.load": ("load",),
    "storage.records": ("Records",),
    "storage.straighten": ("straighten_images",),
    "table_distiller": ("TableDistiller",),
    "verification": ("verify",),
}
"""Modules of the public names; all other names are methods. Each is imported on first use, since JAX is slow."""
_ROOMS = ("accounting", "audits", "evaluation", "methods", "publish", "recipe", "run", "schema", "sources", "storage")
"""Subpackages that are imported on first use: `dpdistill.sources`."""
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
__all__ = [
    "AIM",
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
    "Account",
    "Budget",
    "BudgetChoice",
    "CertificateError",
    "Column",
    "CuratorError",
    "DPDistillError",
    "DataError",
    "DecoupledKIP",
    "Demo",
    "Evaluation",
    "Exported",
    "FieldDescription",
    "Filled",
    "HeadCheck",
    "HeldOut",
    "HeldOutImages",
    "LedgerError",
    "LedgerSummary",
    "Listener",
    "Machine",
    "MemberReading",
    "MethodDescription",
    "ModelSearch",
    "Networks",
    "Persons",
    "Plan",
    "Publisher",
    "Reading",
    "RecipeChoice",
    "RecipeDescription",
    "Records",
    "Reference",
    "Regression",
    "Result",
    "RowCount",
    "Sample",
    "Schema",
    "SchemaDraft",
    "Scoring",
    "TableCheck",
    "TableClassifier",
    "TableDistiller",
    "TableRegression",
    "TableSchema",
    "Teaching",
    "TrainingSearch",
    "Verification",
    "VictimTraining",
    "account",
    "attack_model",
    "attack_training",
    "audit",
    "audit_method",
    "audit_run",
    "audit_shadows",
    "begin_ledger",
    "check_heads",
    "check_table",
    "count",
    "demo",
    "demo_together",
    "distill",
    "distill_without_privacy",
    "doctor",
    "draft_schema",
    "evaluate",
    "export",
    "fill",
    "finish_again",
    "house_summary",
    "ledger_summary",
    "list_kernels",
    "list_methods",
    "list_recipes",
    "load",
    "new_key",
    "plan",
    "report",
    "sample",
    "sign",
    "straighten_images",
    "student",
    "together_check",
    "together_join",
    "together_plan",
    "together_serve",
    "verify",
    "write_house_page",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'methods')}"), name)
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
