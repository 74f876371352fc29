"""The owner's page of an audit: what it shows comes from the private records, and every screen of it says so."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

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
