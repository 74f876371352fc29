"""`dpdistill export`: a shared folder in third-party formats."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import give, say


def export(
    folder: Folder,
    *,
    to: Annotated[
        str,
        typer.Option(
            rich_help_panel="Output",
            help="hf (a folder for the Hugging Face Hub), torch (a folder with arrays and a Dataset), csv, or a "
            "document with what you add to it: croissant, registry, card.",
        ),
    ],
    out: Annotated[str, typer.Option(rich_help_panel="Output", help="The folder or file to write; it must not exist.")],
    about: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel="Output",
            help="What only you can say, for the documents, as field=value: name, curator, curator_type (Government, "
            "Industry, Nonprofit), license, url, date, version, cite, intended_use, source, period, biases, sensitive, "
            "social_impact, region, sector, justification, author; several times for several.",
        ),
    ] = None,
    about_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Output",
            help="The same as lines field: value of a YAML file; --about goes first.",
        ),
    ] = None,
) -> None:
    """Export a result to a third-party format: for the Hugging Face Hub, PyTorch, spreadsheets, catalogues."""
    done = dp.export(folder, to, out, about or (), about_file=about_file)
    give(out=str(done.path), format=done.format, document=done.document, open=done.open)
    free = "The guarantee of its certificate holds for it: what is made from a release is free."
    nothing = "Nothing is guaranteed: handle it like the private records."
    say(f"{done.path}: written. {free if done.guaranteed else nothing}")
    if done.open:
        say(f"Left open in {done.document}, for --about: {', '.join(done.open)}.")
