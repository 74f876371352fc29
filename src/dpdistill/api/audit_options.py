"""Options of an audit that `distill` does not have."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from dpdistill.api.options import SQL, option

ALL_RECORDS = "all"
"""Instead of the number of records that an audit of a method tries."""


@dataclass(frozen=True, kw_only=True)
class MemberReading:
    """How records are read that a set is compared with; the set states all else.

    Args:
        schema: the schema.yaml of a table.
        sql: one SELECT, for members in a database.
        non_members_sql: one SELECT, for non-members in a database.
        labels: which labels to take where images have several.
    """

    PANEL: ClassVar[str] = "Data"
    schema: str | os.PathLike | None = option(None, "The schema.yaml of a table.", kind=str)
    sql: str | None = option(None, SQL.replace("DATA", "--members"))
    non_members_sql: str | None = option(None, SQL.replace("DATA", "--non-members"))
    labels: str | None = option(
        None,
        "Which labels, where there are several: fine or coarse of CIFAR-100, or a column of Parquet.",
        expert=True,
    )
