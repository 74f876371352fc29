"""Help that can be read: every option of a large command is in a panel, and --help shows at most twenty."""

import pytest
import typer
from test_cli import dpdistill, succeeds

from dpdistill.cli import app
from dpdistill.cli.global_options import with_common_options
from dpdistill.cli.panels import EXPERT, MOST, PANELS


def commands(command, name=""):
    below = getattr(command, "commands", {})
    if not below:
        yield name.strip(), command
    for word, each in below.items():
        yield from commands(each, f"{name} {word}")


def options(command):
    return {param.opts[0]: param for param in command.params if param.opts[0].startswith("--")}


def all_commands():
    return dict(commands(with_common_options(typer.main.get_command(app))))


def test_every_option_is_in_one_panel_and_experts_options_exist():
    listed = [name for names in PANELS.values() for name in names]
    assert len(listed) == len(set(listed))
    known = {option.removeprefix("--") for command in all_commands().values() for option in options(command)}
    assert known - {*listed} == set()
    assert {*listed} <= known
    assert {*listed} >= EXPERT


def test_help_shows_twenty_options_at_most():
    for name, command in all_commands().items():
        shown = [option for option, param in options(command).items() if not param.hidden]
        assert len(shown) <= MOST + 2, name  # --help and --help-all


@pytest.mark.parametrize("name", ["distill", "evaluate", "audit training"])
def test_help_all_shows_the_others_as_well(name):
    few, everything = succeeds(*name.split(), "--help"), succeeds(*name.split(), "--help-all")
    hidden = [option for option, param in options(all_commands()[name]).items() if param.hidden and option != "--cap"]
    assert len(hidden) > 3
    assert f"{len(hidden)} more options: --help-all" in few
    for option in hidden:
        assert f"{option} " in everything
        assert f"{option} " not in few
    assert "Output" in few
    assert succeeds(*name.split(), "--help") == few


def test_a_small_command_has_no_help_all():
    code, _, err = dpdistill("account", "--help-all")
    assert code == 2
    assert "--help-all" in err
