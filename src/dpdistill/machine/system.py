"""Examines what a folder cannot change: versions, entropy, clock, devices and extras."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path

from dpdistill import __version__
from dpdistill.machine.finding import PAYING, Finding

OLDEST_PYTHON = (3, 11)
LAST_YEAR = 2100


def check_versions() -> Iterator[Finding]:
    """Yields whether Python and every required package are here, in the versions that were tested."""
    here = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("python", False, f"Python is {here}; expected 3.11 or later.", ("every command",))
    else:
        yield Finding("python", True, f"Python {here}, dpdistill {__version__}, {platform.platform()}.")
    try:
        from packaging.requirements import Requirement

        stated = [Requirement(text) for text in requires("dpdistill") or ()]
    except (ImportError, PackageNotFoundError):
        yield Finding("packages", None, "The bounds of packages are unknown here, so versions were not compared.")
        return
    needed = [each for each in stated if each.marker is None or each.marker.evaluate({"extra": ""})]
    faults = []
    for each in needed:
        try:
            found = version(each.name)
        except PackageNotFoundError:
            faults.append(f"{each.name} is not installed")
            continue
        if not each.specifier.contains(found, prereleases=True):
            faults.append(f"{each.name} is {found}, tested are {each.specifier}")
    if faults:
        yield Finding("packages", False, f"Install the package again: {'; '.join(faults)}.", ("every command",))
    else:
        yield Finding("packages", True, f"All {len(needed)} required packages are in the tested range of versions.")


def check_entropy() -> Finding:
    """Returns whether the operating system has random bytes for noise, without waiting."""
    try:
        if hasattr(os, "getrandom"):
            os.getrandom(32, os.GRND_NONBLOCK)
        drawn = [os.urandom(32) for _ in range(8)]
    except (BlockingIOError, NotImplementedError, OSError):
        wait = "The system has no random bytes yet: wait until it has started, or give the machine a source of entropy."
        return Finding("entropy", False, wait, (PAYING, "key new"))
    if len({*drawn}) != len(drawn) or any(len({*each}) < 8 for each in drawn):
        same = "The system's random bytes repeat, so no noise is secret: repair its source of entropy."
        return Finding("entropy", False, same, (PAYING, "key new"))
    return Finding(
        "entropy", True, "The system's source of random bytes answers at once; its quality cannot be tested."
    )


def check_clock() -> Finding:
    """Returns whether the clock is plausible: it dates certificates, and decides on signers' times."""
    now, installed = time.time(), Path(__file__).stat().st_mtime
    try:
        day = datetime.fromtimestamp(now, UTC).date()
    except (OverflowError, ValueError, OSError):
        return Finding("clock", False, "The clock shows no date: set the clock.", (PAYING, "sign"))
    if now < installed - 86400 or day.year >= LAST_YEAR:
        wrong = f"The clock shows {day}, which cannot be: set the clock, as certificates state the date."
        return Finding("clock", False, wrong, (PAYING, "sign"))
    return Finding("clock", True, f"The clock shows {day} (UTC).")


def check_devices() -> Finding:
    """Returns the devices on which JAX computes."""
    try:
        import jax

        devices = jax.devices()
    except ImportError:
        missing = "JAX is not installed: verify, report, sign, export, budget and account work without it."
        return Finding("devices", False, missing, (PAYING, "evaluate", "sample", "student"))
    except Exception:  # its exceptions differ by version
        stated = os.environ.get("JAX_PLATFORMS")
        where = f"on JAX_PLATFORMS={stated!r:.40}" if stated else "on any device"
        lacking = f"JAX cannot compute {where} of this machine: set JAX_PLATFORMS=cpu, or unset it."
        return Finding("devices", False, lacking, (PAYING, "evaluate", "sample", "student"))
    kinds = sorted({device.device_kind for device in devices})
    backend, count = jax.default_backend(), len(devices)
    return Finding("devices", True, f"JAX {jax.__version__} computes on {backend}: {count} of {', '.join(kinds)}.")


def check_extras(extras: Mapping[str, str]) -> Finding:
    """Returns which optional packages are here.

    Args:
        extras: name of the extra by the package that it installs.
    """
    missing: dict[str, list[str]] = {}
    here = packages_distributions()
    for package, extra in extras.items():
        if package not in here:
            missing.setdefault(extra, []).append(package)
    if not missing:
        return Finding("extras", None, f"All extras are installed: {', '.join(sorted({*extras.values()}))}.")
    names = ", ".join(f"{extra} ({', '.join(packages)})" for extra, packages in sorted(missing.items()))
    return Finding("extras", None, f"These extras are not installed, and commands that need one say so: {names}.")
