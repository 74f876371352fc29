"""Pages speak plainly: no banned phrase, short sentences, short table cells, and terms that lead to the glossary."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = {"docs/results.md"}
"""Pages that a program writes; their words are tested where they are written."""
PAGES = sorted(
    name
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb")]
    if (name := path.relative_to(ROOT).as_posix()) not in GENERATED
)
FORMS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / ".github").rglob("*") if path.is_file())
PROGRAMS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("benchmarks/**/*.py"))
BANNED = (
    *("nobody", "nobody's", "in the place of", "in place of", "of before", "as it was then", "of then", "is told"),
    *("are told", "goes on", "go on", "beside it", "by its own word", "by that word", "by the word of"),
    *("other people's", "the former", "leave the house", "leaves the house", "as long as one likes", "as one likes"),
    *("hearing", "speaks of", "of its own accord", "thrown dice", "throws dice"),
)
WORDS_OF_A_SENTENCE, WORDS_OF_A_CELL = 25, 12
TERMS = {
    "release": r"release[sd]?\b",
    "ε": r"(?-i:ε)(?![\w₁₂])|epsilon\b",
    "δ": r"(?-i:δ)(?![\w₁₂])|delta\b",
    "unit": r"units?\b",
    "ledger": r"ledgers?\b",
    "recipe": r"recipes?\b",
    "certificate": r"certificates?\b",
    "kernel ridge regression": r"kernel ridge regression\b|KRR\b",
}
"""Terms that a page links to the glossary where it first uses them, and how they are written."""


def text_of(name: str) -> str:
    """A page's text; of a notebook, its text cells."""
    text = (ROOT / name).read_text("utf-8")
    if not name.endswith(".ipynb"):
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def prose(text: str) -> str:
    """A page without blocks of code, formulas, pictures, comments and the targets of links."""
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.M | re.S)
    text = re.sub(r"^(?: {4,}|\t)(?![-*\d]).*$", "", text, flags=re.M) if "\n:   " not in text else text
    text = re.sub(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)|^---8?.*$|^::: .*$", "", text, flags=re.M | re.S)
    return re.sub(r"\]\([^)\s]+\)", "]", text)


def cells(text: str) -> list[str]:
    """The cells of a page's tables. Pieces of code and formulas are names, not words."""
    rows = [line for line in prose(text).splitlines() if line.startswith("|") and not re.match(r"\|[-:| ]+$", line)]
    plain = [re.sub(r"\\\||`[^`]*`", "", row).strip("|").split("|") for row in rows]
    return [cell.strip() for row in plain for cell in row]


def sentences(text: str) -> list[str]:
    """Sentences of paragraphs and of list items; a piece of code counts as one word."""
    lines = ["" if line.startswith(("|", "#")) else line for line in prose(text).splitlines()]
    joined = re.sub(r"\n(?= *(?:[-*+]|\d+\.|:) )", "\n\n", "\n".join(lines))
    found = []
    for paragraph in re.split(r"\n\s*\n", joined):
        flat = re.sub(r"`[^`]*`", "CODE", " ".join(paragraph.split()))
        flat = re.sub(r"^(?:[-*+:]|\d+\.) +", "", flat)
        found += re.split(r"(?<=[.!?])[)*\"”]* +(?=[A-Z0-9(*\[`ε\"“])", flat)
    return [each for each in found if each.strip()]


def words(text: str) -> int:
    return len([word for word in re.sub(r"`[^`]*`", "CODE", text).split() if re.search(r"\w", word)])


def banned(text: str) -> list[str]:
    """Phrases that a text has. What a program prints or reads, in marks of code, is tested where the program is."""
    flat = " ".join(re.sub(r"`[^`\n]+`|[*_]", "", text).lower().split())
    return [phrase for phrase in BANNED if re.search(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])", flat)]


def unlinked(text: str) -> list[str]:
    """Terms whose first use in running text is no link to the glossary."""
    lines = [
        "" if line.startswith(("|", "#")) else line
        for line in re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.M | re.S).splitlines()
    ]
    flat = re.sub(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)|`[^`]*`|^ {4}.*$|^::: .*$", "", "\n".join(lines), flags=re.M | re.S)
    flat = re.sub(r"\]\((?![^)]*glossary)[^)]*\)", "]", flat)
    found = []
    for term, pattern in TERMS.items():
        first = re.search(rf"(?<![\w/.#-])(?:{pattern})", flat, re.I)
        if first and not re.search(
            rf"\[[^\]]*(?:{pattern})[^\]]*\]\([^)]*glossary\.md",
            flat[max(0, first.start() - 40) : first.end() + 90],
            re.I,
        ):
            found.append(term)
    return found


@pytest.mark.parametrize("page", [*PAGES, *FORMS, *PROGRAMS])
def test_no_banned_phrase(page):
    assert banned(text_of(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page):
    assert [each for each in sentences(text_of(page)) if words(each) > WORDS_OF_A_SENTENCE] == []


@pytest.mark.parametrize("page", PAGES)
def test_cells_of_tables_are_short(page):
    assert [each for each in cells(text_of(page)) if words(each) > WORDS_OF_A_CELL] == []


@pytest.mark.parametrize("page", [name for name in PAGES if name not in ("docs/glossary.md", "CHANGELOG.md")])
def test_terms_lead_to_the_glossary(page):
    assert unlinked(text_of(page)) == []


LONG = "A sentence " + "word " * 24 + "ends."


def test_planted_faults_are_found():
    page = f"# Title\n\nNobody is told. {LONG}\n\n| a | b |\n|---|---|\n| {'word ' * 13}| ok |\n"
    assert banned(page) == ["nobody", "is told"]
    assert sentences(page) == ["Nobody is told.", LONG]
    assert [words(each) for each in sentences(page)] == [3, 27]
    assert [words(each) for each in cells(page)] == [1, 1, 13, 1]
    assert banned("Anybody reads `nobody`.") == []
    assert unlinked("The release costs ε.") == ["release", "ε"]
    assert unlinked("A [release](glossary.md#release) costs [ε](glossary.md#epsilon); a release of ε.") == []
    assert unlinked("See [formats](certificate.md), `ledger` and Δ.\n\n| unit | δ |\n") == []


def test_a_list_item_is_a_sentence_of_its_own():
    assert sentences("Items:\n\n* one\n  more\n* two. Three `x.y` four.\n1. five") == [
        *("Items:", "one more", "two.", "Three CODE four.", "five")
    ]
