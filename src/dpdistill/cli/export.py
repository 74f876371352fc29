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
            help="hf (a folder for the Hugging Face Hub), torch (a folder with arrays and a Dataset), csv, "
            "onnx (the released classifier with its features, and predict.py), kit (partner.zip and a page for the "
            "privacy officer), or a document with your additions: croissant, registry, card.",
        ),
    ],
    out: Annotated[str, typer.Option(rich_help_panel="Output", help="New folder or file to write.")],
    about: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel="Output",
            help="Facts from you for the documents, as field=value: name, curator, curator_type (Government, "
            "Industry, Nonprofit), license, url, date, version, cite, intended_use, source, period, biases, sensitive, "
            "social_impact, region, sector, justification, author; several times for several fields.",
        ),
    ] = None,
    about_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Output",
            help="YAML file of such facts, one line field: value each; --about overrides the file.",
        ),
    ] = None,
) -> None:
    """Export a result to a third-party format: for the Hugging Face Hub, PyTorch, spreadsheets, catalogues."""
    done = dp.export(folder, to, out, about or (), about_file=about_file)
    give(out=str(done.path), format=done.format, document=done.document, open=done.open)
    covered = "The guarantee of the certificate holds for the export: post-processing is free."
    uncovered = "Nothing is guaranteed: handle the export like the private records."
    say(f"{done.path}: written. {covered if done.guaranteed else uncovered}")
    if done.open:
        say(f"Fields to add to {done.document} by --about: {', '.join(done.open)}.")
