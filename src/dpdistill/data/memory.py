"""How much of the records may lie in memory, and on whose disk the rest lies."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from dpdistill.schema import DataError

_CGROUP = Path("/sys/fs/cgroup/memory.max")
_SIZE = re.compile(r"(\d{1,15})(\.\d{1,9})?\s*([KMGT]?)(I?B)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_UNTOLD = 2 << 30
"""Of bytes: what a machine is taken to have that does not tell."""


@dataclass(frozen=True)
class Memory:
    """What a set of records, or of their features, may take.

    Args:
        size: bytes of memory; what is beyond them lies in files.
        folder: on whose disk those files lie, also where it is yet to be made; None for the system's temporary folder.
        shared: files have names in the folder, so that several processes fill and read them; who made it removes it.
    """

    size: int = 1 << 62
    folder: Path | None = None
    shared: bool = False

    @classmethod
    def of(cls, size: int | str | None = None, folder: str | os.PathLike | None = None) -> Memory:
        """What is stated, or else half of what the machine has.

        Raises:
            DataError: no size.
        """
        known = (machine_memory() or _UNTOLD) // 2 if size is None else parse_memory(size)
        return cls(known, None if folder is None else Path(folder).absolute())


def parse_memory(stated: int | str) -> int:
    """Bytes from a number of them or from a text: 512M, 4G or 1.5 GiB, by powers of 1,024.

    Raises:
        DataError: not a size of at least one byte.
    """
    found = None if isinstance(stated, bool | float) else _SIZE.fullmatch(str(stated).strip())
    size = 0 if found is None else int(float(found[1] + (found[2] or "")) * 2 ** _POWERS[found[3].upper()])
    if size < 1:
        raise DataError(f"Expected memory={str(stated)[:80]!r} as a size such as 512M or 4G.")
    return size


def machine_memory() -> int | None:
    """Bytes of memory that this process may use at most; None where the system does not tell."""
    found = []
    try:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        found.append(int(_CGROUP.read_text()))
    except (AttributeError, OSError, ValueError):  # not Linux, or no limit
        pass
    return min((size for size in found if size > 0), default=None)
