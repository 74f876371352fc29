"""`dpdistill key`: keys that sign shared folders."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.passphrase import passphrase
from dpdistill.cli.terminal import give, say

app = typer.Typer(no_args_is_help=True, help="Make a key that signs shared folders.")


@app.command("new")
def new(
    file: Annotated[str, typer.Argument(metavar="FILE", help="New private key; its public key is FILE.pub.")],
    comment: Annotated[
        str, typer.Option(rich_help_panel="Output", help="Words in the public key, such as the signer's name.")
    ] = "",
    no_passphrase: Annotated[
        bool,
        typer.Option(
            "--no-passphrase", rich_help_panel="Output", help="Do not encrypt the key: whoever has the file can sign."
        ),
    ] = False,
) -> None:
    """Make an Ed25519 key in OpenSSH's formats. Its passphrase is asked for, or read from DPDISTILL_PASSPHRASE."""
    public = dp.new_key(file, None if no_passphrase else passphrase(twice=True), comment)
    give(key=file, public=str(public))
    say(f"{file} is the private key: keep it to yourself.")
    say(f"{public} is the public key: give it to receivers by another way than the folders.")
