"""Records as commands read them."""

from __future__ import annotations

from pathlib import Path


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
