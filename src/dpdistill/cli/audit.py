"""`dpdistill audit`: the group of commands, and their common output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpdistill.api.options import SOURCES
from dpdistill.cli.options import by_default
from dpdistill.cli.terminal import give, say
from dpdistill.folder.save import audit_folder

if TYPE_CHECKING:
    from dpdistill.audits.membership import Roc
    from dpdistill.audits.page import Audit

Data = Annotated[str, typer.Argument(metavar="DATA", help=SOURCES)]
Out = Annotated[
    str, typer.Option("--out", rich_help_panel="Output", help="Name of the result: its owner's page goes to DIR.audit.")
]

app = typer.Typer(
    cls=by_default("set", moved={"model": "attack model", "training": "attack training"}),
    no_args_is_help=True,
    help="Attack a set, a run or a method, for the owner of the records: not covered by epsilon.",
)


def say_rates(membership: Mapping[str, Roc]) -> None:
    """Prints how many members each membership attack recognises."""
    for name, roc in membership.items():
        low = roc.true_positives(0.001)
        say(f"by {name}: {100 * low.value:.2f} % of the members recognised at 0.1 % wrong, area {roc.area:.3f}")


def say_page(result: Audit, folder: str | Path) -> None:
    """Prints where the owner's page of a result is, and gives the result to --json."""
    page = audit_folder(folder) / f"{result.page.name}.html"
    give(page=str(page), for_the_owner_only=True, results=result.to_json())
    say(f"{page}: for you only; nothing in it is covered by epsilon.")
