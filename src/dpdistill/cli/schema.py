"""`dpdistill schema`: drafts and checks a table's schema."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import dpdistill as dp
from dpdistill.api.options import SQL, TABLE
from dpdistill.cli.listener import Terminal
from dpdistill.cli.terminal import give, say, warn

app = typer.Typer(help="State the public facts about a table.", no_args_is_help=True)

SCHEMA = "A schema.yaml, see `dpdistill schema draft`."
PANEL: Any = {"rich_help_panel": "Data"}


@app.command()
def draft(
    data: Annotated[str, typer.Argument(metavar="DATA", help=TABLE)],
    *,
    to: Annotated[str, typer.Option("--out", rich_help_panel="Output", help="File for the draft.")] = "schema.yaml",
    sql: Annotated[str | None, typer.Option(**PANEL, help=SQL)] = None,
    label: Annotated[
        str | None, typer.Option(**PANEL, help="Column with the classes; the last one if left out.")
    ] = None,
    unlabelled: Annotated[bool, typer.Option("--no-label", **PANEL, help="The table has no label.")] = False,
    number: Annotated[bool, typer.Option("--number", **PANEL, help="The label is a number to predict.")] = False,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            **PANEL,
            help="Does a CSV file begin with column names? By default yes, and a first line that looks like a record "
            "is refused.",
        ),
    ] = None,
    names: Annotated[
        str | None, typer.Option(**PANEL, help="Names of all columns in the file's order: age,job,income.")
    ] = None,
    separator: Annotated[
        str, typer.Option(**PANEL, help="Separator of a CSV file's fields, one character, or tab.")
    ] = ",",
    decimal: Annotated[str, typer.Option(**PANEL, help="Decimal separator of a CSV file, . or a comma.")] = ".",
    comment: Annotated[str | None, typer.Option(**PANEL, help="Prefix of lines of a CSV file to skip.")] = None,
    sheet: Annotated[
        str | None, typer.Option(**PANEL, help="Sheet of an Excel workbook; the first if left out.")
    ] = None,
) -> None:
    """Write a draft of a table's schema for review; the draft is derived from the records."""
    listed = tuple(name.strip() for name in names.split(",")) if names else ()
    drafted = dp.draft_schema(
        data, to, sql=sql, label=label, unlabelled=unlabelled, number=number, header=header, names=listed,
        separator=separator, decimal=decimal, comment=comment, sheet=sheet, listener=Terminal(),
    )  # fmt: skip
    give(schema=to, facts_from_the_records=len(drafted.notes))
    say(f"{to}: a draft. {len(drafted.notes)} facts were derived from your records and are marked.")
    say("Replace each marked fact by public knowledge, then set `reviewed: true`. Do not share the draft.")


@app.command()
def check(
    data: Annotated[str, typer.Argument(metavar="DATA", help=TABLE)],
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help=SCHEMA)],
    sql: Annotated[str | None, typer.Option(**PANEL, help=SQL)] = None,
) -> None:
    """Check a table against its schema, for its owner: the output is about the records."""
    found = dp.check_table(data, schema, sql=sql, listener=Terminal())
    warn("For the owner only: these lines are about private records.")
    give(for_the_owner_only=True, fits=found.fits, warnings=found.warnings)
    for line in found.lines:
        say(line)
    if found.fits:
        say("Less than 1 % of each column is clipped to its bounds, counted as other, or matches no category.")
