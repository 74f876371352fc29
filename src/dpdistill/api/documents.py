"""Documents and file formats that are made of a shared folder."""

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
    """Files that `export` has written.

    Args:
        path: the file or folder.
        format: its name.
        document: the document that it is or carries, such as "README.md"; empty without one.
        open: fields of that document that are left for its publisher.
        guaranteed: the certificate of the shared folder states a guarantee, which holds for the export, too.
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
        to: "hf", "torch", "csv", "croissant", "registry" or "card".
        out: the file or folder to write; it must not exist.
        about: what only the publisher can state: a `Publisher`, or texts "field=value".
        about_file: a YAML file of such fields; `about` overrides them.

    Returns:
        The place, and the fields that are left open.

    Raises:
        DataError: an unknown format or field, a place that cannot be written, a folder that is not what its certificate
            lists, or a registry's record of a set without a guarantee.

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


def report(folder: str | os.PathLike) -> Path:
    """Writes the page of a result, report.html, anew.

    Args:
        folder: the shared folder.

    Returns:
        The page.

    Raises:
        DataError: a folder that cannot be read.

    Example:
        >>> report("shared")  # doctest: +SKIP
        PosixPath('shared/report.html')
    """
    from dpdistill.publish.report import write_report

    return write_report(Path(folder))
