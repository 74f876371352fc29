"""What verify says: one check after another, each a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PASSED, FAILED, NOT_COMPARED = "PASSED", "FAILED", "GUARANTEE PASSED, DOCUMENTS NOT COMPARED"
"""What verify ends with."""


@dataclass(frozen=True)
class Check:
    """One check.

    Args:
        name: what was checked.
        passed: True or False, or None for a statement that decides nothing.
        detail: one sentence.
        compared: False where this version cannot make again what it should be compared with.
    """

    name: str
    passed: bool | None
    detail: str
    compared: bool = True


@dataclass(frozen=True)
class Verification:
    """All checks of a certificate, in order; the last says what verify cannot know.

    `outcome` is one of three:

    * "PASSED": no check failed, and every file was compared with what this version writes.
    * "FAILED": a check failed.
    * "GUARANTEE PASSED, DOCUMENTS NOT COMPARED": no check failed, but another version wrote something that this one
      cannot make again: a page, a document, or the recipe of a method that this version does not have.

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
    """What those who made a folder would write into it; what is None is not known, and left unchecked in words.

    Args:
        recipe: as the recipe's method writes it for the fields that it states.
        plan: of that method.
        free: the fields that only its `finish` reads, which may have changed since the run.
        refused: why no such method can have made the certificate, in a sentence.
        slacks: the texts one of which such a method's certificate has as its slack.
        schema: as the records' file states it.
        page: report.html.
        documents: (file name, whether it agrees, a sentence) of each document that is there.
        contents: (file name, what is wrong with it or None, packages another version of which explains that) of each
            listed file; packages ("",) where one that compares it is not installed. None where they were not compared.
        fault: why the records or the page cannot be used, in a sentence.
        earlier: the certificate is of an earlier format: this version may word its pages and documents differently.
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
    fault: str | None = None
    earlier: bool = False


def plain(text: object, length: int = 80) -> str:
    """Text of a stranger's file as it may be shown on a terminal: short, printable, one line."""
    return ascii(str(text))[1:-1][:length]


def differing(one: dict, other: dict) -> list[str]:
    """Names of what two objects do not have in common."""
    absent = object()
    return sorted(key for key in one.keys() | other.keys() if not same(one.get(key, absent), other.get(key, absent)))


def same(one: object, other: object) -> bool:
    """Returns whether two values of JSON say the same: 1 and 1.0 do, 1 and true do not; a tuple is a list."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other
