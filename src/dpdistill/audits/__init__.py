"""Attacks on, and comparisons with, the private records: for their owner, never covered by epsilon."""

from dpdistill.attacks.reconstruction import Reconstruction, curve
from dpdistill.attacks.rkip import Inducing, rkip_finite
from dpdistill.audits.canaries import OneRun, audit_one_run
from dpdistill.audits.leaks import LEAKS
from dpdistill.audits.marginals import Comparison, compare_marginals
from dpdistill.audits.marginals_page import write_marginals
from dpdistill.audits.membership import Roc, attack_membership
from dpdistill.audits.method_audit import Replay, Replays, replay_method
from dpdistill.audits.page import Audit
from dpdistill.audits.reference import nearest_real, random_real
from dpdistill.audits.results import (
    MethodAudit,
    ModelAttack,
    RunAudit,
    SetAudit,
    ShadowAudit,
    TrainingAttack,
)

__all__ = [
    "LEAKS",
    "Audit",
    "Comparison",
    "Inducing",
    "MethodAudit",
    "ModelAttack",
    "OneRun",
    "Reconstruction",
    "Replay",
    "Replays",
    "Roc",
    "RunAudit",
    "SetAudit",
    "ShadowAudit",
    "TrainingAttack",
    "attack_membership",
    "audit_one_run",
    "compare_marginals",
    "curve",
    "nearest_real",
    "random_real",
    "replay_method",
    "rkip_finite",
    "write_marginals",
]
