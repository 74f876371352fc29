"""`dpdistill plan`: forecasts the noise, time, memory and disk of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import dpdistill as dp
from dpdistill.api.options import SOURCES, Account, BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.cli.expand import expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.options import Cap, refuse_cap
from dpdistill.cli.panels import Expert
from dpdistill.cli.progress import duration
from dpdistill.cli.terminal import amount, give, note, say, warn


@expand
def plan(
    data: Annotated[str, typer.Argument(metavar="DATA", help=SOURCES)],
    *,
    out: Annotated[
        str | None, typer.Option("--out", rich_help_panel="Output", help="Folder for the result; it may be shared.")
    ] = None,
    choice: RecipeChoice,
    budget: BudgetChoice,
    reading: Reading,
    persons: Persons,
    account: Account,
    machine: Machine,
    cap: Cap = None,
    non_private: Annotated[
        bool,
        typer.Option(
            "--non-private", rich_help_panel=Expert("Privacy"), help="No noise and no guarantee: epsilon is infinite."
        ),
    ] = False,
    records: Annotated[
        int | None,
        typer.Option(
            rich_help_panel="Data",
            min=1,
            metavar="<int>",
            help="Number of records, if public; counted by default.",
        ),
    ] = None,
) -> None:
    """Forecast the noise, time, memory and disk of a run, and stop before anything is paid.

    Takes the options of distill. Time, memory and disk are a forecast, within a factor of two.
    """
    refuse_cap(cap)
    found = dp.plan(
        data, choice, budget, records=records, reading=reading, persons=persons, machine=machine, account=account,
        out=out, private=not non_private, listener=Terminal(say),
    )  # fmt: skip
    if found.outlook is None:
        say("Plan: no noise and no budget: nothing is paid, and epsilon is infinite.")
    _say_capacity(found.capacity, found.memory)
    if records is None:
        _say_counts(found)
        _say_verdict(found, account.class_size)
    how = "their number was counted" if records is None else "DATA was read"
    note(f"Time, memory and disk are for the owner of the records alone: {how}.")
    give(for_the_owner_only=True, counted=records is None)


def _say_counts(found: dp.Plan) -> None:
    """Prints the number of unusable records and the number of units."""
    if found.unused:
        warn(f"Warning: {found.unused:,} of {found.records:,} records cannot be used, and are left out.")
    if found.units is not None and found.outlook is not None:
        unit = found.outlook.schedule.budget.unit
        note(f"{found.records:,} records belong to {found.units:,} units ({unit}).")


def _say_verdict(found: dp.Plan, stated: int | None) -> None:
    """Prints whether the mean class is large enough; with a stated class size that is printed already."""
    if found.outlook is None or stated is not None:
        return
    units = found.units if found.units is not None else found.records - found.unused
    if (verdict := found.outlook.verdict(max(1, units // found.outlook.classes))) is not None:
        say(f"Plan: {verdict}")
        give(verdict=verdict._asdict())


def _say_capacity(found: Any, needed: int) -> None:
    """Prints time, memory and disk, and warns if memory is too small for the records."""
    from dpdistill.storage.memory import machine_memory

    parts = {name: getattr(found, name) for name in ("compiling", "encoding", "releasing", "finishing")}
    listed = ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts.items() if seconds >= 0.5)
    available = machine_memory()
    say(
        f"Plan: {found.records:,} records take about {duration(found.seconds)} on this machine"
        f"{f': {listed}' if listed else ''}."
    )
    features = f" and {amount(found.features)} of features, in memory or in DIR.run," if found.features else ""
    say(f"Plan: about {amount(needed)} of memory{features} and {amount(found.disk)} of disk.")
    give(records=found.records, seconds={**parts, "together": found.seconds})
    give(memory_bytes=needed, feature_bytes=found.features, disk_bytes=found.disk)
    if available is not None and needed > available:
        warn(f"Warning: this machine has {amount(available)} of memory: use fewer records per class, or --resize.")
