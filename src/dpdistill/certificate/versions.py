"""Versions of packages, found without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version


def versions_of(packages: Iterable[str]) -> dict[str, str | None]:
    """The versions by name; None where a package is not installed."""
    found: dict[str, str | None] = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
