"""What several commands say of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpdistill.schema import DataError

Folder = Annotated[str, typer.Argument(metavar="DIR", help="A folder that distill wrote.")]

Cap = Annotated[
    float | None,
    typer.Option(hidden=True, rich_help_panel="Privacy", help="Of a ledger: `dpdistill budget new` takes it."),
]


def by_default(name: str, moved: Mapping[str, str] | None = None) -> type[TyperGroup]:
    """A group of commands one of which need not be named: `dpdistill audit DIR` is `dpdistill audit set DIR`.

    Args:
        name: of that command; the group's own options stand before what it takes.
        moved: commands of other groups by the names that they had in this one: each is refused by its present name.
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
    """Refuses --cap of a run: a script that always states it would begin a new account where the file has gone.

    Raises:
        DataError: a cap is stated.
    """
    if cap is not None:
        raise DataError("A run begins no ledger: leave --cap out; `dpdistill budget new FILE --cap EPSILON` begins it.")
