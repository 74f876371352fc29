"""Returns the title of a page: the publisher's, or the classes of the set."""

from __future__ import annotations

import html
import re
import unicodedata
from pathlib import Path

from dpdistill.folder.layout import REPORT
from dpdistill.publish.report.folder import Folder
from dpdistill.publish.report.words import plain
from dpdistill.schema import DataError, TableSchema

LONGEST = 100
"""Characters of a title."""
SHOWN = 40
"""Characters of the classes in a default title."""
_STATED = re.compile('<h1 class="stated">([^<\n]{1,600})</h1>')
_GUARANTEE = re.compile(r"epsilon|delta|\beps\b|[εϵɛєԑδ]|private|privacy|\bDP\b|anonym", re.IGNORECASE)


def check_title(title: str) -> str:
    """Returns a publisher's title, without surrounding spaces.

    Raises:
        DataError: an empty or long title, characters that cannot be printed, or words about a guarantee, which the
            page states by itself.
    """
    title = unicodedata.normalize("NFC", title).strip()
    if not 0 < len(title) <= LONGEST or not title.isprintable():
        raise DataError(f"Expected a title of 1 to {LONGEST} printable characters; got {title!r:.120}.")
    if _GUARANTEE.search(unicodedata.normalize("NFKC", title)):
        raise DataError(f"Expected a title without words about privacy; got {title!r}: the page states the guarantee.")
    return title


def stated_title(folder: Path) -> str | None:
    """Returns the publisher's title of a page that is in a folder; None without one, or with one that is refused."""
    page = folder / REPORT
    if not page.is_file():
        return None
    with page.open("rb") as file:
        found = _STATED.search(file.read(1 << 16).decode("utf-8", "replace"))
    try:
        return None if found is None else check_title(html.unescape(found[1]))
    except DataError:
        return None


def default_title(folder: Folder) -> str:
    """Returns "Synthetic images: cat, dog", or for a table its label and classes."""
    schema = folder.schema
    shown = [plain(name) for name in schema.classes]
    while len(", ".join(shown)) > SHOWN and len(shown) > 1:
        shown.pop()
    names = ", ".join(shown)[:LONGEST] + ("" if len(shown) == len(schema.classes) else ", …")
    if isinstance(schema, TableSchema):
        if schema.target is not None:
            return f"Synthetic table: {plain(schema.target)[:LONGEST]} (a number)"
        if schema.label is None:
            return f"Synthetic table: {', '.join(plain(column.name) for column in schema.columns)}"[:LONGEST]
        return f"Synthetic table: {plain(schema.label)[:LONGEST]} ({names})"
    return f"Synthetic images: {names}"
