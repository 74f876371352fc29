"""Panels of --help, and options that only --help-all shows. Every option names its own panel."""

from __future__ import annotations

from typing import Any

import typer

from dpdistill.api.options import IMAGE_FORMATS, TABLE_FORMATS

MOST = 20
"""Options that --help shows at once; a command with more keeps those for experts for --help-all."""
ORDER = ("Data", "Privacy", "Persons", "Recipe", "Networks", "Students of a teacher", "Other scores", "Attack")
ORDER += ("Machine", "Output")
"""The panels, as --help shows them one below the other."""


class Expert(str):
    """The name of a panel, stated by an option for experts: `typer.Option(rich_help_panel=Expert("Machine"))`."""


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
"""Panels of options that state none: in the commands evaluate, audit, benchmark and results."""
_EXPERT_BY_NAME = frozenset(
    {"adjacency", "seed", "public", "straighten", "labels", "channels", "memory", "ridge", "taught-by", "slopes"}
    | {"then-set", "student-epochs", "generated", "distance", "reference-sql", "epochs", "widths"}
    | {"multiplier", "weights", "linearised", "layers", "peel", "at", "batch", "training-steps", "loss"}
)


def arrange(command: Any) -> None:
    """Puts the options of a command in the order of panels, and those for experts out of sight where there are many.

    Args:
        command: as typer makes it, with all of its options, --help-all among them.
    """
    _name_panels(command)
    _name_formats(command)
    order = {name: place for place, name in enumerate(ORDER)}
    command.params.sort(key=lambda param: order.get(_panel(param), -1))
    experts = _experts(command)
    if len([param for param in command.params if _name(param) and not param.hidden]) <= MOST + 1 or not experts:
        command.params = [param for param in command.params if _name(param) != "help-all"]
        return
    _hide(command, experts)


def _name_formats(command: Any) -> None:
    """Lets the help of a command list the formats of records: they are looked up when it is printed."""
    write = command.format_help

    def format_help(*given: Any) -> None:
        from dpdistill.sources.formats import image_titles, table_titles

        for param in command.params:
            if text := getattr(param, "help", None):
                for mark, titles in ((IMAGE_FORMATS, image_titles), (TABLE_FORMATS, table_titles)):
                    text = text.replace(mark, titles()) if mark in text else text
                param.help = text
        write(*given)

    command.format_help = format_help


def _name_panels(command: Any) -> None:
    """Gives a panel to options that state none."""
    for param in command.params:
        name = _name(param)
        if name and not _panel(param):
            named = next((panel for panel, names in _BY_NAME.items() if name in names), None)
            param.rich_help_panel = Expert(named) if named and name in _EXPERT_BY_NAME else named


def show_all(context: Any, param: Any, value: bool) -> None:
    """Shows the help with the options for experts, and ends."""
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
    """The word of an option, without dashes; empty for an argument."""
    return param.opts[0].removeprefix("--") if param.opts[0].startswith("--") else ""
