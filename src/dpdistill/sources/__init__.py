"""Reads files, frames and databases into records and a schema."""

from dpdistill.sources.load import load

__all__ = ["load"]
