"""Arguments and options of several commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpdistill.schema import DataError

Folder = Annotated[str, typer.Argument(metavar="DIR", help="A folder that distill wrote.")]

IncludeScores = Annotated[
    bool,
    typer.Option(
        "--include-scores",
        rich_help_panel="Output",
        help="Add the scores to DIR and its report: not covered by epsilon.",
    ),
]

Cap = Annotated[
    float | None,
    typer.Option(hidden=True, rich_help_panel="Privacy", help="Cap of a ledger: an option of `dpdistill budget new`."),
]


def by_default(name: str, moved: Mapping[str, str] | None = None) -> type[TyperGroup]:
    """Returns a group with a default command: `dpdistill audit DIR` is `dpdistill audit set DIR`.

    Args:
        name: name of the default command; the group's own options come before its arguments.
        moved: new commands by their former names in this group; a former name is refused with the new one.
    """

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            own = {option for param in self.get_params(ctx) for option in param.opts}
            first = next((i for i, word in enumerate(args) if word not in own), len(args))
            if moved and args[first:] and args[first] in moved:
                raise DataError(
                    f"Expected `dpdistill {moved[args[first]]}` instead of `dpdistill {ctx.info_name} {args[first]}`; "
                    "its options are the same."
                )
            if (args[first:] and args[first] not in self.commands) or not (args or self.no_args_is_help):
                args = [*args[:first], name, *args[first:]]
            return super().parse_args(ctx, args)

    return Group


def refuse_cap(cap: float | None) -> None:
    """Refuses --cap of a run: a script with --cap would silently create a new ledger where the file is missing.

    Raises:
        DataError: a cap is stated.
    """
    if cap is not None:
        raise DataError("A run creates no ledger: use `dpdistill budget new FILE --cap EPSILON` instead of --cap.")
