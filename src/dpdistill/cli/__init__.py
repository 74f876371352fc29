"""The command line: every module of this package is a command, except those in PARTS."""

from importlib import import_module
from pkgutil import iter_modules

import typer

from dpdistill.cli import (
    audit_method,  # noqa: F401 - adds its command, as the next three do
    audit_run,  # noqa: F401
    audit_set,  # noqa: F401
    audit_shadows,  # noqa: F401
)
from dpdistill.cli.app import app, main

PARTS = frozenset(
    {"app", "audit_method", "audit_run", "audit_set", "audit_shadows", "compile_cache", "expand", "global_options"}
    | {"listener", "malloc", "options", "panels", "passphrase", "progress", "streams", "terminal"}
)
"""Modules that are not commands: shared code, and parts of large commands."""
FIRST = (
    "distill",
    "plan",
    "demo",
    "evaluate",
    "student",
    "sample",
    "fill",
    "count",
    "export",
    "report",
    "sign",
    "verify",
)
FIRST += ("methods", "account")
"""Commands in the order of use; other commands follow by name, then groups of commands."""


def add_commands(to: typer.Typer, path: list[str]) -> None:
    """Adds every command to an application: NAME.py defines the function NAME, or a group of commands `app`.

    Args:
        to: the application.
        path: folders whose modules are commands or parts.

    Raises:
        ImportError: a module that is neither a command nor named in PARTS.
    """
    names = {found.name for found in iter_modules(path) if not found.ispkg} - PARTS
    for name in sorted(names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name)):
        module = import_module(f"{__name__}.{name}")
        if isinstance(group := getattr(module, "app", None), typer.Typer):
            to.add_typer(group, name=name)
        elif callable(command := getattr(module, name, None)):
            to.command(name=name)(command)
        else:
            raise ImportError(f"Expected a function {name} or a group app in {module.__name__}, or its name in PARTS.")


add_commands(app, list(__path__))

__all__ = ["add_commands", "app", "main"]
