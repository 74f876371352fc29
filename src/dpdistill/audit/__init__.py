"""Attacks, and comparisons with the private records themselves: for their owner, never covered by epsilon."""

from dpdistill.audit.canaries import OneRun, audit_one_run
from dpdistill.audit.leaks import LEAKS
from dpdistill.audit.marginals import Comparison, compare_marginals
from dpdistill.audit.marginals_page import write_marginals
from dpdistill.audit.membership import Roc, attack_membership
from dpdistill.audit.method_audit import MethodAudit, Replay, audit_method
from dpdistill.audit.reconstruction import Reconstruction, curve
from dpdistill.audit.reference import nearest_real, random_real
from dpdistill.audit.rkip import Inducing, rkip_finite

__all__ = [
    "LEAKS",
    "Comparison",
    "Inducing",
    "MethodAudit",
    "OneRun",
    "Reconstruction",
    "Replay",
    "Roc",
    "attack_membership",
    "audit_method",
    "audit_one_run",
    "compare_marginals",
    "curve",
    "nearest_real",
    "random_real",
    "rkip_finite",
    "write_marginals",
]
