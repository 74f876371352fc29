"""A shared folder in the formats of other people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import give, say


def export(
    folder: Folder,
    *,
    to: Annotated[
        str,
        typer.Option(
            help="hf (a folder for the Hugging Face Hub), torch (a folder with arrays and a Dataset), csv, or a "
            "document with what you add to it: croissant, registry, card."
        ),
    ],
    out: Annotated[str, typer.Option(help="The folder or file to write; it must not exist.")],
    about: Annotated[
        list[str] | None,
        typer.Option(
            help="What only you can say, for the documents, as field=value: name, curator, curator_type (Government, "
            "Industry, Nonprofit), license, url, date, version, cite, intended_use, source, period, biases, sensitive, "
            "social_impact, region, sector, justification, author; several times for several."
        ),
    ] = None,
    about_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The same as lines field: value of a YAML file; --about goes first."),
    ] = None,
) -> None:
    """Write a result in a format of other people's: for the Hugging Face Hub, PyTorch, spreadsheets, catalogues."""
    from dpdistill.publish.export import FORMATS, Publisher
    from dpdistill.publish.export import export as write
    from dpdistill.publish.report.folder import read_folder
    from dpdistill.publish.report.guarantee import read_guarantee

    publisher = Publisher.parse(about or (), None if about_file is None else Path(about_file))
    path = write(folder, to, out, publisher)
    document = FORMATS[to].document
    left_open = publisher.open_in(document)
    give(out=str(path), format=to, document=document, open=left_open)
    free = "The guarantee of its certificate holds for it: what is made from a release is free."
    holds = read_guarantee(read_folder(folder).certificate).holds
    say(f"{path}: written. {free if holds else 'Nothing is guaranteed: handle it like the private records.'}")
    if left_open:
        say(f"Left open in {document}, for --about: {', '.join(left_open)}.")
