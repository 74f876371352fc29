"""The public facts about a data set: everything that may be known without looking at a record."""

from dpdistill.schema.errors import DataError, hide_secrets
from dpdistill.schema.image import Schema
from dpdistill.schema.table import Column, TableSchema

AnySchema = Schema | TableSchema


def schema_from_json(data: dict) -> AnySchema:
    """The schema of images or of a table from what `to_json` made of it."""
    return TableSchema.from_json(data) if "columns" in data else Schema.from_json(data)


def name_unit(column: str) -> str:
    """How a protected unit is named after the word "one": unit (column), by the column that tells records of it."""
    return f"unit ({column})"


__all__ = ["AnySchema", "Column", "DataError", "Schema", "TableSchema", "hide_secrets", "name_unit", "schema_from_json"]
