"""Exports a shared folder to documents and other file formats."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.publish.export.publisher import Publisher


@dataclass(frozen=True)
class Exported:
    """Files that `export` wrote.

    Args:
        path: the file or folder.
        format: name of the format.
        document: document of the export, such as "README.md"; empty if there is none.
        open: fields of that document for the publisher to fill in.
        guaranteed: True if the shared folder's certificate states a guarantee, which then covers the export.
    """

    path: Path
    format: str
    document: str
    open: tuple[str, ...]
    guaranteed: bool


def export(
    folder: str | os.PathLike,
    to: str,
    out: str | os.PathLike,
    about: Publisher | Iterable[str] = (),
    *,
    about_file: str | os.PathLike | None = None,
) -> Exported:
    """Exports a result to a third-party format: for the Hugging Face Hub, PyTorch, spreadsheets, catalogues.

    Args:
        folder: the shared folder.
        to: "hf", "torch", "csv", "onnx", "kit", "croissant", "registry" or "card".
        out: new file or folder to write.
        about: facts that only the publisher knows: a `Publisher`, or texts "field=value".
        about_file: a YAML file of such fields; `about` overrides them.

    Returns:
        The written path, and the fields for the publisher to fill in.

    Raises:
        DataError: an unknown format or field, a path that cannot be written, a folder that differs from its
            certificate, or a registry record of a set without a guarantee.

    Guarantee:
        Post-processing of the shared folder: the guarantee of its certificate.

    Example:
        >>> export("shared", "csv", "synthetic.csv")  # doctest: +SKIP
    """
    from dpdistill.publish.export import FORMATS, Publisher
    from dpdistill.publish.export import export as write
    from dpdistill.publish.report.folder import read_folder
    from dpdistill.publish.report.guarantee import read_guarantee

    if not isinstance(about, Publisher):
        about = Publisher.parse(about, None if about_file is None else Path(about_file))
    elif about_file is not None:
        raise DataError("Expected a Publisher or about_file, not both.")
    path = write(folder, to, out, about)
    document = FORMATS[to].document
    guaranteed = read_guarantee(read_folder(Path(folder)).certificate).holds
    return Exported(path, to, document, tuple(about.open_in(document)), guaranteed)


def report(folder: str | os.PathLike, title: str | None = None) -> Path:
    """Writes the page of a result, report.html, again.

    Args:
        folder: the shared folder.
        title: name of the set, as the page shows it; None for that of the present page, or else the classes.

    Returns:
        The path of the page.

    Raises:
        DataError: a folder that cannot be read, or a title that states a guarantee.

    Example:
        >>> report("shared")  # doctest: +SKIP
        PosixPath('shared/report.html')
    """
    from dpdistill.publish.report import write_report

    return write_report(Path(folder), title)
