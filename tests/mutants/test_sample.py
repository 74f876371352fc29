"""The sample of mutants that a tool makes: what is drawn, which tests run, and that survivors are argued."""

import mutant_files
import mutant_run
import mutant_sample
import mutation_page
import pytest

SOURCE = '''"""One + two."""
from __future__ import annotations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from other import some  # 1 + 1
__all__ = ["é" + "f"]
é: int | None = 1 + 2


def add(x: int | None, y: float = 2.0) -> int | None:
    """Not 3 + 4."""
    é = "é"; return x + 1  # noqa
'''


def test_what_does_not_run_is_not_drawn():
    places = mutant_sample.places_that_do_not_run(SOURCE)
    lines = SOURCE.splitlines()
    found = {lines[a - 1][b : d if a == c else None] for (a, b), (c, d) in places}
    assert found == {
        '"""One + two."""',
        "if TYPE_CHECKING:",
        '__all__ = ["é" + "f"]',
        "int | None",
        "float",
        '"""Not 3 + 4."""',
    }


def test_mutants_are_drawn_by_line_and_named_by_its_text():
    pytest.importorskip("cosmic_ray")
    left_out = mutant_files.CONFIG["left_out"]
    found = mutant_sample.mutants("a/b.py", SOURCE, left_out)
    assert {mutant.line for mutant in found} == {8, 11, 13}
    order = mutant_sample.ordered(found, "seed")
    assert sorted(mutant.line for mutant in order[:3]) == [8, 11, 13]
    moved = mutant_sample.mutants(
        "a/b.py", "x = 1 + 1\n" + SOURCE.replace("y: float = 2.0", "y: float = 3.0"), left_out
    )
    kept = {mutant.key for mutant in found if mutant.line != 11}
    assert kept < {mutant.key for mutant in moved}
    for mutant in found:
        changed = mutant_sample.mutated(SOURCE, mutant, left_out)
        assert changed is not None
        assert [a != b for a, b in zip(SOURCE.splitlines(), changed.splitlines(), strict=True)].index(
            True
        ) == mutant.line - 1


def test_six_hundred_are_drawn_and_every_module_has_tests():
    rooms = mutant_files.CONFIG["rooms"]
    assert sum(room["drawn"] for room in rooms.values()) == 600
    source = mutant_files.ROOT / "src" / "dpdistill"
    for room in rooms:
        for path in (source / room).rglob("*.py"):
            own, others = mutant_run.tests_of(path.relative_to(source).as_posix())
            assert len({*own, *others}) == len(own) + len(others) > 0
            assert all((mutant_files.ROOT / name).is_file() for name in own + others)
    for module in mutant_files.CONFIG["first"]:
        assert (source / module).is_file()


def test_the_page_counts_every_mutant_once():
    page = mutation_page.page().partition("## Verdicts by module")[0]
    rows = [line.strip("| \n").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == ["room", *mutant_files.CONFIG["rooms"], "all"]
    for _, drawn, *counts in rows[1:]:
        assert sum(map(int, counts[:6])) == int(drawn)
    for column in range(1, 8):
        assert sum(int(row[column]) for row in rows[1:-1]) == int(rows[-1][column])
    assert rows[-1][1] == "600"


def test_every_argument_is_of_a_survivor():
    verdicts = mutant_files.read_verdicts()
    for key, argument in mutant_files.read_arguments().items():
        assert verdicts[key]["verdict"] == "survived", key
        assert argument.startswith(("Equal: ", "Harmless: ")), key


def test_no_survivor_of_accounting_and_the_private_room_is_left_without_an_argument():
    arguments = mutant_files.read_arguments()
    for key, row in mutant_files.read_verdicts().items():
        if row["verdict"] == "survived" and key[0].startswith(mutation_page.TO_ARGUE):
            assert key in arguments or not mutant_files.stands(key[0], key[3]), key
