"""Public facts about a data set: facts that may be known without reading a record."""

from dpdistill.schema.column import Column
from dpdistill.schema.errors import DataError, hide_secrets
from dpdistill.schema.image import Schema
from dpdistill.schema.table import TableSchema

AnySchema = Schema | TableSchema


def schema_from_json(data: dict) -> AnySchema:
    """Returns the schema of images or of a table from the output of `to_json`."""
    return TableSchema.from_json(data) if "columns" in data else Schema.from_json(data)


def name_unit(column: str) -> str:
    """Returns the name of a protected unit after the word "one": unit (column), with the column that identifies it."""
    return f"unit ({column})"


__all__ = ["AnySchema", "Column", "DataError", "Schema", "TableSchema", "hide_secrets", "name_unit", "schema_from_json"]
