"""What several commands say of their arguments."""

from __future__ import annotations

from typing import Annotated, Any

import typer

SOURCES = (
    "IDX, CIFAR or SVHN folder or file, .npz (also MedMNIST's), Parquet with images, folder, zip or tar of class "
    "folders (PNG, JPEG, TIFF, BMP, WebP, DICOM), CSV of file,label, digits:train."
)
TABLE = "CSV (also gzip) or Parquet file, or a database: postgresql://user@host/name, a SQLite or DuckDB file."
SQL = "One SELECT, whose rows are read from the database that DATA names."
MAX_SEED = 2**32 - 1


def table_source(data: str, sql: str | None) -> Any:
    """Where a table is: its file, or the rows of a query."""
    if sql is None:
        return data
    from dpdistill.data.tables.database import DatabaseQuery

    return DatabaseQuery(data, sql)


Folder = Annotated[str, typer.Argument(metavar="DIR", help="A folder that distill wrote.")]

Classes = Annotated[str | None, typer.Option(help="Number of classes, or names: 10 or cat,dog.")]
Bounds = Annotated[str | None, typer.Option(help="Lowest and highest raw value: 0,255.")]
Resize = Annotated[str | None, typer.Option(help="Side of the square that images are resized to.")]
Channels = Annotated[int | None, typer.Option(help="1 (grey) or 3 (colour), for images in files of their own.")]
Straighten = Annotated[
    bool,
    typer.Option(
        "--straighten",
        help="Bring each image upright, to the middle and near to a common size, by its own strokes: handwriting.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(help="Which labels, where there are several: fine or coarse of CIFAR-100, or a column of Parquet."),
]

SUITES = ("smoke", "papers", "frontier", "subspaces", "dosser", "transferred")
"""Suites of benchmarks that come with the package, cli/benchmarks/suites."""
