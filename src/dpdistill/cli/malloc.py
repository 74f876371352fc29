"""Memory that one step frees is kept for the next, where the C library can be told so."""

from __future__ import annotations

import ctypes
import os

BLOCK = 256 << 20
"""Bytes. Larger blocks still go back to the system at once, such as the features of all records."""
OLDER = 32 << 20
"""The largest threshold that glibc takes before 2.35."""
STATED = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")
"""Variables with which a person says what glibc is to keep; since 2.26 also glibc.malloc... in GLIBC_TUNABLES."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of up to 256 MiB, and 512 MiB of them in total; other systems are left as they are.

    XLA asks for its temporary memory anew in every call. Where that is more than glibc keeps by itself, the system maps
    and zeroes it each time, which took a third of the processor time of steps on tiles
    (docs/experiments/one-set.md). Thresholds that the environment states are left as they are.
    """
    if any(name in os.environ for name in STATED) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library than glibc; on Windows there is no CDLL(None)
        return
    # A trim threshold alone would switch off that glibc raises the other one by itself.
    if set_option(_MMAP_THRESHOLD, BLOCK) or set_option(_MMAP_THRESHOLD, OLDER):
        set_option(_TRIM_THRESHOLD, 2 * BLOCK)
