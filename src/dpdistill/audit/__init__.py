"""Comparisons of a synthetic set with the private records themselves: for their owner, never covered by epsilon."""

from dpdistill.audit.marginals import Comparison, compare_marginals
from dpdistill.audit.marginals_page import write_marginals

__all__ = ["Comparison", "compare_marginals", "write_marginals"]
