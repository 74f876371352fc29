"""Files, frames and databases of others to records and a schema."""

from dpdistill.sources.load import load

__all__ = ["load"]
