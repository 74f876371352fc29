"""`dpdistill results`: writes a page of results."""

from dpdistill.cli.benchmark import results

__all__ = ["results"]
