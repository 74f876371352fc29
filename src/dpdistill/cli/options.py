"""What several commands say of their arguments."""

from __future__ import annotations

from typing import Annotated, Any

import typer

SOURCES = (
    "IDX, CIFAR or SVHN folder or file, .npz (also MedMNIST's), Parquet with images, folder, zip or tar of class "
    "folders (PNG, JPEG, TIFF, DICOM), digits:train."
)
TABLE = "CSV (also gzip) or Parquet file, or a database: postgresql://user@host/name, a SQLite or DuckDB file."
SQL = "One SELECT, whose rows are read from the database that DATA names."
LABELS = "Which labels, where there are several: fine or coarse of CIFAR-100, or a column of Parquet."
MAX_SEED = 2**32 - 1


def table_source(data: str, sql: str | None) -> Any:
    """Where a table is: its file, or the rows of a query."""
    if sql is None:
        return data
    from dpdistill.data.tables.database import DatabaseQuery

    return DatabaseQuery(data, sql)


Folder = Annotated[str, typer.Argument(metavar="DIR", help="A folder that distill wrote.")]
