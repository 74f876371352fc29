"""The folder for what may be made again: the speed of this machine, compiled programs."""

from __future__ import annotations

import os
import platform
import zlib
from contextlib import suppress
from pathlib import Path


def user_cache() -> Path:
    """Returns the user's cache folder of this package: below XDG_CACHE_HOME, or below .cache at home."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    caches = Path(stated) if Path(stated).is_absolute() else Path(os.path.expanduser("~")) / ".cache"
    return caches / "dpdistill"


def processor() -> str:
    """Returns a name of the processor's instructions: a home may be shared by machines that lack each other's."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next(line for line in lines if line.startswith(("flags", "Features")))
        return f"{platform.machine()}-{zlib.crc32(flags.encode()):08x}"
    return platform.machine()
