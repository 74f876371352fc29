"""Reads versions of packages without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from dpdistill import __version__


def versions_of(packages: Iterable[str]) -> dict[str, str | None]:
    """Returns versions by name; None for a package that is not installed.

    dpdistill's version is that of the running code: an editable install reports the version at installation.
    """
    versions: dict[str, str | None] = {}
    for name in packages:
        if name == "dpdistill":
            versions[name] = __version__
            continue
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions
