"""Findings about a machine."""

from __future__ import annotations

from dataclasses import dataclass

PAYING = "distill"
"""Commands that pay: they need locks, synced files, entropy and devices."""


@dataclass(frozen=True)
class Finding:
    """One finding.

    Args:
        name: subject: "entropy", "clock", "locks", ...
        passed: True, False if something is refused or unsafe here, or None for a remark.
        detail: one sentence.
        refused: commands that are refused or unsafe; empty if the check passed.
    """

    name: str
    passed: bool | None
    detail: str
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """All findings about a machine, in order.

    Args:
        findings: the findings.
    """

    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Returns whether nothing is refused and nothing is unsafe."""
        return all(finding.passed is not False for finding in self.findings)

    @property
    def refused(self) -> tuple[str, ...]:
        """Commands that are refused or unsafe on this machine, sorted."""
        return tuple(sorted({command for finding in self.findings for command in finding.refused}))
