"""Commands for tables: drafts and checks of a schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpdistill.cli.options import SQL, TABLE, table_source
from dpdistill.cli.terminal import give, say, warn, working
from dpdistill.schema import DataError

app = typer.Typer(help="State the public facts about a table.", no_args_is_help=True)

SCHEMA = "A schema.yaml, see `dpdistill schema draft`."


@app.command()
def draft(
    data: Annotated[str, typer.Argument(metavar="DATA", help=TABLE)],
    *,
    to: Annotated[str, typer.Option("--out", help="File for the draft.")] = "schema.yaml",
    sql: Annotated[str | None, typer.Option(help=SQL)] = None,
    label: Annotated[str | None, typer.Option(help="Column with the classes; the last one if left out.")] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether a CSV file begins with the names of its columns. If left out it does, and is refused where "
            "its first line looks like a record.",
        ),
    ] = None,
    names: Annotated[str | None, typer.Option(help="Of all columns in the file's order: age,job,income.")] = None,
    separator: Annotated[str, typer.Option(help="Of a CSV file's fields, one character, or tab.")] = ",",
    decimal: Annotated[str, typer.Option(help="What a CSV file's fractions begin with, . or a comma.")] = ".",
    comment: Annotated[str | None, typer.Option(help="Lines of a CSV file that begin with it are skipped.")] = None,
) -> None:
    """Write a draft of a table's schema, to be reviewed: it looks at the records."""
    from dpdistill.sources.tables.drafts import draft_schema
    from dpdistill.sources.tables.schema_file import write_schema
    from dpdistill.sources.tables.source import CsvFormat

    if Path(to).exists():
        raise DataError(f"{to} exists: choose another file with --out.")
    with working("reading the records"):
        listed = tuple(name.strip() for name in names.split(",")) if names else ()
        between = "\t" if separator in ("tab", "\\t") else separator
        form = CsvFormat(header is not False and not listed, listed, between, comment=comment, decimal=decimal)
        table_file, notes = draft_schema(table_source(data, sql), label, form, named=header is True)
    write_schema(to, table_file, notes)
    give(schema=to, facts_from_the_records=len(notes))
    say(f"{to}: a draft. It looked at the records: {len(notes)} facts came from them and are marked.")
    say("Replace each by what is known without looking, then set `reviewed: true`. Do not share the draft.")


@app.command()
def check(
    data: Annotated[str, typer.Argument(metavar="DATA", help=TABLE)],
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help=SCHEMA)],
    sql: Annotated[str | None, typer.Option(help=SQL)] = None,
) -> None:
    """How a table fits its schema, for its owner: what is said here is about the records."""
    from dpdistill.sources.tables.drafts import check_table
    from dpdistill.sources.tables.schema_file import read_schema

    table_file = read_schema(schema)
    with working("reading the records"):
        lines = check_table(table_source(data, sql), table_file)
    warn("For the owner only: these lines are about private records.")
    warnings = [line for line in lines if line.startswith("Warning: ")]
    give(for_the_owner_only=True, fits=not warnings, warnings=warnings)
    for line in lines:
        say(line)
    if not warnings:
        say("Less than 1 % of each column is cut at its bounds, goes to others or matches nothing.")
