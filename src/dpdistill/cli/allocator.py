"""Memory that one step frees is kept for the next, where the C library can be told so."""

from __future__ import annotations

import ctypes
import os

BLOCK = 256 << 20
"""Bytes. Larger blocks still go back to the system at once, such as the features of all records."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of up to 256 MiB, and 512 MiB of them in total; other systems are left as they are.

    XLA asks for its temporary memory anew in every call. Where that is more than glibc keeps by itself, the system maps
    and zeroes it each time, which took a third of the processor time of steps on tiles (docs/experiments/one-set.md). Whoever
    states thresholds in the environment, MALLOC_..., keeps them.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library than glibc; on Windows there is no CDLL(None)
        return
    set_option(_MMAP_THRESHOLD, BLOCK)
    set_option(_TRIM_THRESHOLD, 2 * BLOCK)
