"""Pages of the documentation: links lead to files and headings that are there, included files are included, and no page
says to install what no index has."""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub and MkDocs name those of letters that both leave as they are."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    named = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    return {name for name in named if name.isascii() and "--" not in name}


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S))
    missing = []
    for link in (link for link in links if not re.match(r"[a-z]+:", link)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_included_files_are_there(page):
    """A line that MkDocs does not take for an inclusion is shown as it stands, as after a formatter's visit."""
    lines = [line for line in page.read_text().splitlines() if re.match(r"-+8\s*<", line)]
    found = [re.fullmatch(r'--8<-- "([^"]+)"', line) for line in lines]
    assert all(match and (ROOT / match[1]).is_file() for match in found), lines
    assert page.name != "authors.md" or len(found) == 1


def test_nobody_is_told_to_install_what_is_not_published():
    """The name is nobody's in the package index: whoever registers it would be installed."""
    pages = [*PAGES, *ROOT.glob("src/**/*.md"), *ROOT.glob("src/**/*.html"), *ROOT.glob("docs/**/*.ipynb")]
    named = [
        page
        for page in pages
        if page.name != "CHANGELOG.md" and re.search(r"pip install '?dpdistill\b", page.read_text())
    ]
    assert named == []


def test_links_of_notebooks_lead_to_pages_of_the_site():
    assert len(NOTEBOOKS) > 2
    spec = importlib.util.spec_from_file_location("notebook_links", ROOT / "docs" / "notebook_links.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    html = '<a href="../glossary.md#epsilon">e</a> <a href="../tutorials/images.md">i</a> <a href="https://x.md">x</a>'
    expected = (
        '<a href="../../glossary/#epsilon">e</a> <a href="../../tutorials/images/">i</a> <a href="https://x.md">x</a>'
    )
    for name, shown in (("notebooks/digits.ipynb", expected), ("limits.md", html)):
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name))
        assert hook.on_page_content(html, page=page) == shown
