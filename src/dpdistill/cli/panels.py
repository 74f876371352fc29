"""Panels of --help: one table of options by panel, and of those that only --help-all shows."""

from __future__ import annotations

from typing import Any

import typer

MOST = 20
"""Options that --help shows at once; a command with more keeps those of EXPERT for --help-all."""
PANELS: dict[str, tuple[str, ...]] = {
    "Data": (
        *("test", "sql", "schema", "classes", "bounds", "resize", "channels", "straighten", "labels", "lenient"),
        *("members", "non-members", "non-members-sql", "reference", "reference-sql", "records", "data", "images"),
        *("label", "header", "names", "separator", "decimal", "comment"),
    ),
    "Privacy": (
        *("epsilon", "delta", "adjacency", "ledger", "non-private", "cap", "noise-multiplier"),
        *("rounds", "sampling-prob"),
    ),
    "Persons": ("unit-column", "rows-per-unit"),
    "Recipe": ("method", "recipe", "per-class", "set", "public", "from", "seed", "recipes"),
    "Networks": ("architecture", "training", "nets", "flip", "epochs", "generated"),
    "Students of a teacher": ("teacher", "taught-by", "pictures", "slopes", "then-set"),
    "Other scores": ("kernel", "ridge", "classifier", "distance"),
    "Attack": (
        *("canaries", "leak", "runs", "fresh", "before", "after", "steps", "at", "batch", "widths", "multiplier"),
        *("weights", "positive", "loss", "training-steps", "linearised", "layers", "peel"),
    ),
    "Machine": ("workers", "ray", "share", "memory", "jobs", "class-size"),
    "Output": (
        *("out", "to", "overwrite", "include-scores", "n", "kind", "format", "about", "about-file", "title", "run"),
        *("json", "quiet", "config", "help-all"),
    ),
}
EXPERT = frozenset(
    {"adjacency", "seed", "public", "non-private", "straighten", "labels", "channels", "memory", "class-size", "ray"}
    | {"share", "quiet", "config", "ridge", "generated"}
    | {"distance", "reference-sql", "epochs", "widths", "multiplier", "weights", "linearised"}
    | {"layers", "peel", "at", "batch", "training-steps", "loss"}
)


def arrange(command: Any) -> None:
    """Puts the options of a command into panels, and those for experts out of sight where there are many.

    Args:
        command: as typer makes it, with all of its options, --help-all among them.
    """
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    for param in command.params:
        if _name(param) in panel_of:
            param.rich_help_panel = panel_of[_name(param)]
    order = {name: place for place, name in enumerate(panel_of)}
    command.params.sort(key=lambda param: order.get(_name(param), -1))
    experts = _experts(command)
    if len([param for param in command.params if _name(param) and not param.hidden]) <= MOST + 1 or not experts:
        command.params = [param for param in command.params if _name(param) != "help-all"]
        return
    _hide(command, experts)


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
    return [param for param in command.params if _name(param) in EXPERT]


def _hide(command: Any, experts: list[Any]) -> None:
    for param in experts:
        param.hidden = True
    command.epilog = f"{len(experts)} more options: --help-all"


def _name(param: Any) -> str:
    """The word of an option, without dashes; empty for an argument."""
    return param.opts[0].removeprefix("--") if param.opts[0].startswith("--") else ""
