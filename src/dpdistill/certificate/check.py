"""Results of verify: a list of checks, each with a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PASSED, FAILED, NOT_COMPARED = "PASSED", "FAILED", "GUARANTEE PASSED, DOCUMENTS NOT COMPARED"
"""Outcomes of verify."""


@dataclass(frozen=True)
class Check:
    """One check.

    Args:
        name: subject of the check.
        passed: True or False, or None for a statement that decides nothing.
        detail: one sentence.
        compared: False if this version cannot reproduce the value to compare with.
    """

    name: str
    passed: bool | None
    detail: str
    compared: bool = True


@dataclass(frozen=True)
class Verification:
    """All checks of a certificate, in order; the last states the limits of verify.

    `outcome` is one of three:

    * "PASSED": no check failed, and every file was compared with this version's output.
    * "FAILED": a check failed.
    * "GUARANTEE PASSED, DOCUMENTS NOT COMPARED": no check failed, but this version cannot reproduce a page, a document
      or a method's recipe that another version wrote.

    Args:
        checks: the checks.
    """

    checks: tuple[Check, ...]

    @property
    def outcome(self) -> str:
        """PASSED, FAILED or NOT_COMPARED."""
        if any(check.passed is False for check in self.checks):
            return FAILED
        return PASSED if all(check.compared for check in self.checks) else NOT_COMPARED

    @property
    def passed(self) -> bool:
        """Returns whether the outcome is "PASSED": nothing failed and nothing was left uncompared."""
        return self.outcome == PASSED


@dataclass(frozen=True)
class Expected:
    """Expected contents of a folder, as the code that makes such folders writes them; None is unknown and not checked.

    Args:
        recipe: the recipe, as its method writes it for the stated fields.
        plan: plan of that method.
        free: the fields that only `finish` reads, which may have changed since the run.
        refused: sentence about why no such method can have made the certificate.
        slacks: allowed texts of the certificate's slack for such a method.
        schema: schema in the records' file.
        page: report.html.
        documents: (file name, whether it agrees, a sentence) of each existing document.
        contents: (file name, its fault or None, packages whose other version explains the fault) of each listed file;
            packages ("",) if the package that compares the file is not installed. None if files were not compared.
        encoders: checks of the files of public pre-trained encoders.
        fault: sentence about why the records or the page cannot be used.
        earlier: whether the certificate has an earlier format: this version may word pages and documents differently.
    """

    recipe: dict[str, Any] | None = None
    plan: tuple[Any, ...] | None = None
    free: frozenset[str] | None = None
    refused: str | None = None
    slacks: tuple[str | None, ...] | None = None
    schema: dict[str, Any] | None = None
    page: bytes | None = None
    documents: tuple[tuple[str, bool | None, str], ...] = ()
    contents: tuple[tuple[str, str | None, tuple[str, ...]], ...] | None = None
    encoders: tuple[Check, ...] = ()
    fault: str | None = None
    earlier: bool = False


def plain(text: object, length: int = 80) -> str:
    """Returns text from an untrusted file in a form safe for terminals: short, printable, one line."""
    return ascii(str(text))[1:-1][:length]


def differing(one: dict, other: dict) -> list[str]:
    """Returns the keys whose values differ between two objects."""
    absent = object()
    return sorted(key for key in one.keys() | other.keys() if not same(one.get(key, absent), other.get(key, absent)))


def same(one: object, other: object) -> bool:
    """Returns whether two JSON values are equal: 1 equals 1.0 but not true; a tuple equals a list."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other
