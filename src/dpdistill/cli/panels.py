"""Arranges options in panels of --help, and hides expert options, which --help-all shows."""

from __future__ import annotations

from typing import Any

import typer

from dpdistill.api.options import IMAGE_FORMATS, TABLE_FORMATS

MOST = 20
"""Number of options that --help shows; a command with more hides expert options until --help-all."""
ORDER = ("Data", "Privacy", "Persons", "Recipe", "Networks", "Students of a teacher", "Other scores", "Attack")
ORDER += ("Machine", "Output")
"""Panels in the order of --help."""


class Expert(str):
    """Name of a panel that marks its option as expert: `typer.Option(rich_help_panel=Expert("Machine"))`."""


def arrange(command: Any) -> None:
    """Sorts the options of a command by panel, and hides expert options where there are many.

    Args:
        command: a complete Typer command, including --help-all.
    """
    _name_formats(command)
    order = {name: place for place, name in enumerate(ORDER)}
    command.params.sort(key=lambda param: order.get(_panel(param), -1))
    experts = _experts(command)
    if len([param for param in command.params if _name(param) and not param.hidden]) <= MOST + 1 or not experts:
        command.params = [param for param in command.params if _name(param) != "help-all"]
        return
    _hide(command, experts)


def _name_formats(command: Any) -> None:
    """Makes the help of a command list the formats of records, which are looked up when the help is printed."""
    write = command.format_help

    def format_help(*given: Any) -> None:
        from dpdistill.sources.formats import image_titles, table_titles

        stated = {param: param.help for param in command.params if getattr(param, "help", None)}
        try:
            for param, text in stated.items():
                for mark, titles in ((IMAGE_FORMATS, image_titles), (TABLE_FORMATS, table_titles)):
                    text = text.replace(mark, titles()) if mark in text else text
                param.help = text
            write(*given)
        finally:
            for param, text in stated.items():
                param.help = text

    command.format_help = format_help


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
