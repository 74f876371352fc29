"""The table of input formats: a format is a module of `images/` or `tables/` that holds a FORMAT.

Nothing else names a format: reading, refusals and --help ask this table, which finds the modules by itself.
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
from dpdistill.storage.parsed import Raw

Load = Callable[[Path, str, Stated], Raw]
"""Reads the records of a file or folder: path, part ("train"), what the caller states."""


@dataclass(frozen=True, kw_only=True)
class ImageFormat:
    """A format of labelled images.

    Args:
        name: short.
        title: in --help and in refusals, after "expected": "SVHN's .mat".
        rank: formats are asked, and listed, by rank.
        endings: of files' names, such as ".xyz", which tell the format where `holds_file` does not.
        load_file: reads one file; None where the format is one of folders alone.
        load_folder: reads a folder; None where the format is one of files alone.
        holds_file: tells a file; it may refuse one with a sentence.
        holds_folder: tells a folder by its path and the names in it.
        guess: tells a file that no format recognises.
        channels: the images are files of their own, of any size, so that the caller may state size and channels.
        labels: what has several labels an image, in a refusal; empty where each image has one.
        units: what may name the unit of each image, likewise.
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
        """Returns whether a file is of this format.

        Raises:
            DataError: it is nearly so, in a sentence.
        """
        if self.load_file is None:
            return False
        return self.holds_file(path) if self.holds_file else path.name.lower().endswith(self.endings or ("\0",))


@dataclass(frozen=True, kw_only=True)
class TableFormat:
    """A format of tables in files.

    Args:
        title: in --help and in refusals: "Parquet".
        rank: formats are asked, and listed, by rank.
        endings: of files' names, such as ".xyz".
        open: returns the `Table` of a path; the second argument is how CSV files are written.
        holds: tells a file by its path and its first kilobytes; None for the endings. It may refuse one.
    """

    title: str
    rank: int = 70
    endings: tuple[str, ...] = ()
    open: Callable[[Path, Any], Any]
    holds: Callable[[Path, bytes], bool] | None = None

    def is_file(self, path: Path, start: bytes) -> bool:
        """Returns whether a file is of this format.

        Args:
            path: of the file.
            start: its first kilobytes, unpacked.

        Raises:
            DataError: it is nearly so, in a sentence.
        """
        return self.holds(path, start) if self.holds else path.name.lower().endswith(self.endings)


def of_single_part(raw: Raw, part: str) -> Raw:
    """Returns what a file holds that has one part, with a note where another one is asked for."""
    return replace(raw, notes=(*raw.notes, *single_part("file", part)))


def image_formats() -> tuple[ImageFormat, ...]:
    """The formats of images, by rank."""
    found = (each for each in _formats(images.__name__, tuple(images.__path__)) if isinstance(each, ImageFormat))
    return tuple(sorted(found, key=lambda each: each.rank))


def table_formats() -> tuple[TableFormat, ...]:
    """The formats of tables in files, by rank."""
    found = (each for each in _formats(tables.__name__, tuple(tables.__path__)) if isinstance(each, TableFormat))
    return tuple(sorted(found, key=lambda each: each.rank))


@lru_cache(maxsize=4)
def _formats(package: str, path: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(_found(package, path))


def _found(package: str, path: tuple[str, ...]) -> Iterator[object]:
    for found in iter_modules(path):
        source = next(Path(folder, f"{found.name}.py") for folder in path if Path(folder, f"{found.name}.py").exists())
        if "\nFORMAT = " in source.read_text("utf-8"):  # the others may need packages that are not installed
            yield import_module(f"{package}.{found.name}").FORMAT


def listed(words: Iterable[str], last: str = "or") -> str:
    """Words as a sentence lists them: "IDX files, CIFAR files, or Parquet"."""
    *others, final = [word for word in words if word]
    return f"{', '.join(others)}{',' * (len(others) > 1)} {last} {final}" if others else final


def image_titles() -> str:
    """The formats of images, as a sentence lists them after "expected"."""
    return listed(each.title for each in image_formats())


def table_titles() -> str:
    """The formats of tables, likewise."""
    return listed(each.title for each in table_formats())
