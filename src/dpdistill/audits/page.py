"""The owner's page of an audit: what it shows comes from the private records, and every screen of it says so."""

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
    """A section of the page: its heading, and what one of the templates made of the results."""

    title: str
    body: Markup


def chapter(title: str, template: str, **results: Any) -> Chapter:
    """A chapter whose body is templates/<template>.html."""
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
    """Writes <name>.html and <name>.json into the owner's folder of audits, which nobody else may read.

    Args:
        folder_audit: the folder; made with mode 0700 if missing, and given that mode if not.
        name: of both files.
        title: heading of the page.
        summary: a sentence below it.
        chapters: the sections of the page, in order.
        results: the same as JSON has it; the notice comes first.

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
    """The owner's page of an audit before it is written.

    Args:
        name: of its files.
        title: its heading.
        summary: a sentence below the heading.
        chapters: its sections, in order.
        results: what the page shows, as JSON has it.
    """

    name: str
    title: str
    summary: str
    chapters: tuple[Chapter, ...]
    results: dict[str, Any]


class Audit(ABC):
    """The result of an audit or of an attack: for the owner of the records, not covered by epsilon."""

    @cached_property
    def page(self) -> Page:
        """The owner's page."""
        return self._page()

    @property
    @abstractmethod
    def summary(self) -> str:
        """A sentence on what was audited."""

    @abstractmethod
    def _page(self) -> Page: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary})"

    def to_json(self) -> dict[str, Any]:
        """Returns what was found by the keys that --json prints under `results`."""
        return self.page.results

    def save(self, folder: str | os.PathLike) -> Path:
        """Writes FOLDER.audit/<name>.html and .json, which nobody but the owner may read.

        Args:
            folder: that the pages belong to; the folder itself need not exist, and nothing is written into it.

        Returns:
            Path of the page.

        Raises:
            DataError: a folder that cannot be written.
        """
        page = self.page
        how = {"title": page.title, "summary": page.summary, "chapters": page.chapters, "results": page.results}
        return write_audit(audit_folder(folder), page.name, **how)
