"""Limits of the memory for records, and the folder for the rest."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from dpdistill.schema import AnySchema, DataError

_CGROUP = Path("/sys/fs/cgroup/memory.max")
_SIZE = re.compile(r"(\d{1,15})(\.\d{1,9})?\s*([KMGT]?)(I?B)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_UNTOLD = 2 << 30
"""Bytes of memory assumed if the operating system reports none."""

_COPIES = 6
"""Copies of the synthetic records during optimisation: records, gradient, two moments, average, one to write."""

_SAMPLED = 3
"""Copies of a generator's records at one time: encoded, decoded, written."""


@dataclass(frozen=True)
class Memory:
    """Limit of the memory for a set of records, or for their features.

    Args:
        size: bytes of memory; the rest is stored in files.
        folder: folder on the disk for these files, which may not exist yet; None for the system's temporary folder.
        shared: whether the files have names in the folder, so that several processes can fill and read them; the
            creator removes them.
    """

    size: int = 1 << 62
    folder: Path | None = None
    shared: bool = False

    @classmethod
    def of(cls, size: int | str | None = None, folder: str | os.PathLike | None = None) -> Memory:
        """Returns the stated limit, or half of the machine's memory.

        Raises:
            DataError: an invalid size.
        """
        known = (machine_memory() or _UNTOLD) // 2 if size is None else parse_memory(size)
        return cls(known, None if folder is None else Path(folder).absolute())


def parse_memory(stated: int | str) -> int:
    """Returns bytes from a number or from a text: 512M, 4G or 1.5 GiB, by powers of 1,024.

    Raises:
        DataError: not a size of at least one byte.
    """
    match = None if isinstance(stated, bool | float) else _SIZE.fullmatch(str(stated).strip())
    size = 0 if match is None else int(float(match[1] + (match[2] or "")) * 2 ** _POWERS[match[3].upper()])
    if size < 1:
        raise DataError(f"Expected memory={str(stated)[:80]!r} as a size such as 512M or 4G.")
    return size


def check_set_size(per_class: int, schema: AnySchema, kernel: bool, available: int | None = None) -> None:
    """Refuses more synthetic records than this machine's memory can hold.

    Lower bound of a run's memory in bytes, for m records of d numbers: 24 m d, and 12 m^2 with a kernel, since three
    copies of its matrix are needed to solve it.

    Args:
        per_class: synthetic records per class.
        schema: schema of the records.
        kernel: whether the method has a kernel.
        available: bytes; None for this machine's.

    Raises:
        DataError: states the largest size that fits.
    """
    available = available or machine_memory()
    if available is None:
        return
    a, b = 12.0 * kernel, 4.0 * _COPIES * schema.dimension
    most = (math.sqrt(b * b + 4 * a * available) - b) / (2 * a) if kernel else available / b
    largest = int(most) // len(schema.classes)
    if per_class > largest:
        raise DataError(
            f"Expected per_class={per_class} <= {largest}: more records of {schema.dimension} numbers do not fit into "
            f"the {available / 2**30:.3g} GiB of memory of this machine."
        )


def sample_bytes(schema: AnySchema) -> int:
    """Returns the bytes of memory per record while more records are made and written."""
    return 4 * _SAMPLED * schema.dimension + 8 * _SAMPLED * math.prod(schema.raw_shape)


def check_sample(n: int, schema: AnySchema, available: int | None = None) -> None:
    """Refuses more generated records or images than half of this machine's memory can hold.

    Args:
        n: number of records.
        schema: schema of the records.
        available: bytes; None for this machine's.

    Raises:
        DataError: states the largest number that fits.
    """
    available = available or machine_memory() or _UNTOLD
    most = available // 2 // sample_bytes(schema)
    if n > most:
        raise DataError(
            f"Expected n={n:,} <= {most:,}: more records of {schema.dimension:,} numbers do not fit into half of the "
            f"{available / 2**30:.3g} GiB of memory of this machine. Make several parts, each with a different seed."
        )


def machine_memory() -> int | None:
    """Returns the bytes of memory available to this process; None if the system does not report them."""
    limits = []
    try:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        limits.append(int(_CGROUP.read_text()))
    except (AttributeError, OSError, ValueError):  # not Linux, or no limit
        pass
    return min((size for size in limits if size > 0), default=None)
