"""Where the page of an audit goes, which is its owner's alone."""

from __future__ import annotations

from pathlib import Path

from dpdistill.cli.terminal import give, say
from dpdistill.schema import DataError


def owners_folder(folder: str | Path) -> Path:
    """DIR.audit, refused where it cannot be written: asked for before anything is paid or computed."""
    from dpdistill.folder.save import check_writable
    from dpdistill.storage.files import reading

    with reading(folder):
        path = Path(folder).resolve()
        if not path.name:
            raise DataError("Expected a name for the page's folder, NAME.audit; got the root of all folders.")
        beside = path.with_name(f"{path.name}.audit")
        check_writable(beside)
    return beside


def write_page(folder: str | Path, name: str, title: str, summary: str, chapters: list, results: dict) -> None:
    """DIR.audit/NAME.html and .json, and where they are."""
    from dpdistill.audits.page import write_audit

    how = {"title": title, "summary": summary, "chapters": chapters, "results": results}
    page = write_audit(owners_folder(folder), name, **how)
    give(page=str(page), for_the_owner_only=True, results=results)
    say(f"{page}: for you only; nothing in it is covered by epsilon.")
