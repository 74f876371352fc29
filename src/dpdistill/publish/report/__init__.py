"""Renders a shared folder as one self-contained page; nothing private is read here."""

from dpdistill.publish.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
