"""Table of input formats: a format is a module of `images/` or `tables/` with a FORMAT.

Reading, error messages and --help use this table, which finds the modules itself. No other code lists the formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from dpdistill.sources import images, tables
from dpdistill.storage.files import single_part
from dpdistill.storage.options import Stated
from dpdistill.storage.parsed import Parsed

Load = Callable[[Path, str, Stated], Parsed]
"""Reads the records of a file or folder from its path, the part ("train") and the stated options."""


@dataclass(frozen=True, kw_only=True)
class ImageFormat:
    """Format of labelled images.

    Args:
        name: short name.
        title: name in --help and in error messages, after "expected", such as "SVHN's .mat".
        rank: position of the format when formats are tried and listed.
        endings: endings of file names, such as ".xyz"; they recognise a file if `holds_file` is None.
        load_file: reads one file; None for a format of folders only.
        load_folder: reads a folder; None for a format of files only.
        holds_file: returns whether a file has this format; it may refuse the file with a DataError.
        holds_folder: returns whether a folder has this format, from its path and the names in it.
        guess: returns whether a file that no format recognises probably has this format.
        channels: True if every image is a file of any size, so the caller may state size and channels.
        labels: name, in an error message, of the sources with several labels per image; empty if there are none.
        units: name, in an error message, of the sources that state the unit of each image; empty if there are none.
    """

    name: str
    title: str = ""
    rank: int = 70
    endings: tuple[str, ...] = ()
    load_file: Load | None = None
    load_folder: Load | None = None
    holds_file: Callable[[Path], bool] | None = None
    holds_folder: Callable[[Path, list[str]], bool] | None = None
    guess: Callable[[Path], bool] | None = None
    channels: bool = False
    labels: str = ""
    units: str = ""

    def is_file(self, path: Path) -> bool:
        """Returns whether a file has this format.

        Raises:
            DataError: a file that resembles this format but cannot be read.
        """
        if self.load_file is None:
            return False
        return self.holds_file(path) if self.holds_file else path.name.lower().endswith(self.endings or ("\0",))


@dataclass(frozen=True, kw_only=True)
class TableFormat:
    """Format of tables in files.

    Args:
        title: name in --help and in error messages, such as "Parquet".
        rank: position of the format when formats are tried and listed.
        endings: endings of file names, such as ".xyz".
        open: returns the `Table` of a path; the second argument is the format of CSV files.
        holds: returns whether a file has this format, from its path and first kilobytes; it may refuse the file with a
            DataError. None: the endings decide.
    """

    title: str
    rank: int = 70
    endings: tuple[str, ...] = ()
    open: Callable[[Path, Any], Any]
    holds: Callable[[Path, bytes], bool] | None = None

    def is_file(self, path: Path, start: bytes) -> bool:
        """Returns whether a file has this format.

        Args:
            path: path of the file.
            start: its first kilobytes, unpacked.

        Raises:
            DataError: a file that resembles this format but cannot be read.
        """
        return self.holds(path, start) if self.holds else path.name.lower().endswith(self.endings)


def of_single_part(raw: Parsed, part: str) -> Parsed:
    """Returns the records of a file with a single part, with a note if another part is requested."""
    return replace(raw, notes=(*raw.notes, *single_part("file", part)))


def image_formats() -> tuple[ImageFormat, ...]:
    """Returns the image formats, by rank."""
    found = (each for each in _formats(images.__name__, tuple(images.__path__)) if isinstance(each, ImageFormat))
    return tuple(sorted(found, key=lambda each: each.rank))


def table_formats() -> tuple[TableFormat, ...]:
    """Returns the formats of table files, by rank."""
    found = (each for each in _formats(tables.__name__, tuple(tables.__path__)) if isinstance(each, TableFormat))
    return tuple(sorted(found, key=lambda each: each.rank))


@lru_cache(maxsize=4)
def _formats(package: str, path: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(_found(package, path))


def _found(package: str, path: tuple[str, ...]) -> Iterator[object]:
    for found in iter_modules(path):
        source = next(Path(folder, f"{found.name}.py") for folder in path if Path(folder, f"{found.name}.py").exists())
        if "\nFORMAT = " in source.read_text("utf-8"):  # other modules may need packages that are not installed
            yield import_module(f"{package}.{found.name}").FORMAT


def listed(words: Iterable[str], last: str = "or") -> str:
    """Returns words as a list in a sentence: "IDX files, CIFAR files, or Parquet"."""
    *others, final = [word for word in words if word]
    return f"{', '.join(others)}{',' * (len(others) > 1)} {last} {final}" if others else final


def image_titles() -> str:
    """Returns the titles of the image formats as a list in a sentence."""
    return listed(each.title for each in image_formats())


def table_titles() -> str:
    """Returns the titles of the table formats as a list in a sentence."""
    return listed(each.title for each in table_formats())
