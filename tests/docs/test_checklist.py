"""The checklist stays true: every test that it names exists, and every row says in which state an item is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "checklist.md").read_text().splitlines()
    if line.startswith("| ") and line.count("|") == 6 and not line.startswith("| item |")
]
STATES = ("covered", "partly", "not covered")


def missing(rows):
    """Tests that a row names and no file holds."""
    named = [name for row in rows for name in re.findall(r"`([^`]*test_[^`]*)`", row[3])]
    found = []
    for name in named:
        path, _, function = name.partition("::")
        file = ROOT / "tests" / path
        if not (file.is_file() and re.search(rf"^ *def {function}\(", file.read_text(), re.M)):
            found.append(name)
    return found


def test_every_test_that_is_named_exists():
    assert missing(ROWS) == []
    gone = [["", "", "", "`test_rooms.py::test_nothing`"], ["", "", "", "`test_nowhere.py::test_it`"]]
    assert missing(gone) == ["test_rooms.py::test_nothing", "test_nowhere.py::test_it"]


def test_every_row_has_its_lists_and_its_state():
    assert len(ROWS) > 60
    for item, lists, how, tested, state in ROWS:
        assert set(lists.split()) <= {*"NOJR"}, item
        assert lists, item
        assert state in STATES, item
        assert state != "covered" or "::test_" in tested, f"No test of {item}."
        assert max(len(item.split()), len(how.split())) <= 12, f"A long cell: {item}."
    assert {row[4] for row in ROWS} == {*STATES}
    assert {letter for row in ROWS for letter in row[1].split()} == {*"NOJR"}


def test_every_list_is_named_with_its_address():
    page = (ROOT / "docs" / "checklist.md").read_text()
    assert re.findall(r"^\| ([NOJR]) \| \[[^\]]+\]\(https://", page, re.M) == [*"NOJR"]
