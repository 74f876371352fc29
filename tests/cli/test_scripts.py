"""The command line in scripts: JSON, exit codes, silence, options in a file, shells that complete, refusals at once."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import contract
import numpy as np
import pytest
import typer
from run_command import dpdistill, refused, succeeds

from dpdistill import __version__, begin_ledger
from dpdistill.api import checks
from dpdistill.api import run as runs
from dpdistill.api.prepare import CHOSEN_KERNEL
from dpdistill.api.reading import check_source
from dpdistill.api.recipes import build
from dpdistill.cli import app, listener, progress, terminal
from dpdistill.cli.global_options import with_common_options
from dpdistill.folder.save import read_distilled, write_distilled
from dpdistill.method import Distilled
from dpdistill.methods import METHODS
from dpdistill.recipe.kernels import KERNELS
from dpdistill.recipe.published import published
from dpdistill.recipe.saved import check_kind, check_private
from dpdistill.schema import DataError, Schema
from dpdistill.sources.tables.schema_file import read_schema

SMALL = ("--method", "ldpdc", "--set", "sampling_prob=1", "--per-class", 1)
SCHEMA = """
dpdistill: table schema
reviewed: true
label: ill
classes: ['no', 'yes']
columns:
  - {name: age, kind: integer, bounds: [0, 100]}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scripts") / "shared"
    succeeds("distill", "digits:train", "--out", folder, *SMALL)
    return folder


def as_json(*argv: object, code: int = 0) -> dict:
    found, out, _ = dpdistill(*argv, "--json")
    assert found == code
    result = json.loads(out)
    assert result["exit_code"] == code
    return result


def test_settings_are_refused_as_the_methods_refuse_them():
    stated = [f"{name}={value}" for name in ("steps", "share", "kernel", "expand") for value in ("-3", "x", "1e99", "")]
    for each in (*stated, "nosuch=1", "rounds", "auxiliary=x", "sampling_prob=0", "sampling_prob=nan", "steps=1=2"):
        for method in ("dos-kip", "dp-merf", "dos", "dp-ntk"):
            assert sentence(checks.check_settings, method, [each]) == sentence(build, method, [each]), each


@pytest.mark.parametrize("method", [name for name in METHODS if not hasattr(METHODS[name], "per_class")])
def test_records_a_class_are_refused_by_methods_that_store_a_number_of_records(method):
    expected = f"Method {method} stores as many records as --set samples=N says: leave --per-class out."
    assert sentence(partial(build, per_class=5), method, []) == expected
    assert sentence(checks.check_settings, method, [], 5) == expected
    assert "samples" in {field.name for field in dataclasses.fields(METHODS[method])}


@pytest.mark.parametrize("method", METHODS)
def test_records_of_the_wrong_kind_are_refused_as_the_driver_refuses_them(method, shared, tmp_path):
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    table, images = read_schema(tmp_path / "schema.yaml").schema, read_distilled(shared).schema
    table = contract.fitting(method, table)
    late = [sentence(check_kind, METHODS[method](), schema) for schema in (images, table)]
    no_form = sentence(check_private, METHODS[method]())
    assert [sentence(checks.check_kind, method, table, False) for table in (False, True)] == late
    assert sentence(checks.check_kind, method, Schema not in METHODS[method].schemas, True) == no_form


def sentence(function, *args) -> str | None:
    try:
        function(*args)
    except ValueError as error:
        return str(error)
    return None


# JSON


def test_every_command_takes_json_and_quiet_and_commands_take_a_config():
    def commands(command):
        below = getattr(command, "commands", {}).values()
        return [command, *(each for group in below for each in commands(group))]

    found = commands(with_common_options(typer.main.get_command(app)))
    assert len(found) >= 18
    for command in found:
        options = {opt for param in command.params for opt in param.opts}
        assert {"--json", "--quiet"} <= options, command.name
        assert ("--config" in options) != hasattr(command, "commands"), command.name


def test_every_command_has_its_keys_in_the_page_for_scripts():
    def commands(command, name):
        below = getattr(command, "commands", {})
        return {name} if not below else {c for k, each in below.items() for c in commands(each, f"{name} {k}".strip())}

    page = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text()
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall("`([^`]+)`", row)}
    groups = ("audit", "attack")
    names = commands(typer.main.get_command(app), "")
    found = {f"{name.split()[0]} …" if name.split()[0] in groups else name for name in names}
    assert len(found) > 10
    assert found - listed == set()


def test_distill_and_verify_in_json(tmp_path, shared):
    found = as_json("distill", "digits:train", "--out", tmp_path / "x", *SMALL)
    assert (found["epsilon"], found["delta"], found["adjacency"]) == (1.0, 1e-5, "add-remove")
    assert found["folder"] == str(tmp_path / "x")
    assert found["run_folder"] == str(tmp_path / "x.run")
    assert found["plan"]["releases"] == 1
    assert found["text"][0].startswith(f"{tmp_path / 'x'}: epsilon = 1 at delta = 1e-05")
    found = as_json("verify", shared)
    assert found["passed"] is True
    assert {key: value for key, value in found["checks"][1].items() if key != "detail"} == {
        "name": "files",
        "passed": True,
        "compared": True,
    }
    assert (found["outcome"], found["text"][-1]) == ("PASSED", "PASSED")
    failed = as_json("verify", tmp_path / "missing", code=1)
    assert (failed["passed"], failed["outcome"]) == (False, "FAILED")
    assert failed["checks"][0]["name"] == "certificate"


def test_account_methods_versions_and_samples_in_json(shared, tmp_path):
    found = as_json("account", "--epsilon", 1)
    assert found["noise_multiplier"] == pytest.approx(3.7306, rel=1e-4)
    assert found["epsilons"]["1e-05"] == pytest.approx(1.0)
    listed = as_json("methods")["methods"]
    assert set(listed) == set(METHODS)
    assert listed["ldpdc"]["fields"]["per_class"]["default"] == "10"
    assert as_json("--version")["dpdistill"] == __version__
    assert as_json("report", shared)["page"] == str(shared / "report.html")


def test_what_has_no_more_pictures_says_how_to_have_them(shared, tmp_path):
    for kind, lacks in (("drawn", "no released classifier"), ("generated", "no generator")):
        said = refused("sample", shared, "--n", 3, "--out", tmp_path / "more.npz", "--kind", kind)
        assert f"shared has {lacks}" in said
        assert "distill --from DIR.run --set generator_steps=2000 --out OTHER" in said
        assert "say --kind" not in said
    (shared / "generator.npz").touch()
    said = refused("sample", shared, "--n", 3, "--out", tmp_path / "more.npz", "--kind", "drawn")
    (shared / "generator.npz").unlink()
    assert said == f"{shared} has no released classifier, but a generator: use --kind generated."


def test_json_leaves_stdout_to_the_object_and_a_refusal_leaves_it_empty(shared):
    code, out, err = dpdistill("verify", shared, "--json")
    assert code == 0
    assert "ok   certificate: " in err
    assert json.loads(out)["text"][0].startswith("ok   certificate: ")
    assert refused("verify", "--json") == refused("verify")


def test_what_is_not_finite_is_null(tmp_path):
    found = as_json("distill", "digits:train", "--out", tmp_path / "x", *SMALL, "--non-private")
    assert found["epsilon"] is None
    assert terminal._finite({"a": [float("nan"), 1.0], 2: float("inf")}) == {"a": [None, 1.0], "2": None}


# Tables


def test_tables_fit_80_columns_without_a_broken_word(capsys):
    classes = (
        "Spruce/Fir",
        "Lodgepole Pine",
        "Ponderosa Pine",
        "Cottonwood/Willow",
        "Aspen",
        "Douglas-fir",
        "Krummholz",
    )
    header = ("classifier (honest)", "weighted F1", "macro ROC", *(f"accuracy of {name}" for name in classes))
    rows = [("gradient boosting", *(f"0.{k}1{n}" for k in range(9))) for n in range(3)]
    terminal.say_table(header, rows)
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in out
    words = {word for name in header for word in name.split()}
    assert words <= set(out.split())
    for n in range(3):
        numbers = [word for line in lines if line.startswith("gradient boosting") for word in line.split()[2:]]
        assert [word for word in numbers if word.endswith(f"1{n}")] == list(rows[n][1:])
    assert sum(line.startswith("gradient boosting") for line in lines) == 6


def test_a_table_that_fits_is_one_table(capsys):
    terminal.say_table(("run", "epsilon"), [("one", "0.5"), ("[bold]two", "1.25")])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["run        epsilon", "one        0.5", "[bold]two  1.25"]


# Silence and exit codes


def test_quiet_leaves_notes_out_and_warnings_and_errors_in(tmp_path):
    command = ("distill", "digits:train", *SMALL, "--out")
    assert "Plan: 1 release at epsilon = 1, delta = 1e-05" in dpdistill(*command, tmp_path / "a")[2]
    code, out, err = dpdistill(*command, tmp_path / "b", "--quiet")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'b'}: epsilon = 1 ")
    assert "Error: Expected epsilon=0.0 > 0." in dpdistill(*command, tmp_path / "c", "--epsilon", 0, "--quiet")[2]
    loud = dpdistill("account", "--noise-multiplier", 0.4, "--quiet")[2]
    assert re.fullmatch(r"Warning: epsilon = 13\.\d+ does not protect .* up to 2\d\.\d % of the members\..*\n", loud)


def test_a_crash_has_an_exit_code_of_its_own_and_a_traceback(capsys):
    def crash(**_):
        raise ZeroDivisionError("a mistake of the program")

    assert terminal.run_app(crash) == terminal.CRASHED == 3
    assert "ZeroDivisionError: a mistake of the program" in capsys.readouterr().err
    assert (terminal.DONE, terminal.FAILED, terminal.REFUSED, terminal.STOPPED) == (0, 1, 2, 130)


def test_time_left_is_told_from_a_minute_on():
    assert progress.time_left(30.0, 1, 1) == ""
    assert progress.time_left(30.0, 1, 3) == ", about 2 minutes left"
    assert progress.time_left(3600.0, 1, 3) == ", about 3 hours left"
    assert progress.time_left(10.0, 0, 3) == ""


def progress_at(monkeypatch, steps, parts=None):
    """The seconds left that a bar states after each of (seconds on a clock, steps done, their total)."""
    clock, left = iter([now for now, *_ in steps]), []
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    bar = progress.Bar(parts)
    for _, done, total in steps:
        bar("releasing", done, total)
        left.append(list(bar._paces.values())[-1].seconds)
    return left


def test_progress_without_a_terminal_tells_the_time_left_after_the_second_step(capsys, monkeypatch):
    steps = [(0.0, 0, 10), (100.0, 1, 10), (110.0, 2, 10), (220.0, 5, 10), (300.0, 10, 10)]
    # The first makes features and compiles: what is left is told by the others.
    assert progress_at(monkeypatch, steps) == [None, None, 80.0, 150.0, 0.0]
    assert capsys.readouterr().err.splitlines() == [
        "releasing: 1 of 10",
        "releasing: 2 of 10, about 2 minutes left",
        "releasing: 5 of 10, about 3 minutes left",
        "releasing: 10 of 10",
    ]


@pytest.mark.parametrize("start", [0, 40], ids=["new", "resumed"])
@pytest.mark.parametrize("often", [1, 10])
def test_the_time_left_is_within_a_factor_of_two_from_the_second_step_on(monkeypatch, start, often):
    rng = np.random.default_rng(start)
    costs = rng.uniform(0.6, 1.4, 200) * np.linspace(1.0, 1.5, 200)
    costs[start] += 150.0
    clock = np.concatenate([np.zeros(start + 1), np.cumsum(costs[start:])])
    steps = [(clock[done], done, 200) for done in range(start, 201, often)]
    left = progress_at(monkeypatch, steps)
    assert left[:2] == [None, None]
    for (now, _, _), seconds in list(zip(steps, left, strict=True))[2:-1]:
        assert 0.5 < seconds / (clock[-1] - now) < 2


def test_the_time_left_is_that_of_one_kind_of_step(capsys, monkeypatch):
    # Thirty rounds of a second, one of a minute, and as many as make 100 of ten: each kind compiles for 80 seconds.
    costs = np.concatenate([[81.0], np.full(29, 1.0), [140.0], [90.0], np.full(68, 10.0)])
    clock = np.concatenate([[0.0], np.cumsum(costs)])
    left = progress_at(monkeypatch, [(clock[t], t, 100) for t in range(101)], {"releasing": [30, 31, 100]})
    np.testing.assert_allclose(np.float64(left[2:30]), 30 - np.arange(2, 30), rtol=1e-9)
    assert left[30:33] == [None, None, None]
    np.testing.assert_allclose(np.float64(left[33:]), 10 * (100 - np.arange(33, 101)), rtol=1e-9)
    monkeypatch.setattr(progress, "SAY_EVERY", 20.0)
    progress_at(monkeypatch, [(clock[t], t, 100) for t in range(4)], {"releasing": [30, 100]})
    assert capsys.readouterr().err.splitlines()[-1] == "releasing: 2 of 100, about 28 seconds left of the first 30"


# Options in a file


def test_options_in_a_file_are_those_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(
        '[distill]\ndata = "digits:train"\nout = "one"\nmethod = "ldpdc"\nepsilon = 0.5\nper_class = 3\n'
        "[distill.set]\nsampling_prob = 1\n[account]\nepsilon = 2\n"
    )
    assert as_json("distill", "--config", "mine.toml")["epsilon"] == 0.5
    assert as_json("distill", "--config", "mine.toml", "--epsilon", 2, "--out", "two")["epsilon"] == 2.0
    recipe = json.loads(Path("one/recipe.json").read_text())
    assert (recipe["fields"]["per_class"], recipe["fields"]["sampling_prob"]) == (3, 1.0)
    Path("mine.toml").rename("dpdistill.toml")
    code, out, err = dpdistill("account")
    assert code == 0
    assert "epsilon = 2.0000 at delta = 1e-05" in out
    assert err == "dpdistill.toml states options of `account`; those of the command line override them.\n"


def test_the_options_in_the_page_for_scripts_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "scripts.md"
    (text,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    Path("dpdistill.toml").write_text(text)
    Path("schema.yaml").write_text(SCHEMA)
    Path("patients.csv").write_text("age,ill\n30,no\nold,yes\n")
    begin_ledger("patients.ledger", 1.0)
    code, _, err = dpdistill("distill")
    assert code == 2
    assert err.splitlines()[-1].startswith("Error: patients.csv: column 'age', row 2: 'old' is not a number: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[account]\nepsilom = 1",
            "Unknown option 'epsilom' in [account] of x.toml: it may hold epsilon, delta, adjacency, noise-mult",
        ),
        ("[account]\nepsilon = 'much'", "--epsilon"),
        ("[account]\nepsilon = 2020-01-01", "Expected epsilon in [account] of x.toml as a text, a number"),
        ("account = 3", "Expected [account] of x.toml as a section; got 3."),
        ("schema = 3", "Expected [schema] of x.toml as a section; got 3."),
        ("[schema]\ndraft = 3", "Expected [schema.draft] of x.toml as a section; got 3."),
        ("[acount]\nepsilon = 1", "Unknown section 'acount' in x.toml: options stand below a command: [distill]"),
        ("epsilon = 1\n[account]\ndelta = 0.1", "Unknown section 'epsilon' in x.toml: options stand below a command"),
        ("[schema.drafd]\nout = 'x'", "Unknown section 'drafd' in [schema] of x.toml: options stand below a command"),
        ("[account", "x.toml is not TOML"),
        (None, "x.toml does not exist."),
    ],
)
def test_a_file_of_options_that_cannot_be_used(tmp_path, monkeypatch, text, expected):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("x.toml").write_text(text)
    assert expected in refused("account", "--config", "x.toml")


# Before anything is paid


def test_two_releases_choose_the_kernel_of_colour_images_without_a_stated_recipe(tmp_path, monkeypatch):
    X = np.random.default_rng(0).integers(0, 255, (40, 8, 8, 3)).astype(np.uint8)
    for name, images in (("colour", X), ("grey", X[..., 0])):
        np.savez(tmp_path / f"{name}.npz", X=images, y=np.arange(40) % 2)
    assert published(re.search(r"--recipe (dos\S+) ", CHOSEN_KERNEL)[1]).fields["kernel"] == KERNELS["drawn"]
    succeeds("budget", "new", tmp_path / "l.ledger", "--cap", 3)
    found = []

    def stop(request, terms, method, *_):
        found.append(method)
        raise DataError("Expected no more.")

    said: list[str] = []
    monkeypatch.setattr(listener, "note", said.append)
    monkeypatch.setattr(runs, "state_outlook", stop)
    two = ("scatternet-white", "drawn")
    for options, candidates in (
        (["colour"], two),
        (["colour", "--per-class", 3], two),
        (["colour", "--ledger", tmp_path / "l.ledger"], two),
        (["colour", "--method", "dos-kip"], ()),
        (["colour", "--for", "networks"], ()),
        (["colour", "--set", "taught=2"], ()),
        (["grey"], ()),
    ):
        command = (tmp_path / f"{options[0]}.npz", "--classes", 2, "--out", tmp_path / "x", *options[1:])
        for name in ("plan", "distill"):
            assert "Expected no more." in refused(name, *command)
            assert (found[-1].candidates, found[-1].name) == (candidates, "dos-kip")
            assert found[-1].per_class == (3 if "--per-class" in options else 10)
            assert said.count(CHOSEN_KERNEL) == bool(candidates)
            said.clear()
    assert not (tmp_path / "x").exists()


def test_a_plan_pays_nothing_and_tells_what_would_be_heard(tmp_path):
    command = ("plan", "digits:train", *SMALL, "--out", tmp_path / "x")
    out = succeeds(*command, "--class-size", 140)
    assert re.search(r"^Plan: about [\d.]+ similar records of a class are needed before the signal equals", out, re.M)
    assert "A sum has 65 numbers." in out
    assert list(tmp_path.iterdir()) == []
    plan = as_json(*command, "--class-size", 140)["plan"]
    assert plan["signal_to_noise"] == pytest.approx(140 / plan["records_as_loud_as_the_noise"])
    assert plan["hopeless"] is False
    assert plan["by_class"] is True
    assert "epsilon is infinite" in succeeds(*command, "--non-private")


def test_what_is_hopeless_or_no_protection_is_said_before_it_is_paid(tmp_path):
    command = ("plan", "digits:train", *SMALL, "--out", tmp_path / "x")
    code, _, err = dpdistill(*command, "--epsilon", "1e-9")
    assert code == 0
    warned = re.search(
        r"Warning: the noise hides the classes: 10,000 similar records of a class .* Use --epsilon (\S+)\.\n", err
    )
    assert warned
    assert as_json(*command, "--epsilon", warned[1])["plan"]["hopeless"] is False
    warned = dpdistill(*command, "--epsilon", 1000)[2]
    assert "Warning: epsilon = 1000 does not protect against membership inference" in warned
    assert "Warning" not in dpdistill(*command)[2]


def test_more_records_than_memory_holds_are_refused_with_the_largest_number_that_fits(tmp_path, monkeypatch):
    monkeypatch.setattr("dpdistill.storage.memory.machine_memory", lambda: 10 * 4 * 6 * 64 * 25 + 7)
    command = ("plan", "digits:train", "--method", "ldpdc", "--per-class")
    assert "Expected per_class=26 <= 25: more records of 64 numbers do not fit" in refused(*command, 26)
    succeeds(*command, 25)
    assert "leave out --class-size" in refused("distill", "--from", "x", "--out", "y", "--class-size", 3)


def test_a_plan_tells_seconds_memory_and_disk():
    code, out, err = dpdistill("plan", "digits:train", *SMALL)
    assert code == 0
    assert re.search(r"^Plan: 1,438 records take about \d+ seconds? on this machine", out, re.MULTILINE)
    assert re.search(r"^Plan: about \d\S* [MG]iB of memory and 1 MiB of disk\.$", out, re.MULTILINE)
    assert "disk are for the owner of the records alone: their number was counted." in err
    code, out, err = dpdistill("plan", "digits:train", *SMALL, "--records", 1400, "--json")
    assert (code, "counted" in err) == (0, False)
    found = json.loads(out)
    assert (found["exit_code"], found["records"]) == (0, 1400)
    assert (found["for_the_owner_only"], found["counted"]) == (True, False)
    assert found["plan"]["signal_to_noise"] == pytest.approx(140 / found["plan"]["records_as_loud_as_the_noise"])
    parts = ("compiling", "encoding", "releasing", "finishing")
    assert found["seconds"]["together"] == pytest.approx(sum(found["seconds"][part] for part in parts))
    assert 0 < found["seconds"]["releasing"] < 60
    assert 1 << 27 < found["memory_bytes"] < 1 << 36
    assert (found["feature_bytes"], 256 < found["disk_bytes"] < 1 << 20) == (0, True)


def test_records_that_memory_does_not_hold_are_told_before_they_are_there(monkeypatch):
    monkeypatch.setattr("dpdistill.storage.memory.machine_memory", lambda: 1 << 36)
    command = ("plan", "digits:train", *SMALL, "--records")
    assert "Warning: this machine has" not in dpdistill(*command, 10**6)[2]
    warned = dpdistill(*command, 10**9)[2]
    assert re.search(r"Warning: this machine has 64 GiB of memory: use fewer records per class, or --resize\.", warned)


def test_a_plan_takes_the_options_of_distill():
    commands = typer.main.get_command(app).commands
    plan, distill = ({opt for param in commands[name].params for opt in param.opts} for name in ("plan", "distill"))
    assert distill - plan == {"--from", "--title", "--sign"}
    assert plan - distill == {"--records"}
    required = {param.name for param in commands["plan"].params if param.required}
    assert required == {"data"}
    assert "Missing argument 'DATA'" in refused("plan")
    assert "creates no ledger: use `dpdistill budget new" in refused("plan", "digits:train", "--cap", 1)


def test_a_plan_knows_what_a_ledger_has_left(tmp_path):
    command = ("digits:train", *SMALL, "--ledger", tmp_path / "l")
    begin_ledger(tmp_path / "l", 1.2)
    succeeds("distill", *command, "--out", tmp_path / "x")
    assert re.search(r"\b1\.2\b", refused("plan", *command))
    succeeds("plan", *command, "--epsilon", 0.1)
    assert "--overwrite" in refused("plan", "digits:train", *SMALL, "--out", tmp_path / "x")


def test_durations_and_sizes_are_rounded_up():
    told = [progress.duration(s) for s in (0.2, 1, 1.5, 59.5, 60, 61, 7199, 7200, 7201)]
    seconds, minutes, hours = told[:4], told[4:7], told[7:]
    assert seconds == ["1 second", "1 second", "2 seconds", "60 seconds"]
    assert minutes == ["1 minute", "2 minutes", "120 minutes"]
    assert hours == ["2 hours", "3 hours"]
    assert [terminal.amount(s) for s in (1, 1 << 20, (1 << 20) + 1)] == ["1 MiB", "1 MiB", "2 MiB"]
    assert [terminal.amount(s) for s in (1 << 30, 1.01 * (1 << 30))] == ["1 GiB", "1.1 GiB"]


# Refusals at once


def test_refusals_wait_for_nothing_that_takes_seconds(tmp_path, shared):
    (tmp_path / "bad.csv").write_text("age,ill\n30,no\nold,yes\n")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "torn.yaml").write_text("{")
    np.savez(tmp_path / "grey.npz", X=np.zeros((2, 8, 8), np.uint8), y=[0, 1])
    np.savez(tmp_path / "small.npz", X=np.zeros((2, 4, 4), np.uint8), y=[0, 1])
    (tmp_path / "other.yaml").write_text(SCHEMA.replace("100", "120"))
    for name, stated in (
        ("unread", "method: [dos"),
        ("unknown", "method: nosuch"),
        ("field", "method: dos\nfields: {nosuch: 1}"),
        ("kernel", "method: dos-kip\nfields: {kernel: nosuch}"),
        ("value", "method: dos-kip\nfields: {steps: -3}"),
    ):
        (tmp_path / f"{name}.recipe.yaml").write_text(stated)
    facts = read_schema(tmp_path / "schema.yaml").schema
    write_distilled(tmp_path / "table", Distilled(np.zeros((2, facts.dimension), np.float32), np.array([0, 1]), facts))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    begin_ledger(tmp_path / "begun", 2.0)
    (tmp_path / "empty").touch()
    out = ["distill", "bad.csv", "--out", "x"]
    commands = [
        ["nonsense"],
        ["distill", "--out", "x"],
        ["distill", "missing", "--out", "x"],
        ["plan", "missing"],
        ["distill", "full", "--out", "x"],
        ["distill", "missing", "--out", "full"],
        ["distill", "full", "--out", "full/inside"],
        [*out, "--method", "nosuch"],
        [*out, "--epsilon", "-1"],
        [*out, "--epsilon", "1e9"],
        [*out, "--delta", "0.5"],
        [*out, "--seed", "-1"],
        [*out, "--cap", "1"],
        ["distill", "grey.npz", "--out", "x", "--classes", "-2"],
        [*out, "--schema", "missing.yaml"],
        [*out, "--schema", "torn.yaml"],
        [*out, "--config", "missing.toml"],
        ["evaluate", "missing", "--test", "x"],
        ["sample", "missing", "--n", "3", "--out", "y.csv"],
        ["report", "missing"],
        ["budget", "missing"],
        ["account", "--epsilon", "0"],
        ["account", "--noise-multiplier", "-1"],
        ["schema", "check", "missing", "missing"],
        ["schema", "draft", "bad.csv", "--label", "nosuch"],
        [*out, "--set", "nosuch=3"],
        [*out, "--set", "steps=-3"],
        [*out, "--set", "steps"],
        [*out, "--set", "kernel=nosuch"],
        [*out, "--set", "steps=3", "--set", "steps=4"],
        [*out, "--method", "dp-merf", "--set", "steps=a"],
        [*out, "--method", "dp-merf", "--public", "digits:test"],
        [*out, "--per-class", "0"],
        ["distill", "grey.npz", "--classes", "2", "--out", "x", "--per-class", "1000000000"],
        [*out[:1], "digits:train", *out[2:], "--method", "dos", "--public", "missing"],
        ["student", str(shared), "--test", "digits:test", "--teacher", "drawn", "--taught-by", "classifier"],
        ["student", "missing", "--test", "x", "--teacher", "drawn"],
        ["evaluate", str(shared), "--test", "digits:test", "--reference", "digits:train", "--include-scores"],
        ["sample", str(shared), "--n", "3", "--out", "y.npz"],
        ["sample", str(shared), "--n", "3", "--out", "y.npz", "--kind", "generated"],
        [*out, "--recipe", "nosuch"],
        [*out, "--recipe", "nosuch.yaml"],
        [*out, "--ledger", "nosuch.ledger"],
        ["distill", "--from", "missing", "--out", "x"],
        ["audit", "missing"],
        ["audit", "run", "digits:train", "--out", "x", "--set", "steps=-3"],
        ["audit", "run", "digits:train", "--out", "x", "--epsilon", "0"],
        ["audit", "method", "digits:train", "--out", "x", "--method", "nosuch"],
        ["audit", "shadows", "missing", "--out", "x", "--method", "dp-merf"],
        ["export", "missing", "--to", "csv", "--out", "y.csv"],
        ["export", "full", "--to", "nosuch", "--out", "y.csv"],
        ["results", "missing.jsonl", "--out", "page.html"],
    ]
    scored = ["evaluate", str(shared), "--test", "digits:test"]
    taught = ["student", *scored[1:], "--teacher"]
    recipe = ["distill", "digits:train", "--out", "x", "--recipe"]
    ledger = ["distill", "digits:train", "--out", "x", "--ledger", "new.ledger"]
    told = [  # with how their sentences begin
        (
            [*scored, "--architecture", "nosuch"],
            "Unknown architecture 'nosuch': choose among convnet, convnet64, mlp, lenet,",
        ),
        (
            [*scored, "--training", "nosuch"],
            "Unknown training 'nosuch': choose among plateau, quick, mixup, muon, paper, large.",
        ),
        ([*scored, "--kernel", "nosuch"], "Unknown kernel 'nosuch': choose among fc-ntk,"),
        ([*scored, "--distance", "nosuch"], "Unknown distance 'nosuch': choose among fc-ntk,"),
        ([*scored, "--distance", "nosuch=x.npz"], "Unknown network of --distance 'nosuch': choose among convnet,"),
        ([*scored, "--classifier", "nosuch"], "Unknown classifier 'nosuch': choose among logistic regression,"),
        ([*scored, "--generated", "3"], f"{shared} has no generator, so it cannot make more records."),
        ([*scored, "--reference", "missing"], "missing does not exist."),
        (
            [*taught, "drawn", "--taught-by", "classifier"],
            f"{shared} has no released classifier: use --taught-by krr.",
        ),
        ([*taught, "drawn", "--taught-by", "x"], "Unknown teacher 'x': choose among classifier, krr."),
        ([*taught[:-1], "--taught-by", "krr"], "Missing option '--teacher'."),
        ([*scored, "--taught-by", "krr"], "No such option: --taught-by."),
        ([*scored, "--epochs", "7"], "Expected --reference with --epochs 7: the epochs are for nets trained on real"),
        (
            [*taught, "digits:train", "--pictures", "3"],
            "Expected --teacher drawn, generated, mixed with --pictures 3, the number to make.",
        ),
        (
            ["evaluate", "table", "--test", "bad.csv", "--classifier", "LDA, x"],
            "Unknown classifier 'x': choose among ",
        ),
        (
            ["evaluate", "table", "--test", "bad.csv", "--schema", "other.yaml"],
            "Expected a schema with the columns and classes of table; other.yaml states others.",
        ),
        ([*scored, "--architecture", "lenet"], "Architecture lenet takes images with sides >= 16; got (8, 8, 1)."),
        ([*scored, "--distance", "convnet=missing.npz"], "missing.npz does not exist."),
        (
            ["benchmark", "nosuch", "--out", "x"],
            "Expected a suite nosuch among smoke, papers, frontier, subspaces, dosser, transferred, accuracy, medical",
        ),
        (["benchmark", "schema.yaml", "--out", "x"], "schema.yaml: Expected a suite that begins with `dpdistill: "),
        (["benchmark", "papers", "--out", "x"], "Expected --data with the folder of adult, "),
        (["benchmark", "smoke", "--out", str(shared)], "Expected --out as a folder for the owner of the data; "),
        (["audit", str(shared), "--members", "digits:train", "--non-members", "missing"], "missing does not exist."),
        (["audit", str(shared), "--members", "missing", "--non-members", "digits:test"], "missing does not exist."),
        (["audit", "table", "--members", "missing", "--schema", "other.yaml"], "missing does not exist."),
        (["audit", "run", "missing", "--out", "x"], "missing does not exist."),
        (["audit", "run", "digits:train", "--out", "x", "--leak", "y"], "Unknown leak 'y': choose among noised-again,"),
        (["attack", "training", "missing", "--out", "x"], "missing does not exist."),
        (
            ["attack", "training", "digits:train", "--out", "x", "--loss", "y"],
            "Unknown loss 'y': choose among squares,",
        ),
        (
            ["attack", "model", "--before", "a", "--after", "b", "--members", "digits:train", "--architecture", "y"],
            "Unknown architecture 'y': choose among convnet, convnet64, mlp, lenet,",
        ),
        (
            ["attack", "model", "--before", "missing", "--after", "grey.npz", "--members", "digits:train"],
            "missing does not exist.",
        ),
        (["attack", "training", "digits:train", "--out", "x", "--weights", "missing"], "missing does not exist."),
        (["distill", "missing", "--out", "x", "--recipe", "psg-mnist-eps1-ipc10"], "missing does not exist."),
        ([*recipe, "dm-mnist-ipc10"], "DM has no private form: `dpdistill distill --non-private` runs it."),
        ([*recipe, "psg-mnist-eps1-ipc10", "--epsilon", "0"], "Expected epsilon=0.0 > 0."),
        ([*recipe[:-1], "--set", "kernel=fc-ntk"], "The method cannot use kernel=fc-ntk: choose among perceptual, "),
        (["distill", "missing", "--out", "x", "--ledger", "begun"], "missing does not exist."),
        ([*ledger, "--cap", "0.5"], "A run creates no ledger: use `dpdistill budget new FILE --cap EPSILON`"),
        (ledger, "There is no ledger at new.ledger. Restore the data set's ledger if the data set had one: "),
        (
            [*ledger[:-1], "empty"],
            "The ledger empty is damaged: it is empty or truncated. Restore its latest copy if no ",
        ),
        ([*ledger[:-1], "begun", "--epsilon", "5"], "Expected a run within the cap of 2.0 in begun; got epsilon=5."),
        (["budget", "new", "begun", "--cap", "3"], "Expected no file at begun to begin a ledger; it exists: "),
        (["budget", "new", "other", "--cap", "0"], "Expected 0 < cap=0.0 < inf."),
        ([*ledger[:-1], "full/file"], "full/file is not a ledger: it is not an SQLite database."),
        ([*ledger[:-1], "no/such"], "Expected --ledger in a folder that can be written to; "),
        ([*scored, "--ridge", "-1"], "Expected ridge=-1.0 >= 0."),
        ([*scored[:-1], "small.npz"], "Expected test records of shape (8, 8, 1); got (4, 4, 1)."),
        ([*recipe, "unread.recipe.yaml"], "Expected YAML in unread.recipe.yaml: method, and epsilon, delta and fields"),
        ([*recipe, "unknown.recipe.yaml"], "Unknown method 'nosuch': choose among dos, "),
        ([*recipe, "field.recipe.yaml"], "Method dos has no field 'nosuch': it has networks, "),
        ([*recipe, "kernel.recipe.yaml"], "Unknown kernel 'nosuch': choose among fc-ntk, "),
        ([*recipe, "value.recipe.yaml"], "Expected steps=-3 >= 1."),
        (
            [*out, "--schema", "schema.yaml", "--method", "dos"],
            "DOS distils images, not tables: choose one of dp-kip, ",
        ),
        ([*recipe[:-1], "--method", "dm"], "DM has no private form: `dpdistill distill --non-private` runs it."),
    ]
    last = [*out, "--schema", "schema.yaml"]  # it looks at values, for which Arrow imports pandas
    commands += [*(argv for argv, _ in told), last]
    script = (
        "import json, sys, time\n"
        "from dpdistill.cli import main\n"
        f"for argv in json.loads({json.dumps(json.dumps(commands))}):\n"
        "    sys.argv[1:] = argv\n"
        "    try: main()\n"
        "    except SystemExit as end: assert end.code == 2, (argv, end.code)\n"
        "    heavy = {'jax', 'optax', 'sklearn', 'dp_accounting', 'scipy.stats', 'mpmath'} & {*sys.modules}\n"
        "    heavy |= {'pandas'} & {*sys.modules} if 'schema.yaml' not in argv else set()\n"
        "    assert not heavy, (argv, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, timeout=120, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(commands)
    assert all(line.startswith("Error: ") for line in lines)
    for (argv, begins), line in zip(told, lines[-len(told) - 1 : -1], strict=True):
        assert line.startswith(f"Error: {begins}"), argv
    assert "Error: Expected --out outside of DATA, which a run never changes." in done.stderr
    assert "Error: Expected 2 <= classes=-2 <= 65536." in lines
    assert lines[-1].startswith("Error: bad.csv: column 'age', row 2: 'old' is not a number: ")


def test_a_place_may_name_its_part(tmp_path):
    np.savez(tmp_path / "grey.npz", X=np.zeros((2, 8, 8), np.uint8), y=[0, 1])
    check_source(f"{tmp_path / 'grey.npz'}:test", table=False)
    with pytest.raises(DataError, match="other does not exist"):
        check_source(f"{tmp_path / 'other'}:test", table=False)


def test_a_shell_completes_commands_and_options(tmp_path):
    def completed(words: str) -> list[str]:
        asked = {"_DPDISTILL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        script = "import sys; sys.argv[0] = 'dpdistill'; from dpdistill.cli import main; main()"
        command = [sys.executable, "-c", script]
        return subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True).stdout.split()

    assert completed("dpdistill ver") == ["verify"]
    assert sorted(completed("dpdistill distill --p")) == ["--per-class", "--person-from"]  # --public is for experts


def test_plan_alone_counts_what_cannot_be_used_and_whose_records_they_are(tmp_path):
    X, y = np.zeros((6, 8, 8), np.uint8), np.array([0, 1, 0, 1, 7, 7])
    np.savez(tmp_path / "a.npz", X=X, y=y, who=np.array(["p1", "p1 ", "p2", "p2", "p3", "p3"]))
    how = (tmp_path / "a.npz", "--classes", 2, "--bounds", "0,255", "--lenient", "--resize", 8, *SMALL)
    units = ("--unit-column", "who", "--rows-per-unit", 2)
    said = dpdistill("plan", *how, *units)[2]
    assert "Warning: 2 of 6 records cannot be used, and are left out.\n" in said
    assert "6 records belong to 3 units (who).\n" in said
    said = "".join(dpdistill("distill", *how, *units, "--out", tmp_path / "b")[1:])
    assert not re.search("of 6 records|belong to|units", said)
