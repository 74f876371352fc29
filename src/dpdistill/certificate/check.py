"""What verify says: one check after another, each a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One check.

    Args:
        name: what was checked.
        passed: True or False, or None for a statement that decides nothing.
        detail: one sentence.
    """

    name: str
    passed: bool | None
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks of a certificate, in order; the last says what verify cannot know."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """No check failed."""
        return all(check.passed is not False for check in self.checks)


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
        fault: why the records or the page cannot be used, in a sentence.
    """

    recipe: dict[str, Any] | None = None
    plan: tuple[Any, ...] | None = None
    free: frozenset[str] | None = None
    refused: str | None = None
    slacks: tuple[str | None, ...] | None = None
    schema: dict[str, Any] | None = None
    page: bytes | None = None
    documents: tuple[tuple[str, bool | None, str], ...] = ()
    fault: str | None = None


def plain(text: object, length: int = 80) -> str:
    """Text of a stranger's file as it may be shown on a terminal: short, printable, one line."""
    return ascii(str(text))[1:-1][:length]


def differing(one: dict, other: dict) -> list[str]:
    """Names of what two objects do not have in common."""
    absent = object()
    return sorted(key for key in one.keys() | other.keys() if one.get(key, absent) != other.get(key, absent))
