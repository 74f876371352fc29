"""Records as commands read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpdistill.cli.options import table_source
from dpdistill.cli.terminal import note, warn, working
from dpdistill.schema import DataError, Schema

NEEDS_SCHEMA = "Expected --schema SCHEMA with --sql: the rows of a query are a table."


def check_source(data: str, table: bool, sql: str | None = None) -> None:
    """Refuse a place where no records are; those that a database has are not looked for.

    Raises:
        DataError: nothing there, or nothing that can be read.
    """
    from dpdistill.sources.load import part_named, recognise
    from dpdistill.storage.files import is_address, require_file

    if not table:
        recognise(part_named(data, "train")[0])
    elif sql is None and not is_address(data):
        require_file(Path(data))


def read_records(
    data: Any,
    schema: str | None,
    *stated: Any,
    sql: str | None = None,
    labels: str | None = None,
    unit: str | None = None,
    straighten: bool = False,
    memory: str | None = None,
    scratch: Path | None = None,
) -> Any:
    """The records, a table's where there is a schema, with a note on whatever the owner should know of them."""
    if sql is not None and schema is None:
        raise DataError(NEEDS_SCHEMA)
    room: dict[str, Any] = {"memory": memory, "scratch": scratch}
    with working("reading the records"):
        if schema is None:
            from dpdistill.sources.load import load

            records = load(data, "train", *stated, labels=labels, unit=unit, straighten=straighten, **room)
        else:
            from dpdistill.sources.tables.load import load_table
            from dpdistill.sources.tables.schema_file import read_reviewed, with_units, without_units

            table_file = read_reviewed(schema)
            table_file = without_units(table_file) if unit is None else with_units(table_file, unit)
            records = load_table(table_source(data, sql), table_file, stated[-1], **room)
    facts = records.schema.inferred_sentences() if isinstance(records.schema, Schema) else ()
    for each in records.notes:
        (warn if each in facts else note)(each)
    return records


def count_for_owner(records: Any, unit: str | None) -> None:
    """What `plan` tells the owner alone: how many records are of no use, and how many units there are."""
    import numpy as np

    unused = int(np.count_nonzero(np.asarray(records.y) < 0))
    if unused:
        warn(f"Warning: {unused:,} of {len(records):,} records cannot be used, and are left out.")
    if unit is not None and records.units is not None:
        units = np.asarray(records.units)
        note(f"{len(records):,} records belong to {len(np.unique(units[units >= 0])):,} units ({unit}).")


def public_images(data: str | None, resize: str | None, channels: int | None, straighten: bool = False) -> Any:
    """Images that the caller says are public, straightened if the private ones are; None without any."""
    if data is None:
        return None
    from dpdistill.public_images.auxiliary import PublicImages
    from dpdistill.sources.load import load

    with working("reading the public images"):
        records = load(data, resize=resize, channels=channels, strict=False, straighten=straighten)
        return PublicImages.of_records(records)
