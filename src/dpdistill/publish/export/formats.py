"""The table of export formats, and the check before each export."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dpdistill.folder.layout import CARD, CERTIFICATE, CROISSANT, DEPLOYMENT, RECIPE, SCHEMA, hash_files
from dpdistill.publish.export import arrays, hugging_face, kit, models
from dpdistill.publish.export.documents import DOCUMENTS, write_text
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report.folder import Folder, read_folder
from dpdistill.publish.report.guarantee import mapping
from dpdistill.schema import DataError
from dpdistill.storage.atomic import writing
from dpdistill.storage.files import show

Write = Callable[[Path, Path, Folder, Publisher], None]
"""Function of (shared folder, destination, the folder's contents, the publisher's facts)."""


class Format(NamedTuple):
    """Describes one export format.

    Args:
        help: description of the output, for the table of all formats.
        ending: ending of the written file; empty for a folder.
        write: the function that writes the output.
        document: the entry of DOCUMENTS that the output is or contains; empty without one.
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
        "a CSV file: the table's own columns, or one column for each pixel of an image or tile",
        ".csv",
        arrays.write_csv,
        "",
    ),
    "onnx": Format(
        "a folder with the released classifier as an ONNX file, a program that runs it, a card, and the certificate",
        "",
        models.write_onnx,
        CARD,
    ),
    "kit": Format(
        "a folder to hand over: partner.zip with the set and a verifier, and officer.html, a page to print and sign",
        "",
        kit.write_kit,
        "",
    ),
    "croissant": _document("croissant.json, with the facts that you state", ".json", CROISSANT),
    "registry": _document("deployment.yaml, with the facts that you state", ".yaml", DEPLOYMENT),
    "card": _document("README.md, a dataset card, with the facts that you state", ".md", CARD),
}


def export(folder: str | os.PathLike, to: str, out: str | os.PathLike, publisher: Publisher | None = None) -> Path:
    """Writes a shared folder's records, or a document about them, in a third-party format.

    Args:
        folder: the shared folder.
        to: name of a format, among FORMATS.
        out: the file or folder to write; it must not exist.
        publisher: facts for the documents that the certificate does not contain.

    Returns:
        Path of the written file or folder.

    Raises:
        DataError: an unknown format, a destination that cannot be written, a folder that differs from its certificate,
            or a registry record of a set without a guarantee.

    Guarantee:
        Post-processing of the shared folder: the guarantee of its certificate holds.
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
            f"Expected a destination outside of {show(folder)}, whose files the certificate lists; got {show(path)}."
        )
    read = read_folder(Path(folder))
    _require_unchanged(Path(folder), read)
    with writing(path):
        chosen.write(Path(folder), path, read, publisher or Publisher())
        if path.is_dir() and chosen.document:
            _copy_claim(Path(folder), path)
    return path


def _copy_claim(source: Path, to: Path) -> None:
    """Copies the files that the claim of an exported card refers to."""
    for name in (CERTIFICATE, RECIPE, SCHEMA):
        if (source / name).is_file():
            shutil.copyfile(source / name, to / name)


def _require_unchanged(path: Path, folder: Folder) -> None:
    """Refuses a folder whose files differ from its certificate: an export repeats the certificate's claim."""
    listed, present = mapping(folder.certificate.get("files")), hash_files(path)
    changed = sorted(name for name in {*listed, *present} if listed.get(name) != present.get(name))
    if changed:
        raise DataError(f"{show(path)} is not what its certificate lists ({show(changed[0])}): see `dpdistill verify`.")
