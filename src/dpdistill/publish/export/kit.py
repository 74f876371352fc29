"""Makes the hand-over kit: one zip file for the partner, and one page for the privacy officer to sign."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

from dpdistill.folder.layout import (
    CARD,
    CERTIFICATE,
    CROISSANT,
    MODEL,
    PREDICT,
    REPORT,
    SUMS,
    UNLISTED,
    is_plain,
    is_signing,
    list_files,
    sha256,
)
from dpdistill.publish.export import card, program, sentences
from dpdistill.publish.export.documents import croissant_text, write_text
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report import render_report, words
from dpdistill.publish.report.folder import Folder
from dpdistill.publish.report.guarantee import read_guarantee
from dpdistill.publish.report.title import default_title, stated_title
from dpdistill.publish.templating import environment
from dpdistill.schema import DataError
from dpdistill.storage.atomic import write_atomically

ZIP, PAGE = "partner.zip", "officer.html"
START, VERIFIER, SET = "START_HERE.txt", "verify_minimal.py", "set"
GUIDE = f"""This archive holds a synthetic data set with a privacy guarantee.

{SET}/README.md        what the set is, and code that loads it
{SET}/report.html      the set and its guarantee as a page
{SET}/certificate.json the guarantee for programs
{VERIFIER}    checks the set: python {VERIFIER} {SET}   (needs numpy and scipy)

verify_minimal.py prints PASSED, or GUARANTEE PASSED, DOCUMENTS NOT COMPARED: it does not read the pages for people.
"""
_PAGES = environment("dpdistill.publish.export")
_PAGES.filters |= {function.__name__: function for function in words.FILTERS}


def write_kit(source: Path, to: Path, folder: Folder, publisher: Publisher) -> None:
    """Writes a folder with partner.zip and officer.html.

    The zip file holds the files that the certificate lists, documents made from them, signatures of a signed folder
    whose documents are the same, and the second verifier: no file of DIR.run, no scores, and no file that somebody else
    put into the folder.

    Raises:
        DataError: a set without a guarantee, which must not be shared.
    """
    if not read_guarantee(folder.certificate).holds:
        raise DataError("Expected a set with a privacy guarantee for a hand-over kit; this set has none.")
    folder = replace(folder, scores=None)
    title = stated_title(source)
    to.mkdir(parents=True)
    contents = partner_files(source, folder, publisher, title)
    write_atomically(to / ZIP, lambda file: _write_zip(file, contents))
    write_text(to / PAGE, officer_page(source, folder, publisher, title or default_title(folder)))


def partner_files(source: Path, folder: Folder, publisher: Publisher, title: str | None) -> dict[str, bytes]:
    """Returns the files for a partner, by their name in the zip file.

    Raises:
        DataError: a listed file is a link.
    """
    files: dict[str, bytes] = {START: GUIDE.encode()}
    for name in [*folder.certificate["files"], CERTIFICATE]:
        if not is_plain(source / name):
            raise DataError(f"Expected regular files in a set to hand over; {name} is none.")
        files[f"{SET}/{name}"] = (source / name).read_bytes()
    texts = {CARD: card.describe(folder, publisher), CROISSANT: croissant_text(folder, publisher)}
    texts[REPORT] = render_report(folder, title)
    if folder.has(MODEL):
        texts[PREDICT] = program.describe(folder, publisher)
    files |= {f"{SET}/{name}": text.encode("utf-8", "replace") for name, text in texts.items()}
    files |= _signatures(source, files)
    verifier = Path(__file__).parents[2] / VERIFIER
    return files | {VERIFIER: verifier.read_bytes()}


def _signatures(source: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """Returns documents.sha256 and the signatures; none if a document of the kit is not the one that was signed."""
    if not (source / SUMS).is_file():
        return {}
    lines = [line.partition("  ") for line in (source / SUMS).read_text("utf-8").splitlines()]
    signed = {name: digest for digest, _, name in lines}
    documents = [name for name in (*UNLISTED, CERTIFICATE) if f"{SET}/{name}" in files]
    if any(hashlib.sha256(files[f"{SET}/{name}"]).hexdigest() != signed.get(name) for name in documents):
        return {}
    names = [name for name in list_files(source) if is_signing(name) and is_plain(source / name)]
    return {f"{SET}/{name}": (source / name).read_bytes() for name in names}


def officer_page(source: Path, folder: Folder, publisher: Publisher, title: str) -> str:
    """Returns the page that a privacy officer signs: what was done, what is protected, what is not, who signs."""
    g = read_guarantee(folder.certificate)
    return _PAGES.get_template("officer.html").render(
        title=title,
        g=g,
        publisher=publisher,
        contents=sentences.contents(folder),
        origin=sentences.origin(folder, g),
        several=sentences.several(g),
        unknown=sentences.unknown(g),
        protected=sentences.protected(g),
        releases=sum(int(rounds or 0) for rounds, *_ in g.groups),
        inferred=[words.plain(name) for name in folder.certificate.get("inferred") or ()],
        classes=", ".join(map(words.plain, folder.schema.classes[:20])),
        date=words.plain(folder.certificate.get("date")),
        digest=sha256(source / CERTIFICATE),
    )


def _write_zip(file: object, contents: dict[str, bytes]) -> None:
    """Writes a zip file; equal contents give equal bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        for name, content in contents.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o644 << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
