"""Keeps freed memory for the next step, where the C library has such a setting."""

from __future__ import annotations

import ctypes
import os

BLOCK = 256 << 20
"""Threshold in bytes: larger blocks, such as the features of all records, go back to the system at once."""
OLDER = 32 << 20
"""Largest threshold in bytes that glibc accepts before version 2.35."""
STATED = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")
"""Environment variables that set glibc's thresholds; since 2.26 also glibc.malloc... in GLIBC_TUNABLES."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Makes glibc keep freed blocks of up to 256 MiB, 512 MiB in total; does nothing on other systems.

    XLA allocates temporary memory in every call. Above glibc's default threshold the system maps and zeroes that
    memory each time, which took a third of the processor time of steps on tiles (docs/experiments/one-set.md).
    Thresholds that the environment states are kept.
    """
    if any(name in os.environ for name in STATED) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library than glibc; on Windows there is no CDLL(None)
        return
    # Setting the trim threshold alone would stop glibc from raising the other threshold.
    if set_option(_MMAP_THRESHOLD, BLOCK) or set_option(_MMAP_THRESHOLD, OLDER):
        set_option(_TRIM_THRESHOLD, 2 * BLOCK)
