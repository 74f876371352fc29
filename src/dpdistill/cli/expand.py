"""Turns dataclasses of options into options of a Typer command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from dpdistill.cli.panels import Expert


class Fields:
    """Selects the fields of a dataclass that are options of a command: Annotated[Reading, Fields("sql", "schema")].

    Args:
        names: names of the fields, all by default; other fields keep their defaults.
        help: texts for --help that replace the dataclass's own, by field.
    """

    def __init__(self, *names: str, **help: str) -> None:
        self.names, self.help = names, help


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Turns parameters of a command that are dataclasses of options (`dpdistill.api.options`) into single options.

    Args:
        command: a function; a parameter annotated with a dataclass becomes one option per field, or per field that
            `Fields` names.

    Returns:
        The function for Typer, with one parameter per field. The dataclasses check their values before the command
        begins.
    """
    taken, hints = signature(command).parameters, get_type_hints(command, include_extras=True)
    groups = {name: group for name in taken if (group := _group(hints[name])) is not None}

    @wraps(command)
    def run(**given: Any) -> None:
        made = {name: kind(**{f.name: _value(f, given.pop(f.name)) for f in options})
                for name, (kind, options, _) in groups.items()}  # fmt: skip
        command(**given, **made)

    parameters: list[Parameter] = []
    for name, parameter in taken.items():
        if name in groups:
            parameters += _parameters(*groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name]))
    run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _group(hint: Any) -> tuple[Any, list[Any], dict[str, str]] | None:
    """Returns (a dataclass, its fields that are options here, their help texts); None for any other annotation."""
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if not is_dataclass(kind):
        return None
    options = {each.name: each for each in fields(kind) if "option" in each.metadata}
    stated = next((each for each in notes if isinstance(each, Fields)), Fields())
    return kind, [options[name] for name in stated.names or options], stated.help


def _parameters(kind: Any, options: list[Any], help: dict[str, str]) -> list[Parameter]:
    """Returns one keyword parameter per field, annotated for Typer."""
    hints, made = get_type_hints(kind), []
    for each in options:
        how = dict(each.metadata["option"])
        how["help"] = help.get(each.name, how["help"])
        name, stated = how.pop("name"), how.pop("kind")
        panel, expert = how.pop("panel") or getattr(kind, "PANEL", None), how.pop("expert")
        how["rich_help_panel"] = Expert(panel) if panel and expert else panel
        hint = hints[each.name] if stated is None else stated | None
        annotation = Annotated[hint, typer.Option(*([name] if name else []), **how)]
        default = None if each.default == () else each.default
        made.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return made


def _value(field: Any, value: Any) -> Any:
    """Returns a field's value from an option's value: a list becomes a tuple."""
    if isinstance(field.default, tuple):
        return tuple(value or ())
    return value
