"""A command is one module and its test: nothing else has to name it."""

import json
import sys
from pkgutil import iter_modules

import pytest
import typer

from dpdistill import cli
from dpdistill.cli.global_options import with_common_options
from dpdistill.cli.terminal import run_app

GREET = '''
"""`dpdistill greet`: greetings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from dpdistill.api.options import option
from dpdistill.cli.expand import expand
from dpdistill.cli.terminal import give, say
from dpdistill.schema import DataError


@dataclass(frozen=True, kw_only=True)
class Greeting:
    PANEL: ClassVar[str] = "Output"
    times: int = option(1, "How often.")
    word: str | None = option(None, "What is said.", panel="Data", expert=True)

    def __post_init__(self) -> None:
        if self.times < 1:
            raise DataError(f"Expected times={self.times} >= 1.")


@expand
def greet(name: Annotated[str, typer.Argument(metavar="NAME")], *, how: Greeting) -> None:
    """Greet somebody."""
    give(name=name, times=how.times)
    say(f"{how.word or 'Hello'} {name}! " * how.times)
'''


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Returns an application to which the commands of a folder can be added."""
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])
    app = typer.Typer()
    app.callback()(lambda: None)
    yield app
    for name in ("greet", "stray"):
        sys.modules.pop(f"dpdistill.cli.{name}", None)
        vars(cli).pop(name, None)


def run(app, monkeypatch, *argv):
    monkeypatch.setattr(sys, "argv", ["dpdistill", *argv])
    return run_app(with_common_options(typer.main.get_command(app)))


def test_a_module_is_a_command(added, tmp_path, monkeypatch, capsys):
    (tmp_path / "greet.py").write_text(GREET)
    cli.add_commands(added, [str(tmp_path)])
    assert run(added, monkeypatch, "greet", "Ada", "--times", "2", "--word", "Hi") == 0
    assert capsys.readouterr().out.split() == ["Hi", "Ada!", "Hi", "Ada!"]
    assert run(added, monkeypatch, "greet", "Ada", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["exit_code"], found["name"], found["times"]) == (0, "Ada", 1)
    assert run(added, monkeypatch, "greet", "Ada", "--times", "0") == 2
    assert capsys.readouterr().err == "Error: Expected times=0 >= 1.\n"
    assert run(added, monkeypatch, "greet", "--help") == 0
    shown = capsys.readouterr().out
    assert shown.index(" Data ") < shown.index("--word") < shown.index(" Output ") < shown.index("--times")


def test_a_module_that_is_no_command_has_to_be_named(added, tmp_path):
    (tmp_path / "stray.py").write_text("def other(): ...")
    with pytest.raises(ImportError, match=r"Expected a function stray or a group app in dpdistill\.cli\.stray"):
        cli.add_commands(added, [str(tmp_path)])


def test_the_parts_of_commands_are_there():
    assert {found.name for found in iter_modules(cli.__path__)} >= cli.PARTS
    assert {*cli.FIRST} <= {command.name for command in cli.app.registered_commands}
