"""Help that can be read: every option of every command is in a panel, and --help shows at most twenty."""

import pytest
import typer
from run_command import dpdistill, succeeds

from dpdistill.cli import app
from dpdistill.cli.global_options import with_common_options
from dpdistill.cli.panels import MOST, ORDER, Expert


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


def test_every_option_is_in_a_panel():
    found = all_commands()
    assert {"distill", "sample", "schema draft", "audit method", "budget new"} <= {*found}
    for name, command in found.items():
        panels = {option: param.rich_help_panel for option, param in options(command).items()}
        assert {option for option, panel in panels.items() if panel not in ORDER} == set(), name


def test_panels_follow_one_order():
    command = all_commands()["distill"]
    panels = [param.rich_help_panel for param in options(command).values()]
    assert [*dict.fromkeys(panels)] == ["Data", "Privacy", "Persons", "Recipe", "Machine", "Output"]
    experts = {option for option, param in options(command).items() if isinstance(param.rich_help_panel, Expert)}
    assert experts == {
        *("--channels", "--straighten", "--labels", "--adjacency", "--class-size", "--non-private", "--public"),
        *(
            "--seed",
            "--memory",
            "--workers",
            "--ray",
            "--share",
            "--quiet",
            "--config",
            "--encoder",
            "--title",
            "--sign",
        ),
    }


def test_help_shows_twenty_options_at_most():
    for name, command in all_commands().items():
        shown = [option for option, param in options(command).items() if not param.hidden]
        assert len(shown) <= MOST + 2, name  # --help and --help-all
    assert MOST == 20


@pytest.mark.parametrize("name", ["distill", "evaluate", "attack training"])
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
