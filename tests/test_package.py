"""What a stranger installs: the wheel holds all files of the package, and the Dockerfile copies what is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from dpdistill import __version__
from dpdistill.cli.terminal import EXTRAS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dpdistill"
DATA = {
    "py.typed",
    "benchmark/suites/smoke.yaml",
    "features/drawn_filters.npz",
    "publish/export/templates/card.md",
    "recipe/published/dp-kip.yaml",
    "publish/report/templates/report.html",
}


def test_the_wheel_holds_every_file_of_the_package_and_no_compiled_code(tmp_path):
    pytest.importorskip("hatchling", reason="hatchling, which builds the package, is not installed")
    for name in ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "src" / "dpdistill", ignore=shutil.ignore_patterns("__pycache__"))
    build = "from hatchling.build import build_wheel; print(build_wheel('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    name = done.stdout.split()[-1]
    assert re.fullmatch(r"dpdistill-[0-9.]+-py3-none-any\.whl", name)
    with zipfile.ZipFile(tmp_path / "dist" / name) as wheel:
        held = {each.removeprefix("dpdistill/") for each in wheel.namelist() if each.startswith("dpdistill/")}
        (about,) = [each for each in wheel.namelist() if each.endswith("entry_points.txt")]
        assert "dpdistill = dpdistill.cli:main" in wheel.read(about).decode()
        facts = wheel.read(about.replace("entry_points.txt", "METADATA")).decode().splitlines()
        assert {f"Version: {__version__}", "Author: The dpdistill authors", "License-Expression: Apache-2.0"} <= {
            *facts
        }
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert held == {path.relative_to(PACKAGE).as_posix() for path in files}
    assert held > DATA
    assert {Path(each).suffix for each in held} <= {
        *(".py", ".typed", ".json", ".yaml", ".npz", ".html", ".css", ".md", ".csv")
    }


EXPORTED = {"torch": "t", "csv": "t.csv", "card": "card.md", "croissant": "croissant.json", "registry": "r.yaml"}
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from dpdistill.cli import main
for line in sys.stdin.read().splitlines():
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as stopped:
        print(stopped.code)
"""


def blocked() -> dict[str, str]:
    """The extra of every package, by its name to import, that `pip install 'dpdistill[digits]'` does not install."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = {
        re.match(r"[a-z-]+", each)[0].removesuffix("-cpu").replace("-", "_"): extra
        for extra in extras
        if extra not in ("digits", "dev", "docs", "mutation")
        for each in extras[extra]
    }
    del found["dpdistill"], found["scikit_learn"]
    return found | {"duckdb": found["duckdb_engine"]}


def without_extras(commands: Iterable[str], folder: Path) -> tuple[list[str], str]:
    """Exit codes of commands, and what they wrote to stderr, where no extra but digits is installed."""
    code = BLOCKED.replace("{names}", repr({*blocked()}))
    options = {"input": "\n".join(commands), "cwd": folder, "text": True, "capture_output": True, "timeout": 240}
    done = subprocess.run([sys.executable, "-c", code], check=True, **options)
    return [line for line in done.stdout.splitlines() if line.isdigit()], done.stderr


@pytest.mark.slow
def test_digits_need_no_other_extra(tmp_path):
    """Every command of a first hour, with what `pip install 'dpdistill[digits]'` installs and nothing else."""
    commands = (
        "demo --out demo",
        "verify demo",
        "report demo",
        "plan digits:train --method ldpdc --epsilon 1",
        "evaluate demo --test digits:test --architecture mlp --nets 1",
        "audit demo --members digits:train --non-members digits:test",
        *(f"export demo --to {kind} --out {out}" for kind, out in EXPORTED.items()),
    )
    codes, said = without_extras(commands, tmp_path)
    assert codes == ["0"] * len(commands), said
    assert {"demo", "demo.run", "demo.audit", *EXPORTED.values()} == {path.name for path in tmp_path.iterdir()}


def test_what_needs_an_extra_says_which(tmp_path):
    assert blocked() == {name: extra for name, extra in EXTRAS.items() if name != "sklearn"}
    (tmp_path / "rows.csv").write_text("age,ill\n3,yes\n4,no\n")
    schema = "columns: [{name: age, kind: numeric, bounds: [0, 9]}]"
    (tmp_path / "s.yaml").write_text(
        f"dpdistill: table schema\nreviewed: true\nlabel: ill\nclasses: [yes, no]\n{schema}\n"
    )
    commands = (
        "schema draft rows.csv --label ill --out draft.yaml",
        "schema check s.yaml rows.csv",
        "distill rows.csv --schema s.yaml --out shared",
        "plan rows.csv --schema s.yaml",
    )
    codes, said = without_extras(commands, tmp_path)
    assert codes == ["2"] * len(commands), said
    assert re.findall(r"pip install 'dpdistill\[(\w+)\]'", said) == ["tables"] * 4
    assert "Traceback" not in said


def test_the_dockerfile_copies_what_is_there_and_installs_extras_that_are():
    text = (ROOT / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert {"constraints.txt", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "src"} == set(copied)
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in copied:
        assert (ROOT / name).exists()
        assert name in allowed
    (extras,) = re.findall(r"/package\[([\w,]+)\]", text)
    optional = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    assert {*extras.split(",")} <= {*re.findall(r"^(\w+) = ", optional, re.MULTILINE)}
    assert re.findall(r"^(USER|ENTRYPOINT) (.+)$", text, re.MULTILINE) == [
        ("USER", "dpdistill"),
        ("ENTRYPOINT", '["dpdistill"]'),
    ]
