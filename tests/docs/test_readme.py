"""README is short, its numbers follow from the code, and its blocks run from an empty folder as a reader runs them."""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli.run_command import dpdistill

from dpdistill import DPMERF, table_distiller, verify
from dpdistill.accounting.attacker import advantage
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.recipe.methods import RECIPES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
OPTIONS = """[plan]
method = "ldpdc"
[distill]
method = "ldpdc"
[evaluate]
nets = 1
architecture = "mlp"
"""
"""A dpdistill.toml: the commands stay as they are and take seconds."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


def test_it_is_short_and_the_first_command_is_on_the_first_screen():
    assert len(README.split()) <= 900
    assert README.index("```") < 1_800
    (table,) = re.findall(r"(?:^\|.*\n)+", README.partition("## How accurate")[2].partition("\n## ")[0], re.M)
    rows = [line.strip("|").split("|") for line in table.splitlines()]
    assert (len(rows), {len(row) for row in rows}) == (2 + 5, {4})


def test_an_attackers_guesses_are_those_of_the_default_methods():
    ((epsilon, delta),) = re.findall(r"= (\d+) and \S+ = (1e-\d+)\.", README)
    schedules = [
        calibrate(RECIPES[name]().plan(), Budget(float(epsilon), float(delta))) for name in ("dos-kip", "dp-merf")
    ]
    right = max((1 + advantage(schedule.groups)) / 2 for schedule in schedules)
    assert f"at most {math.ceil(100 * right)} are right" in README


def test_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"pip install -e '\.\[(.*)\]'", README)
    assert set(named.split(",")) <= set(extras)


def test_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dpdistill.toml").write_text(OPTIONS)
    said = {}
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "dpdistill":
            code, said[words[1]], err = dpdistill(*words[1:])
            assert code == 0, (line, err)
    assert [*said] == ["demo", "plan", "distill", "evaluate", "verify"]
    accuracy = re.search(r"MLP accuracy: (\S+)", said["evaluate"])
    assert accuracy
    assert float(accuracy[1]) > 60
    assert said["verify"].endswith("PASSED\n")
    assert {path.name for path in tmp_path.iterdir()} == {
        *("demo", "demo.run", "shared", "shared.run", "dpdistill.toml")
    }


def test_the_python(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    quick: dict[str, Any] = {"frequencies": 60, "steps": 40, "samples": 300, "hidden": 16}
    monkeypatch.setattr(table_distiller, "DPMERF", lambda: DPMERF(**quick))
    (code,) = blocks("python")
    exec(code, {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[-2:]] == ["0", "1"]
    assert verify("shared-table").passed
