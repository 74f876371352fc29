"""The rooms: data flows in one direction, and only some may touch records."""

import ast
from pathlib import Path

import pytest

import dpdistill

PACKAGE = Path(dpdistill.__file__).parent
TOP = "__init__"
ROOMS: dict[str, set[str]] = {
    "schema": set(),
    "query": {"schema"},
    "method": {"schema", "query"},
    "data": {"schema", "query", "method"},
    "accounting": {"query"},
    "ledger": {"query", "accounting"},
    "private": {"schema", "query", "data", "accounting", "ledger"},
    "certificate": {"schema", "query", "data.atomic", "data.folder", "accounting", "ledger"},
    "encode": {"schema"},
    "kernels": {"encode"},
    "methods": {"schema", "query", "method", "encode", "kernels"},
    "evaluate": {"schema", "query", "method", "data", "encode", "kernels"},
    "report": {"schema", "data.atomic", "data.folder"},
}
"""What each room may import: rooms, and single modules of others."""
ROOMS["run"] = {*ROOMS} - {"evaluate", "encode", "kernels"}
ROOMS["table_distiller"] = {"schema", "query", "method", "data", "accounting", "private", "methods", "run"}
ROOMS["verification"] = {"schema", "certificate", "private", "report", "run", "cli.recipes"}
ROOMS[TOP] = {"schema", "query", "method", "data", "accounting", "methods", "run", "table_distiller", "verification"}
ROOMS["audit"] = {*ROOMS} - {"report", "table_distiller", "verification", TOP}
ROOMS["cli"] = {*ROOMS}
READERS_OF_RECORDS = {"private", "data", "run", "cli", "evaluate", "audit", "table_distiller", TOP}


def imported(tree: ast.AST, module: tuple[str, ...]) -> list[str]:
    """Dotted names below the package that a module imports anywhere, also inside functions and behind conditions."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = ("dpdistill", *module)[: -node.level]
                base = ".".join((*parents, *([base] if base else [])))
            found += [f"{base}.{alias.name}" for alias in node.names]
    return [name for name in found if name.split(".")[0] in ("dpdistill", "importlib")]


def violations(package: Path) -> list[str]:
    """What the modules of a package import and must not: "room/module imports name"."""
    found = []
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).with_suffix("").parts
        room, where = module[0], "/".join(module)
        if room not in ROOMS:
            found.append(f"{where} is in no room")
            continue
        for name in imported(ast.parse(path.read_text()), module):
            parts = name.split(".")
            if parts[0] == "importlib":
                if parts[1:2] not in (["metadata"], ["resources"]):
                    found.append(f"{where} imports {name}")
                continue
            target = parts[1] if len(parts) > 1 and parts[1] in ROOMS else TOP
            if target != room and not {target, ".".join(parts[1:3])} & ROOMS[room]:
                found.append(f"{where} imports {name}")
            records = parts[1:3] == ["data", "records"] or (target == "data" and parts[-1] in ("Records", "load"))
            if records and room not in READERS_OF_RECORDS:
                found.append(f"{where} reads records: {name}")
    return found


def test_every_module_keeps_to_its_room():
    assert violations(PACKAGE) == []


def test_the_package_is_what_was_looked_at():
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert rooms == set(ROOMS)
    names = imported(ast.parse((PACKAGE / "run" / "driver.py").read_text()), ("run", "driver"))
    assert {"dpdistill.private.curator.Curator", "dpdistill.data.records.Records"} <= set(names)


def test_the_table_goes_in_one_direction():
    # No room that a method may import leads, by any number of steps, to private, data or the driver.
    reached, waiting = set(), ["methods"]
    while waiting:
        room = waiting.pop()
        if room not in reached:
            reached.add(room)
            waiting += ROOMS[room]
    assert reached == {"methods", "schema", "query", "method", "encode", "kernels"}
    assert [room for room, allowed in ROOMS.items() if "cli" in allowed] == []
    assert ROOMS["query"] == {"schema"}
    assert not ROOMS["private"] & {"methods", "encode", "evaluate", "run", "certificate"}
    assert not ROOMS["accounting"] & {"data", "private", "ledger"}


@pytest.mark.parametrize(
    ("module", "code", "found"),
    [
        ("methods/dos.py", "from dpdistill.private.curator import Curator", "private.curator.Curator"),
        ("methods/dos.py", "from dpdistill import data", "dpdistill.data"),
        ("methods/dos.py", "from ..data.records import Records", "dpdistill.data.records.Records"),
        ("methods/dos.py", "from ..private import noise", "dpdistill.private.noise"),
        ("methods/dos.py", "from dpdistill import Records", "imports dpdistill.Records"),
        ("methods/dos.py", "import dpdistill", "imports dpdistill"),
        ("methods/dos.py", "def f():\n    if True:\n        import dpdistill.run as r", "dpdistill.run"),
        ("methods/dos.py", "import importlib", "importlib"),
        ("methods/deep/er.py", "from ...run import distill", "dpdistill.run.distill"),
        ("private/curator.py", "from dpdistill.methods.dos import DOS", "dpdistill.methods.dos.DOS"),
        ("private/curator.py", "from dpdistill.encode import convnet", "dpdistill.encode.convnet"),
        ("accounting/schedule.py", "from dpdistill.data.records import Records", "dpdistill.data.records.Records"),
        ("encode/convnet.py", "from dpdistill.query import Release", "dpdistill.query.Release"),
        ("report/page.py", "from dpdistill.data.save import read_distilled", "dpdistill.data.save.read_distilled"),
        ("certificate/build.py", "from dpdistill.data import load", "imports dpdistill.data.load"),
        ("report/page.py", "from dpdistill.ledger.run import RunLedger", "dpdistill.ledger.run.RunLedger"),
        ("schema.py", "from . import query", "dpdistill.query"),
        ("run/driver.py", "from dpdistill.cli.recipes import METHODS", "dpdistill.cli.recipes.METHODS"),
        ("ledger/run.py", "from dpdistill.data.records import Records", "dpdistill.data.records.Records"),
        ("certificate/build.py", "from dpdistill.data import Records", "reads records: dpdistill.data.Records"),
        ("new.py", "", "is in no room"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, module, code, found):
    path = tmp_path / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    (message, *_) = violations(tmp_path)
    assert found in " ".join(violations(tmp_path))
    assert message.startswith(module.removesuffix(".py"))


@pytest.mark.parametrize(
    ("module", "code"),
    [
        (
            "methods/dos.py",
            "import jax\nfrom dpdistill.query import Stage\nfrom dpdistill.methods.matching import clip",
        ),
        ("methods/dos.py", "from .matching import clip\nfrom ..encode import convnet"),
        ("run/driver.py", "from dpdistill.data import Records, load\nfrom dpdistill.report import write_report"),
        ("certificate/build.py", "from importlib.metadata import version"),
    ],
)
def test_what_is_allowed_is_let_through(tmp_path, module, code):
    path = tmp_path / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    assert violations(tmp_path) == []
