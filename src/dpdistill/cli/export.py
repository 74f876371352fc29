"""A shared folder in the formats of other people."""

from __future__ import annotations

from typing import Annotated

import typer

from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import give, plain, say


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
            "Industry, Nonprofit), license, url, intended_use, region, sector, author; several times for several."
        ),
    ] = None,
) -> None:
    """Write a result in a format of other people's: for the Hugging Face Hub, PyTorch, spreadsheets, catalogues."""
    from dpdistill.export import Publisher
    from dpdistill.export import export as write

    path = write(folder, to, out, Publisher.parse(about or ()))
    give(out=str(path), format=to)
    say(plain(f"{path}: written. The guarantee of its certificate holds for it: what is made from a release is free."))
