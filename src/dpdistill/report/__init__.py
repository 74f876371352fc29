"""Results to one self-contained page; nothing is computed here."""

from dpdistill.report.page import write_report

__all__ = ["write_report"]
