"""The rooms: data flows in one direction, only some may touch records, and none of them is too much to read."""

import ast
from functools import lru_cache
from pathlib import Path

import pytest

import dpdistill

PACKAGE = Path(dpdistill.__file__).parent
TOP, MAIN = "__init__", "__main__"
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "schema": {"errors"},
    "query": {"schema"},
    "public_images": set(),
    "storage": {"errors", "schema"},
    "encoders": {"errors", "storage.atomic", "storage.user_cache"},
    "recipe": {"errors", "schema", "query", "public_images", "encoders.cards"},
    "programs": {"schema", "query"},
    "method": {"schema", "query", "recipe"},
    "sources": {"schema", "storage"},
    "folder": {"schema", "method", "storage", "sources"},
    "accounting": {"query"},
    "ledger": {"errors", "query", "recipe.earlier_names", "accounting"},
    "private": {"errors", "schema", "query", "programs", "storage", "accounting", "ledger"},
    "workers": {"errors", "schema", "storage", "private"},
    "certificate": {
        *("errors", "schema", "query", "recipe.earlier_names", "storage.atomic", "folder.layout"),
        *("accounting", "ledger"),
    },
    "signatures": {"schema", "storage.atomic", "storage.files", "folder.layout", "certificate.check"},
    "machine": {"folder.layout", "ledger.database"},
    "networks": {"schema", "recipe"},
    "features": {"public_images", "encoders", "recipe", "networks"},
    "kernels": {"recipe", "features", "networks"},
    "graphs": {"schema", "recipe", "method", "features"},
    "methods": {"schema", "query", "public_images", "recipe", "method", "features", "networks", "kernels"},
    "evaluation": {
        *("schema", "public_images", "recipe", "method", "storage", "folder", "features", "networks"),
        *("kernels", "methods.generator", "methods.row_labels", "methods.row_numbers"),
    },
    "attacks": {"recipe", "method", "networks", "kernels"},
    "publish": {"schema", "recipe", "method", "storage", "sources", "folder", "certificate", "graphs"},
}
"""What each room may import: rooms, and single modules of others."""
ROOMS["run"] = {*ROOMS} - {"attacks", "evaluation", "features", "networks", "kernels", "public_images", "sources"}
ROOMS["run"] -= {"encoders", "signatures", "machine"}
ROOMS["together"] = {"errors", "schema", "query", "recipe", "method", "storage", "accounting", "ledger", "private"}
ROOMS["together"] |= {"certificate", "signatures", "folder", "run"}
ROOMS["table_distiller"] = {"schema", "query", "method", "storage", "sources", "folder", "accounting", "methods", "run"}
ROOMS["verification"] = {"schema", "query", "encoders", "recipe", "method", "folder.contents", "methods", "certificate"}
ROOMS["verification"] |= {"graphs", "publish", "signatures"}
ROOMS[TOP] = {*("errors", "schema", "storage", "sources", "accounting", "methods", "run", "table_distiller")}
ROOMS[TOP] |= {"verification", "certificate", "ledger", "publish"}
ROOMS["audits"] = {*ROOMS} - {"table_distiller", "verification", "together", TOP}
ROOMS["api"] = {*ROOMS}
ROOMS[TOP] |= {"api"}
ROOMS["benchmark"] = {*ROOMS}
ROOMS["cli"] = {*ROOMS}
ROOMS[MAIN] = {"cli"}
SCRIPT = "verify_minimal"
"""A program of its own: it imports no room, and no room imports it."""
ROOMS[SCRIPT] = set()
FIND_CODE = {"recipe/parts", f"recipe/methods/{TOP}", TOP, f"cli/{TOP}", "sources/formats"}
"""Modules that import others by name: the code of a recipe, recipes, public names, commands and formats."""
READERS_OF_RECORDS = {"private", "workers", "storage", "sources", "run", "cli", "evaluation", "audits", "benchmark"}
READERS_OF_RECORDS |= {"api", "table_distiller", "together", TOP}


def imported(tree: ast.AST, module: tuple[str, ...]) -> list[str]:
    """Dotted names below the package that a module imports anywhere, also inside functions and behind conditions.

    The number of the version is open to every room.
    """
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
    found = [name for name in found if name != "dpdistill.__version__"]
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
                if parts[1:2] not in (["metadata"], ["resources"]) and where not in FIND_CODE:
                    found.append(f"{where} imports {name}")
                continue
            target = parts[1] if len(parts) > 1 and parts[1] in ROOMS else TOP
            if target != room and not {target, ".".join(parts[1:3])} & ROOMS[room]:
                found.append(f"{where} imports {name}")
            records = parts[1:3] == ["storage", "records"] or (target == "sources" and parts[-1] == "load")
            if records and room not in READERS_OF_RECORDS:
                found.append(f"{where} reads records: {name}")
    return found


def test_every_module_keeps_to_its_room():
    assert violations(PACKAGE) == []


def test_the_package_is_what_was_looked_at():
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert rooms == set(ROOMS)
    names = imported(ast.parse((PACKAGE / "run" / "driver.py").read_text()), ("run", "driver"))
    assert {"dpdistill.private.curator.Curator", "dpdistill.storage.records.Records"} <= set(names)


def test_the_table_goes_in_one_direction():
    # No room that a method may import leads, by any number of steps, to private, data or the driver.
    reached, waiting = set(), ["methods"]
    while waiting:
        room = waiting.pop()
        if room not in reached:
            reached.add(room)
            waiting += ROOMS.get(room, ())  # a module of a room, such as storage.atomic, leads no further
    assert reached == {
        *("methods", "errors", "schema", "query", "public_images", "recipe", "method"),
        *("features", "networks", "kernels"),
        *("encoders", "encoders.cards", "storage.atomic", "storage.user_cache"),
    }
    assert [room for room, allowed in ROOMS.items() if any(name.split(".")[0] == "cli" for name in allowed)] == [MAIN]
    assert ROOMS["query"] == {"schema"}
    assert not ROOMS["private"] & {"methods", "features", "networks", "evaluation", "run", "certificate", "sources"}
    assert not ROOMS["accounting"] & {"storage", "private", "ledger"}


ARCHITECTURE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text("utf-8")


def section(title: str) -> list[list[str]]:
    """The rows of the table below a heading of the page on architecture, without code marks."""
    text = ARCHITECTURE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows[1:]]


def test_the_table_of_the_documentation_is_this_one():
    rooms = {*ROOMS} - {TOP, MAIN, SCRIPT}
    listed = {}
    for room, _, imports in section("Rooms"):
        names = {name.strip() for name in imports.replace("all but", "").split(",")} - {"", "all"}
        listed[room] = rooms - names if imports.startswith("all") else names
    assert {room: names - {room} for room, names in listed.items()} == {r: ROOMS[r] - {r, TOP} for r in rooms}


def test_rooms_import_only_rooms_of_earlier_lines():
    order = [room for room, *_ in section("Rooms")]
    for i, room in enumerate(order):
        assert {name.split(".")[0] for name in ROOMS[room]} & {*order} <= {*order[: i + 1]}, room


@lru_cache
def own_modules() -> dict[str, ast.Module]:
    """Returns the modules of this package, parsed once."""
    return modules(PACKAGE)


def defined(name: str) -> bool:
    """Whether a dotted name of the package, module.function or module.Class.method, is defined there."""
    for known, tree in own_modules().items():
        if name.startswith(known.removeprefix("dpdistill.") + ".") and known != "dpdistill":
            body: list[ast.stmt] = tree.body
            for part in name.removeprefix(known.removeprefix("dpdistill.") + ".").split("."):
                body = next((n.body for n in body if getattr(n, "name", "") == part and hasattr(n, "body")), [])  # type: ignore[attr-defined]
            if body:
                return True
    return False


def calls(module: str, function: str) -> bool:
    """Whether a module calls something of a name."""
    called = [node.func for node in ast.walk(own_modules()[f"dpdistill.{module}"]) if isinstance(node, ast.Call)]
    return function in {getattr(each, "attr", getattr(each, "id", "")) for each in called}


def test_the_walk_of_records_names_functions_and_never_goes_upward():
    steps = section("The walk of records, from the command to the folder")
    order = [room for room, *_ in section("Rooms")]
    assert [number for number, *_ in steps] == [str(i + 1) for i in range(10)]
    for _, function, caller, _ in steps:
        assert defined(function), function
        if caller:
            assert calls(caller, function.split(".")[-1]), (caller, function)
            upper, lower = caller.split(".")[0], function.split(".")[0]
            assert order.index(lower) <= order.index(upper)
            assert lower == upper or {lower, ".".join(function.split(".")[:2])} & ROOMS[upper], (caller, function)
    assert [function for _, function, caller, _ in steps if not caller] == ["cli.distill.distill"]
    assert not defined("cli.distill.nothing")
    assert not calls("cli.distill", "release")


def test_twenty_questions_lead_to_places_that_exist():
    questions = section("Twenty questions")
    assert len({question for question, _ in questions}) == 20
    assert [place for _, place in questions if not (PACKAGE.parents[1] / place).exists()] == []


@pytest.mark.parametrize(
    ("module", "code", "found"),
    [
        ("methods/dos.py", "from dpdistill.private.curator import Curator", "private.curator.Curator"),
        ("methods/dos.py", "from dpdistill import sources", "dpdistill.sources"),
        ("methods/dos.py", "from ..storage.records import Records", "dpdistill.storage.records.Records"),
        ("methods/dos.py", "from ..private import noise", "dpdistill.private.noise"),
        ("methods/dos.py", "from dpdistill import Records", "imports dpdistill.Records"),
        ("methods/dos.py", "import dpdistill", "imports dpdistill"),
        ("methods/dos.py", "def f():\n    if True:\n        import dpdistill.run as r", "dpdistill.run"),
        ("methods/dos.py", "import importlib", "importlib"),
        ("methods/deep/er.py", "from ...run import distill", "dpdistill.run.distill"),
        ("private/curator.py", "from dpdistill.methods.dos import DOS", "dpdistill.methods.dos.DOS"),
        ("private/curator.py", "from dpdistill.networks import convnet", "dpdistill.networks.convnet"),
        (
            "accounting/schedule.py",
            "from dpdistill.storage.records import Records",
            "dpdistill.storage.records.Records",
        ),
        ("networks/convnet.py", "from dpdistill.query import Release", "dpdistill.query.Release"),
        (
            "publish/report/page.py",
            "from dpdistill.private.curator import Curator",
            "dpdistill.private.curator.Curator",
        ),
        ("certificate/build.py", "from dpdistill.sources import load", "imports dpdistill.sources.load"),
        ("publish/report/page.py", "from dpdistill.ledger.run import RunLedger", "dpdistill.ledger.run.RunLedger"),
        ("schema.py", "from . import query", "dpdistill.query"),
        ("run/driver.py", "from dpdistill.api.recipes import METHODS", "dpdistill.api.recipes.METHODS"),
        ("verification.py", "def f():\n    from dpdistill.api.recipes import build", "dpdistill.api.recipes.build"),
        ("recipe/build.py", "from ..cli import terminal", "dpdistill.cli.terminal"),
        ("ledger/run.py", "from dpdistill.storage.records import Records", "dpdistill.storage.records.Records"),
        ("certificate/build.py", "from dpdistill.sources import load", "reads records: dpdistill.sources.load"),
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
        ("methods/dos.py", "from .matching import clip\nfrom ..networks import convnet"),
        (
            "run/driver.py",
            "from dpdistill.storage.records import Records\nfrom dpdistill.publish.report import write_report",
        ),
        ("certificate/build.py", "from importlib.metadata import version"),
        ("certificate/versions.py", "from dpdistill import __version__"),
    ],
)
def test_what_is_allowed_is_let_through(tmp_path, module, code):
    path = tmp_path / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    assert violations(tmp_path) == []


def modules(package: Path) -> dict[str, ast.Module]:
    """Every module of a package by its dotted name; a package's __init__ goes by the package's name."""
    parsed = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        parsed[".".join(("dpdistill", *parts)).removesuffix(f".{TOP}")] = ast.parse(path.read_text())
    return parsed


def import_graph(package: Path) -> dict[str, set[str]]:
    """What each module names in an import, also inside of functions and for types alone."""
    parsed = modules(package)
    graph = {}
    for name, tree in parsed.items():
        parts = tuple(name.split(".")[1:])
        inner = (*parts, TOP) if (package / Path(*parts, f"{TOP}.py")).exists() else parts
        named = [n if n in parsed else n.rpartition(".")[0] for n in imported(tree, inner)]
        graph[name] = {n for n in named if n in parsed}
    return graph


def import_cycle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle in order, or none."""
    done: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name not in done:
            for target in sorted(graph[name]):
                if found := search(target, [*path, name]):
                    return found
            done.add(name)
        return []

    return next((found for name in graph if (found := search(name, []))), [])


def body_lines(tree: ast.AST) -> dict[str, int]:
    """Lines of every function's body, without its docstring."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[ast.get_docstring(node) is not None :]
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            found[node.name] = max(found.get(node.name, 0), lines)
    return found


def test_no_import_goes_round_in_a_circle():
    graph = import_graph(PACKAGE)
    assert "dpdistill.private.curator" in graph["dpdistill.run.driver"]
    assert import_cycle(graph) == []


def test_a_planted_circle_is_found(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "a" / "__init__.py").write_text("from dpdistill.a.one import f")
    (tmp_path / "a" / "one.py").write_text("import jax\n\ndef f():\n    from dpdistill.two import g")
    (tmp_path / "two.py").write_text("g = 1")
    assert import_cycle(import_graph(tmp_path)) == []
    (tmp_path / "two.py").write_text("from .a import one")
    assert import_cycle(import_graph(tmp_path)) == ["dpdistill.a.one", "dpdistill.two"]
    (tmp_path / "two.py").write_text("if False:\n    from . import a")
    assert import_cycle(import_graph(tmp_path)) == ["dpdistill.a", "dpdistill.a.one", "dpdistill.two"]


def test_functions_are_short():
    bodies = {f"{m}.{f}": n for m, tree in modules(PACKAGE).items() for f, n in body_lines(tree).items()}
    assert len(bodies) > 500
    assert {name: n for name, n in bodies.items() if n > 50} == {}


def test_lines_of_a_body_are_counted_without_its_docstring():
    long = 'def f(\n    a,\n):\n    """Says.\n\n    More.\n    """\n    def g():\n        return [\n            a]\n'
    long += "\n    return g\n"
    assert body_lines(ast.parse(long)) == {"f": 5, "g": 2}
    assert body_lines(ast.parse('def f():\n    """Says."""\n')) == {"f": 0}


def printing(package: Path) -> list[str]:
    """Modules outside of the command line that print, or write to a standard stream: a library logs."""
    found = []
    for path in sorted(package.rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        where = path.relative_to(package)
        prints = any(isinstance(call, ast.Name) and call.id in ("print", "pprint") for call in calls)
        streams = any(isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr") for node in nodes)
        if where.parts[0] != "cli" and (prints or streams):
            found.append(where.as_posix())
    return found


def test_only_the_command_line_prints(tmp_path):
    assert printing(PACKAGE) == ["audits/observe.py", "verify_minimal.py"], (
        "An audit catches what a method prints, a script prints its result; no other module prints."
    )
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "one.py").write_text("print(1)")
    (tmp_path / "two.py").write_text("def f():\n    print(1)")
    (tmp_path / "three.py").write_text("import sys\nsys.stderr.write('1')")
    (tmp_path / "four.py").write_text("import logging\nlogging.getLogger('dpdistill').info('1')")
    assert printing(tmp_path) == ["three.py", "two.py"]


def test_the_private_room_is_read_in_an_hour():
    lines = {path.name: len(path.read_text().splitlines()) for path in (PACKAGE / "private").rglob("*.py")}
    assert {"curator.py", "grid.py", "noise.py", "sampling.py", "share.py"} <= set(lines)
    assert sum(lines.values()) - lines["share.py"] <= 1_000
    assert lines["share.py"] <= 50  # only a run of several owners has it
