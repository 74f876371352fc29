"""The table of formats that a shared folder is exported to, and the check before each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dpdistill.folder.layout import CARD, CERTIFICATE, CROISSANT, DEPLOYMENT, RECIPE, SCHEMA, hash_files
from dpdistill.publish.export import arrays, hugging_face
from dpdistill.publish.export.documents import DOCUMENTS, write_text
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report.folder import Folder, read_folder
from dpdistill.publish.report.guarantee import mapping
from dpdistill.schema import DataError
from dpdistill.storage.atomic import writing
from dpdistill.storage.files import show

Write = Callable[[Path, Path, Folder, Publisher], None]
"""(shared folder, where to, what the folder holds, what its publisher states)."""


class Format(NamedTuple):
    """A format.

    Args:
        help: what is written, for a table of all.
        ending: of the file that is written; empty for a folder.
        write: writes it.
        document: the one of DOCUMENTS that it is, or that it carries; empty without one.
    """

    help: str
    ending: str
    write: Write
    document: str


def _document(help: str, ending: str, name: str) -> Format:
    def write(source: Path, to: Path, folder: Folder, publisher: Publisher) -> None:
        write_text(to, DOCUMENTS[name](folder, publisher))

    return Format(help, ending, write, name)


FORMATS = {
    "hf": Format(
        "a folder for the Hugging Face Hub: Parquet with ClassLabel, its card, and the certificate",
        "",
        hugging_face.write,
        CARD,
    ),
    "torch": Format(
        "a folder with arrays in PyTorch's layout, and a Dataset that reads them, its card, and the certificate",
        "",
        arrays.write_torch,
        CARD,
    ),
    "csv": Format(
        "a CSV file: a table as it is, an image or a tile as one column a pixel",
        ".csv",
        arrays.write_csv,
        "",
    ),
    "croissant": _document("croissant.json, with what you state of it", ".json", CROISSANT),
    "registry": _document("deployment.yaml, with what you state of it", ".yaml", DEPLOYMENT),
    "card": _document("README.md, a dataset card, with what you state of it", ".md", CARD),
}


def export(folder: str | os.PathLike, to: str, out: str | os.PathLike, publisher: Publisher | None = None) -> Path:
    """Write a shared folder's records, or a document about them, in a format of other people's.

    Args:
        folder: the shared folder.
        to: name of a format, among FORMATS.
        out: the file or folder to write; it must not exist.
        publisher: what the documents are to say that no certificate implies.

    Returns:
        What was written.

    Raises:
        DataError: an unknown format, a place that cannot be written, a folder that is not what its certificate says,
            or a registry's record of a set without a guarantee.

    Guarantee:
        Post-processing of the shared folder: that of its certificate.
    """
    if to not in FORMATS:
        raise DataError(f"Unknown format {to!r}: choose among {', '.join(FORMATS)}.")
    path, chosen = Path(out), FORMATS[to]
    if path.suffix != chosen.ending:
        wanted = f"a {chosen.ending} file" if chosen.ending else "a folder"
        raise DataError(f"Expected {wanted} for the format {to}; got {show(path)}.")
    if path.exists():
        raise DataError(f"{show(path)} exists: choose another place.")
    if Path(folder).resolve() in path.resolve().parents:
        raise DataError(
            f"Expected a place outside of {show(folder)}, whose files its certificate lists; got {show(path)}."
        )
    read = read_folder(Path(folder))
    _require_unchanged(Path(folder), read)
    with writing(path):
        chosen.write(Path(folder), path, read, publisher or Publisher())
        if path.is_dir():
            _copy_claim(Path(folder), path)
    return path


def _copy_claim(source: Path, to: Path) -> None:
    """Returns what the card of a folder rests on goes with it."""
    for name in (CERTIFICATE, RECIPE, SCHEMA):
        if (source / name).is_file():
            shutil.copyfile(source / name, to / name)


def _require_unchanged(path: Path, folder: Folder) -> None:
    """Returns what is exported carries the certificate's claim, so it must be what the certificate lists."""
    listed, found = mapping(folder.certificate.get("files")), hash_files(path)
    changed = sorted(name for name in {*listed, *found} if listed.get(name) != found.get(name))
    if changed:
        raise DataError(f"{show(path)} is not what its certificate lists ({show(changed[0])}): see `dpdistill verify`.")
