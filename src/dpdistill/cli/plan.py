"""The command that says what a run would cost, show and take."""

from __future__ import annotations

import math
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from dpdistill.cli.asked import asked_of, prepared
from dpdistill.cli.distill import distill
from dpdistill.cli.reading import count_for_owner
from dpdistill.cli.terminal import amount, duration, give, note, say, warn, working


def plan(context: typer.Context, records: int | None, **_: Any) -> None:
    """Say what a run of distill would cost, show and take on this machine, and stop before anything is paid.

    Takes the options of distill. Time and memory are found on random records.
    """
    given = {"from_": None, **context.params}
    asked = asked_of(given)
    run_dir = None
    if given["to"] is not None:
        from dpdistill.run.output_folder import output_folder, owner_folder

        run_dir = owner_folder(output_folder(given["to"], given["overwrite"])[0])
    asked.caution()
    paid = asked.paid(given, run_dir)
    method, held = prepared(given, asked, paid)
    class_size = given["class_size"]
    if class_size is None and records is not None:
        class_size = max(1, records // len(held.schema.classes))
    schedule = asked.say_outlook(method, held.schema, class_size, paid["seed"], say)
    if asked.budget is None:
        say("Plan: no noise and no budget, so that nothing is paid: epsilon is infinite.")
    with working("timing the method on random records"):
        from dpdistill.run.capacity import capacity

        found = capacity(method, held.schema, max(1, records or len(held)), schedule, paid["seed"])
    record = held.X.itemsize * math.prod(held.schema.raw_shape)
    _say_capacity(found, max(0, found.records - len(held)) * record)
    if records is None:
        count_for_owner(held, asked.unit)
    how = "their number was counted" if records is None else "DATA was read"
    note(f"Seconds, memory and disk are for the owner of the records alone: {how}.")
    give(for_the_owner_only=True, counted=records is None)


def _signature() -> Any:
    """The options of `distill`, but for --from; DATA must be there and --out need not be."""
    taken = dict(signature(distill, eval_str=True).parameters)
    del taken["from_"]
    taken["data"] = taken["data"].replace(default=Parameter.empty)
    taken["to"] = taken["to"].replace(default=None)
    option = typer.Option(min=1, metavar="<int>", help="How many records, if that is public; counted if left out.")
    own = Parameter("records", Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[int | None, option])
    return signature(distill).replace(parameters=[*taken.values(), own], return_annotation=None)


plan.__signature__ = _signature()  # pyright: ignore[reportFunctionMemberAccess]


def _say_capacity(found: Any, unread: int) -> None:
    """Seconds, memory and disk; a warning where memory does not hold the records, `unread` bytes of them to come."""
    from dpdistill.storage.memory import machine_memory

    parts = {name: getattr(found, name) for name in ("compiling", "encoding", "releasing", "finishing")}
    listed = ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts.items() if seconds >= 0.5)
    needed, available = found.memory + unread, machine_memory()
    say(
        f"Plan: {found.records:,} records take about {duration(found.seconds)} on this machine"
        f"{f': {listed}' if listed else ''}."
    )
    features = f" and {amount(found.features)} of features, in memory or in DIR.run," if found.features else ""
    say(f"Plan: about {amount(needed)} of memory{features} and {amount(found.disk)} of disk.")
    give(records=found.records, seconds={**parts, "together": found.seconds})
    give(memory_bytes=needed, feature_bytes=found.features, disk_bytes=found.disk)
    if available is not None and needed > available:
        warn(f"Warning: this machine has {amount(available)} of memory: take fewer records a class, or --resize.")
