"""Writes the owner's page of an audit, which states on every screen that it derives from private records."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from dpdistill.folder.save import audit_folder
from dpdistill.publish.templating import environment
from dpdistill.storage.atomic import write_atomically, writing

_PAGES = environment("dpdistill.audits")
NOTICE = (
    "For the owner of the records: computed from the private records without noise, NOT covered by epsilon."
    " Do not share it."
)


class Chapter(NamedTuple):
    """Section of the page: heading and rendered body."""

    title: str
    body: Markup


def chapter(title: str, template: str, **results: Any) -> Chapter:
    """Returns a chapter whose body is templates/<template>.html."""
    return Chapter(title, Markup(_PAGES.get_template(f"{template}.html").render(results)))


def write_audit(
    folder_audit: Path | str,
    name: str,
    *,
    title: str,
    summary: str,
    chapters: Iterable[Chapter],
    results: dict[str, Any],
) -> Path:
    """Writes <name>.html and <name>.json into the owner's folder of audits, with mode 0700.

    Args:
        folder_audit: the folder; made with mode 0700 if missing, and given that mode if not.
        name: name of both files.
        title: heading of the page.
        summary: sentence below the heading.
        chapters: the sections of the page, in order.
        results: results for JSON, after the notice.

    Returns:
        Path of the page: one file that loads nothing from anywhere.

    Raises:
        DataError: a folder that cannot be written.
    """
    folder, page = Path(folder_audit), _PAGES.get_template("page.html")
    html = page.render(name=name, title=title, summary=summary, chapters=chapters)
    text = json.dumps({"notice": NOTICE, **results}, indent=1, allow_nan=False)
    contents = {f"{name}.json": text.encode("ascii"), f"{name}.html": html.encode("utf-8", "xmlcharrefreplace")}
    with writing(folder):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
        folder.chmod(0o700)
        for file_name, content in contents.items():
            write_atomically(folder / file_name, lambda file, content=content: file.write(content))
    return folder / f"{name}.html"


@dataclass(frozen=True, eq=False)
class Page:
    """Content of the owner's page of an audit.

    Args:
        name: name of its files.
        title: heading of the page.
        summary: sentence below the heading.
        chapters: sections in order.
        results: results for JSON.
    """

    name: str
    title: str
    summary: str
    chapters: tuple[Chapter, ...]
    results: dict[str, Any]


class Audit(ABC):
    """Result of an audit or attack: for the owner of the records, not covered by epsilon."""

    @cached_property
    def page(self) -> Page:
        """Returns the owner's page."""
        return self._page()

    @property
    @abstractmethod
    def summary(self) -> str:
        """Returns a sentence about the audited object."""

    @abstractmethod
    def _page(self) -> Page: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary})"

    def to_json(self) -> dict[str, Any]:
        """Returns the results by the keys that --json prints under `results`."""
        return self.page.results

    def save(self, folder: str | os.PathLike) -> Path:
        """Writes FOLDER.audit/<name>.html and .json, readable by the owner only.

        Args:
            folder: folder that the pages belong to; it may be missing, and nothing is written into it.

        Returns:
            Path of the page.

        Raises:
            DataError: a folder that cannot be written.
        """
        page = self.page
        how = {"title": page.title, "summary": page.summary, "chapters": page.chapters, "results": page.results}
        return write_audit(audit_folder(folder), page.name, **how)
