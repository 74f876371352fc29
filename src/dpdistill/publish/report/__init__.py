"""Results to one self-contained page; nothing is computed here."""

from dpdistill.publish.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
