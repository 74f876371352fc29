"""Options that audits have and `distill` does not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from dpdistill.api.options import SQL, option

ALL_RECORDS = "all"
"""Value that stands for every record, instead of a number of records to try."""


@dataclass(frozen=True, kw_only=True)
class MemberReading:
    """Options of reading the records that a set is compared with; the set states everything else.

    Args:
        schema: the schema.yaml of a table.
        sql: one SELECT, for members in a database.
        non_members_sql: one SELECT, for non-members in a database.
        labels: label kind to read where images have several.
    """

    PANEL: ClassVar[str] = "Data"
    schema: str | os.PathLike | None = option(None, "The schema.yaml of a table.", kind=str)
    sql: str | None = option(None, SQL.replace("DATA", "--members"))
    non_members_sql: str | None = option(None, SQL.replace("DATA", "--non-members"))
    labels: str | None = option(
        None,
        "Label kind where there are several: fine or coarse of CIFAR-100, or a column of Parquet.",
        expert=True,
    )
