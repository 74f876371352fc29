"""Options that every command has: --json, --quiet and --config."""

from __future__ import annotations

import platform
import tomllib
from copy import copy
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.certificate.versions import versions_of
from dpdistill.cli.panels import Expert, arrange, show_all
from dpdistill.cli.terminal import mode, note
from dpdistill.schema import DataError

CONFIG = "dpdistill.toml"
PACKAGES = ("jax", "numpy", "scipy", "dp-accounting", "scikit-learn", "pandas", "pyarrow")
"""Packages whose versions may change the result of a run; the last three are an extra."""


def versions() -> dict[str, str | None]:
    """Returns the versions of this package, Python and PACKAGES, without importing them; None if not installed."""
    from dpdistill import __version__

    return {"dpdistill": __version__, "python": platform.python_version(), **versions_of(PACKAGES)}


def with_common_options(command: Any) -> Any:
    """Adds the options to a command, or to a group and all commands below it; --config to commands alone.

    Args:
        command: as typer makes it.

    Returns:
        The same command, whose numeric options accept only digits from 0 to 9.
    """
    commands = getattr(command, "commands", {})
    for param in command.params:
        _take_digits(param)
    command.params += [copy(param) for param in _params() if not commands or param.name in ("as_json", "quiet")]
    for each in commands.values():
        with_common_options(each)
    if not commands:
        arrange(command)
    return command


def _take_digits(param: Any) -> None:
    """Makes a numeric parameter refuse 1_0, which Python reads as 10, and digits of other scripts."""
    process = param.process_value

    def processed(context: Any, value: Any) -> Any:
        found = process(context, value)
        number = isinstance(found, int | float) and not isinstance(found, bool)
        if number and isinstance(value, str) and ("_" in value or not value.isascii()):
            raise DataError(f"Expected {param.opts[-1]} as a number of digits from 0 to 9; got {value!r:.80}.")
        return found

    param.process_value = processed


@cache
def _params() -> list[Any]:
    """Returns the options as Typer builds them; cached, since building takes 3 ms."""
    app = typer.Typer(add_completion=False)
    app.command()(_common)
    return [param for param in typer.main.get_command(app).params if param.name != "help"]


def _keep(context: Any, param: Any, value: bool) -> None:
    if value:
        setattr(mode, param.name, True)


def _read(context: Any, param: Any, value: str | None) -> None:
    if context.resilient_parsing or (value is None and not Path(CONFIG).is_file()):  # the first: a shell asks
        return
    names, at = [], context
    while at.parent is not None:
        names, at = [at.info_name, *names], at.parent
    stated = read_options(Path(CONFIG if value is None else value), ".".join(names), context.command.params, at.command)
    context.default_map = {**(context.default_map or {}), **stated}
    if value is None and stated:
        note(f"{CONFIG} states options of `{' '.join(names)}`; those of the command line override them.")


def _common(
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            rich_help_panel="Output",
            is_eager=True,
            expose_value=False,
            callback=_keep,
            help="Print the result as one JSON object.",
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            rich_help_panel=Expert("Output"),
            is_eager=True,
            expose_value=False,
            callback=_keep,
            help="Print no notes and no progress.",
        ),
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=Expert("Output"),
            is_eager=True,
            expose_value=False,
            callback=_read,
            help=f"TOML file of options, one section per command; {CONFIG} by default, if it exists.",
        ),
    ] = None,
    help_all: Annotated[
        bool,
        typer.Option(
            "--help-all",
            rich_help_panel="Output",
            is_eager=True,
            expose_value=False,
            callback=show_all,
            help="Show every option.",
        ),
    ] = False,
) -> None:
    """Declares the parameters; never called."""


def read_options(path: Path, section: str, params: list[Any], root: Any) -> dict[str, Any]:
    """Returns a command's options from a file, as if typed on the command line.

    Args:
        path: path of a TOML file: `[distill]`, then `epsilon = 0.5`, `out = "shared"`, `set = ["steps=20"]`.
        section: section of the command: "distill", "schema.draft".
        params: parameters of the command.
        root: the group of all commands, whose names are the sections.

    Returns:
        Values by the parameters' names.

    Raises:
        DataError: a file that cannot be read, an unknown section, an unknown option,
            or an invalid value.
    """
    try:
        found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{path} cannot be read as UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML: {error}.") from None
    _check_sections(found, root, path, "")
    for name in section.split("."):
        found = found.get(name, {})
    known = {opt.lstrip("-"): param for param in params for opt in param.opts if param.expose_value}
    values: dict[str, Any] = {}
    for key, value in found.items():
        if (param := known.get(key.replace("_", "-"))) is None:
            raise DataError(f"Unknown option {key!r} in [{section}] of {path}: it may hold {', '.join(known)}.")
        values[param.name] = _as_typed(value, getattr(param, "multiple", False), f"{key} in [{section}] of {path}")
    return values


def _check_sections(found: dict[str, Any], group: Any, path: Path, within: str) -> None:
    """Refuses options outside a command's section: they would be ignored, and the defaults would be paid."""
    for name, stated in found.items():
        if (command := group.commands.get(name)) is None:
            where = f"[{within[:-1]}] of {path}" if within else f"{path}"
            raise DataError(
                f"Unknown section {name!r} in {where}: options stand below a command: [distill], [schema.draft]."
            )
        if not isinstance(stated, dict):
            raise DataError(f"Expected [{within}{name}] of {path} as a section; got {stated!r}.")
        if hasattr(command, "commands"):
            _check_sections(stated, command, path, f"{within}{name}.")


def _as_typed(value: Any, several: bool, what: str) -> Any:
    """Returns a value as the command line passes it: texts and flags."""
    if several and isinstance(value, dict):
        return [f"{name}={_text(item, what)}" for name, item in value.items()]
    if several:
        return [_text(item, what) for item in (value if isinstance(value, list) else [value])]
    return value if isinstance(value, bool) else _text(value, what)


def _text(value: Any, what: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(_text(item, what) for item in value)
    if isinstance(value, str | int | float):
        return str(value)
    raise DataError(f"Expected {what} as a text, a number, true or false, or a list of them; got {value!r}.")
