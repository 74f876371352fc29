"""The words of texts: no phrase of the list below, and docstrings that begin with a verb or a noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dpdistill"
TEXTS = {".py", ".html", ".css", ".md", ".yml", ".yaml", ".ipynb", ".json"}
PARTS = sorted(path for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "py.typed"))
NAMES = ("docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks", ".github")
PLACES = [*PARTS, *(ROOT / name for name in NAMES)]
PHRASES = (
    "nobody's",
    "nobody",
    "somebody else's",
    "other people's",
    "a stranger's",
    "in the place of",
    "takes the place of",
    "of before",
    "as it was then",
    "is told",
    "are told",
    "told of",
    "goes on where",
    "go on where",
    "has gone on",
    "beside it",
    "beside them",
    "beside one another",
    "by its own word",
    "'s own word",
    "by the word of somebody",
    "by the publisher's word",
    "handed over",
    "is said of",
    "as said",
    "said to be in",
    "that a program draws",
    "brought upright",
    "is heard",
    "not any more",
    "of one's own",
)
"""Phrases that readers have to puzzle out, in small letters and with single spaces."""
FIRST_WORDS = re.compile(r"(Of|What|Whether|The same|It|That|Those|How)\b")
ALLOWED = {name: {"nobody"} for name in ("src/dpdistill/certificate/public_inputs.py", "docs/certificate.md")}
"""Phrases that certificates state in a field, by file."""


def found_phrases(text: str) -> list[str]:
    """Returns the phrases of the list in a text; line breaks, comment marks and quotes of joined strings are spaces."""
    plain = re.sub(r"[\"']\s*\n\s*[frb]*[\"']", "", text.replace("\u2019", "'"))
    plain = " ".join(re.sub(r"\n\s*(#+|>|\*)\s", "\n", plain).lower().split())
    return [phrase for phrase in PHRASES if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w|'s)", plain)]


def bad_beginnings(source: str) -> list[str]:
    """Returns the first words of docstrings, also of constants, that begin with a refused word."""
    return [text[:60] for text in docstrings(ast.parse(source)) if FIRST_WORDS.match(text)]


def docstrings(tree: ast.AST) -> Iterator[str]:
    bodies = [node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)]
    for value in (each.value for body in bodies for each in body if isinstance(each, ast.Expr)):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value.strip()


def files(place: Path) -> list[Path]:
    paths = [place] if place.is_file() else sorted(place.rglob("*"))
    return [path for path in paths if path.is_file() and path.suffix in TEXTS and "__pycache__" not in path.parts]


def test_the_finder_finds():
    assert found_phrases("a map of\n    # nobody's pictures") == ["nobody's"]
    assert found_phrases('"a class in the "\n    f"place of a name"') == ["in the place of"]
    assert found_phrases("The folder\n> beside   it, as IT WAS\nthen") == ["as it was then", "beside it"]
    assert found_phrases("It stands beside items of beforehand.") == []
    source = (
        '"""Of a file."""\nX = 1\n"""What X is."""\ndef f():\n    """Whether it is."""\nclass C:\n    """Itself."""\n'
    )
    assert bad_beginnings(source) == ["Of a file.", "What X is.", "Whether it is."]
    assert bad_beginnings('"""Offsets of columns."""\n"""Returns whether it is."""') == []


def label(place: Path) -> str:
    return place.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("place", PLACES, ids=label)
def test_no_refused_phrase(place):
    texts = {label(path): found_phrases(path.read_text(encoding="utf-8")) for path in files(place)}
    assert texts
    left = {name: set(phrases) - ALLOWED.get(name, set()) for name, phrases in texts.items()}
    assert {name: phrases for name, phrases in left.items() if phrases} == {}


@pytest.mark.parametrize("place", PARTS, ids=label)
def test_docstrings_begin_with_a_verb_or_a_noun(place):
    texts = {label(path): bad_beginnings(path.read_text()) for path in files(place) if path.suffix == ".py"}
    assert {name: beginnings for name, beginnings in texts.items() if beginnings} == {}
