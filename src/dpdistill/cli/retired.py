"""Refuses removed options of commands, with the command or option to use instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpdistill.schema import DataError

_STUDENT = "students of a teacher have a command of their own, `dpdistill student DIR --test DATA --teacher PICTURES{}`"
_PAPERS = "the papers' protocol is `score: {mode: paper}` in a suite of `dpdistill benchmark`"
RETIRED: dict[str, dict[str, str]] = {
    "evaluate": {
        "--teacher": _STUDENT.format(""),
        "--taught-by": _STUDENT.format(" --taught-by krr"),
        "--slopes": _STUDENT.format(" --slopes"),
        "--then-set": _STUDENT.format(" --then-set"),
        "--student-epochs": _STUDENT.format(" --epochs N"),
        "--pictures": _STUDENT.format(" --pictures N"),
        "--classifiers": "use --classifier LDA,MLP, or --classifier fast",
        "--mode": _PAPERS,
        "--keep": f"{_PAPERS}, and `keep` is a fact of its data set",
    }
}
"""Removed options by command, with their replacements."""


def check_retired(command: str, words: Iterable[str]) -> None:
    """Refuses removed options of a command.

    Args:
        command: name of the command.
        words: words of the command line, or options of a file.

    Raises:
        DataError: a removed option, with its replacement.
    """
    retired = RETIRED.get(command, {})
    for word in words:
        if word == "--":
            return
        if (instead := retired.get(name := word.partition("=")[0])) is not None:
            raise DataError(f"`{command}` has no option {name}: {instead}.")


def refuse_retired(command: Any) -> None:
    """Makes a Typer command refuse its removed options."""
    if command.name not in RETIRED:
        return
    parse = command.parse_args

    def parsed(context: Any, words: list[str]) -> list[str]:
        check_retired(command.name, words)
        return parse(context, words)

    command.parse_args = parsed
