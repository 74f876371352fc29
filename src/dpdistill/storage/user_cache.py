"""The folder for what may be made again: the speed of this machine, compiled programs."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Returns the user's cache folder of this package: below XDG_CACHE_HOME, or below .cache at home."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    caches = Path(stated) if Path(stated).is_absolute() else Path(os.path.expanduser("~")) / ".cache"
    return caches / "dpdistill"
