"""`dpdistill results`: a page of lines of results."""

from dpdistill.cli.benchmark import results

__all__ = ["results"]
