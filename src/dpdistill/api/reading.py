"""Reads records for all public functions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.listener import Listener
from dpdistill.api.options import Reading
from dpdistill.schema import DataError, Schema

if TYPE_CHECKING:
    from dpdistill.public_images.image_source import PublicImages
    from dpdistill.storage.records import Records


def table_source(data: Any, sql: str | None) -> Any:
    """Returns the source of a table: its file, its frame or a query."""
    if sql is None:
        return data
    from dpdistill.sources.tables.database import DatabaseQuery

    return DatabaseQuery(data, sql)


def check_source(data: Any, table: bool, sql: str | None = None) -> None:
    """Refuses a source without records; records in a database are not checked.

    Raises:
        DataError: a missing or unreadable source.
    """
    from dpdistill.sources.load import part_named, recognise
    from dpdistill.storage.files import is_address, require_file
    from dpdistill.storage.records import Records

    if isinstance(data, Records):
        return
    if not table:
        recognise(part_named(data, "train")[0])
    elif isinstance(data, str | os.PathLike) and sql is None and not is_address(str(data)):
        require_file(Path(data))


def read_records(
    data: Any,
    reading: Reading,
    listener: Listener,
    *,
    unit: str | None = None,
    memory: int | str | None = None,
    scratch: Path | None = None,
) -> Records:
    """Returns the records (table rows if there is a schema), with notes for the owner.

    Args:
        data: path of the records, or an object that holds them (`load_object`, a frame).
        reading: options of reading them.
        listener: receives the notes.
        unit: column or array that names the person of each record, or None.
        memory: memory limit of the records.
        scratch: folder for the records beyond the memory limit.

    Raises:
        DataError: records that cannot be read.
    """
    from dpdistill.storage.records import Records

    if isinstance(data, Records):
        if reading != Reading():
            raise DataError("Expected no reading options with Records, which are already read: leave reading out.")
        return data
    room: dict[str, Any] = {"memory": memory, "scratch": scratch}
    with listener.working("reading the records"):
        if reading.schema is None:
            from dpdistill.sources.load import load

            stated = (reading.classes, reading.bounds, reading.resize, reading.channels, not reading.lenient)
            which = {"labels": reading.labels, "unit": unit, "straighten": reading.straighten}
            records = load(data, "train", *stated, **which, **room)
        else:
            from dpdistill.sources.tables.load import load_table
            from dpdistill.sources.tables.schema_file import read_reviewed, with_units, without_units

            table_file = read_reviewed(reading.schema)
            table_file = without_units(table_file) if unit is None else with_units(table_file, unit)
            records = load_table(table_source(data, reading.sql), table_file, not reading.lenient, **room)
    facts = records.schema.inferred_sentences() if isinstance(records.schema, Schema) else ()
    for each in records.notes:
        (listener.warn if each in facts else listener.note)(each)
    return records


def read_public_images(
    data: str | None, resize: int | str | None, channels: int | None, straighten: bool, listener: Listener
) -> PublicImages | None:
    """Returns the images that the caller declares public, straightened like the private ones; None without any."""
    if data is None:
        return None
    from dpdistill.public_images.image_source import PublicImages
    from dpdistill.sources.load import load

    with listener.working("reading the public images"):
        records = load(data, resize=resize, channels=channels, strict=False, straighten=straighten)
        return PublicImages.of_records(records)
