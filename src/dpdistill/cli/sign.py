"""`dpdistill sign`: signs a shared folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.options import Folder
from dpdistill.cli.passphrase import say_signed, unlocked
from dpdistill.cli.terminal import working


def sign(
    folder: Folder,
    key: Annotated[str, typer.Option(rich_help_panel="Output", help="Private key that `dpdistill key new` made.")],
    signer: Annotated[
        str | None,
        typer.Option(
            "--as", rich_help_panel="Output", help="Name of a further signer: writes certificate.json.NAME.sig."
        ),
    ] = None,
) -> None:
    """Sign a shared folder: certificate.json, and the hashes of its pages and cards.

    Run this last: documents that change later are no longer those that were signed. The signature says who signed the
    files, never what was run.
    """
    private = unlocked(key)
    with working("checking"):
        signatures = dp.sign(folder, private, signer=signer)
    say_signed(Path(folder), signatures, private)
