"""Versions of packages, found without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from dpdistill import __version__


def versions_of(packages: Iterable[str]) -> dict[str, str | None]:
    """Returns versions by name; None where a package is not installed.

    The version of dpdistill is that of the code which runs: an editable install keeps the number it was installed with.
    """
    found: dict[str, str | None] = {}
    for name in packages:
        if name == "dpdistill":
            found[name] = __version__
            continue
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
