"""Arranges options in panels of --help, and hides expert options, which --help-all shows."""

from __future__ import annotations

from typing import Any

import typer

MOST = 20
"""Number of options that --help shows; a command with more hides expert options until --help-all."""
ORDER = ("Data", "Privacy", "Persons", "Recipe", "Networks", "Students of a teacher", "Other scores", "Attack")
ORDER += ("Machine", "Output")
"""Panels in the order of --help."""


class Expert(str):
    """Name of a panel that marks its option as expert: `typer.Option(rich_help_panel=Expert("Machine"))`."""


_BY_NAME: dict[str, tuple[str, ...]] = {
    "Data": (
        *("test", "sql", "schema", "classes", "bounds", "resize", "channels", "straighten", "labels", "lenient"),
        *("members", "non-members", "non-members-sql", "reference", "reference-sql", "records", "data", "images"),
    ),
    "Privacy": ("epsilon", "delta", "adjacency", "ledger", "non-private", "no-privacy", "cap"),
    "Persons": ("unit-column", "rows-per-unit"),
    "Recipe": ("method", "recipe", "per-class", "set", "public", "seed"),
    "Networks": ("architecture", "training", "nets", "flip", "epochs", "generated"),
    "Students of a teacher": ("teacher", "taught-by", "pictures", "slopes", "then-set"),
    "Other scores": ("kernel", "ridge", "classifier", "distance"),
    "Attack": (
        *("canaries", "leak", "runs", "fresh", "before", "after", "steps", "at", "batch", "widths", "multiplier"),
        *("weights", "positive", "loss", "training-steps", "linearised", "layers", "peel"),
    ),
    "Machine": ("jobs", "memory"),
    "Output": ("out", "to", "overwrite", "include-scores", "n", "kind", "title", "run"),
}
"""Panels of options that state none, in the commands evaluate, audit, benchmark and results."""
_EXPERT_BY_NAME = frozenset(
    {"adjacency", "seed", "public", "straighten", "labels", "channels", "memory", "ridge", "taught-by", "slopes"}
    | {"then-set", "student-epochs", "generated", "distance", "reference-sql", "epochs", "widths"}
    | {"multiplier", "weights", "linearised", "layers", "peel", "at", "batch", "training-steps", "loss"}
)


def arrange(command: Any) -> None:
    """Sorts the options of a command by panel, and hides expert options where there are many.

    Args:
        command: a complete Typer command, including --help-all.
    """
    _name_panels(command)
    order = {name: place for place, name in enumerate(ORDER)}
    command.params.sort(key=lambda param: order.get(_panel(param), -1))
    experts = _experts(command)
    if len([param for param in command.params if _name(param) and not param.hidden]) <= MOST + 1 or not experts:
        command.params = [param for param in command.params if _name(param) != "help-all"]
        return
    _hide(command, experts)


def _name_panels(command: Any) -> None:
    """Sets the panel of options that state none."""
    for param in command.params:
        name = _name(param)
        if name and not _panel(param):
            named = next((panel for panel, names in _BY_NAME.items() if name in names), None)
            param.rich_help_panel = Expert(named) if named and name in _EXPERT_BY_NAME else named


def show_all(context: Any, param: Any, value: bool) -> None:
    """Prints the help with expert options, and exits."""
    if not value or context.resilient_parsing:
        return
    experts, command = _experts(context.command), context.command
    for each in experts:
        each.hidden = False
    command.epilog = None
    try:
        typer.echo(context.get_help(), nl=False)
    finally:
        _hide(command, experts)
    raise typer.Exit()


def _experts(command: Any) -> list[Any]:
    return [param for param in command.params if isinstance(getattr(param, "rich_help_panel", None), Expert)]


def _hide(command: Any, experts: list[Any]) -> None:
    for param in experts:
        param.hidden = True
    command.epilog = f"{len(experts)} more options: --help-all"


def _panel(param: Any) -> str:
    return getattr(param, "rich_help_panel", None) or ""


def _name(param: Any) -> str:
    """Returns the name of an option without dashes; empty for an argument."""
    return param.opts[0].removeprefix("--") if param.opts[0].startswith("--") else ""
