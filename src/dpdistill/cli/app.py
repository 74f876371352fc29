"""The application that all commands belong to, and its entry point."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Annotated, Any

import typer

from dpdistill.cli.compile_cache import keep_compiled_programs
from dpdistill.cli.global_options import versions, with_common_options
from dpdistill.cli.malloc import keep_freed_memory
from dpdistill.cli.streams import lasting_streams
from dpdistill.cli.terminal import give, run_app, say

app = typer.Typer(
    help="Distil a private labelled data set into a tiny synthetic one that may be shared.",
    epilog="Try: dpdistill demo",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the versions of dpdistill and its dependencies.")
    ] = False,
) -> None:
    if version:
        found = versions()
        give(**found)
        say(f"dpdistill {found['dpdistill']}")
        say(", ".join(f"{name} {number or 'not installed'}" for name, number in [*found.items()][1:]))
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@lru_cache(maxsize=1)
def _command() -> Any:
    """Returns all commands with their common options; built once per process."""
    return with_common_options(typer.main.get_command(app))


def main() -> None:
    """Entry point."""
    keep_freed_memory()
    keep_compiled_programs()
    with lasting_streams() as final:
        code = final(run_app(_command()))
    sys.exit(code)
