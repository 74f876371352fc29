"""Chooses which tests run: by default all but those marked `variants` or `slow`, of which CI runs a fifth each day."""

import time
import zlib
from collections.abc import Iterable
from typing import Any

import pytest

PARTS = 5
BEYOND_DEFAULT = ("variants", "slow")
"""Markers of tests that the default run leaves out."""
HELP = f"which tests marked variants or slow to run: none, all, K/{PARTS} for one part of them, today for today's part"


def few(values: Iterable[Any], *default: Any, of_several: bool = False) -> list[Any]:
    """Returns parameters of a test: those that are not named as default are variants.

    Args:
        values: all of them.
        default: those that the default run takes.
        of_several: whether each value is a tuple of several arguments of the test.

    Raises:
        ValueError: no default, or one that is none of the values.
    """
    values = list(values)
    strangers = [value for value in default if value not in values]
    if strangers or not default:
        raise ValueError(f"Expected defaults among {values}; got {strangers}.")
    marked = [pytest.param(*(value if of_several else (value,)), marks=pytest.mark.variants) for value in values]
    return [value if value in default else variant for value, variant in zip(values, marked, strict=True)]


def share(text):
    """Returns "none", "all" or "K/5" for what --variants states: "today" stands for one of the five parts.

    Raises:
        ValueError: anything else.
    """
    part = f"{int(time.time()) // 86_400 % PARTS + 1}/{PARTS}" if text == "today" else text
    if part not in ("none", "all", *(f"{k + 1}/{PARTS}" for k in range(PARTS))):
        raise ValueError(f"Expected --variants none, all, today or K/{PARTS}; got {text}.")
    return part


def part_of(name):
    """Returns the part, 1 to 5, that a test belongs to: it depends on the name of the test alone."""
    return zlib.crc32(name.encode()) % PARTS + 1


def left_out(items, chosen, named):
    """Returns the tests that do not run. A test that is named on the command line (file.py::test) always runs."""
    if chosen == "all" or any("::" in each for each in named):
        return []
    beyond = [item for item in items if any(item.get_closest_marker(marker) for marker in BEYOND_DEFAULT)]
    return [item for item in beyond if chosen != f"{part_of(item.nodeid)}/{PARTS}"]
