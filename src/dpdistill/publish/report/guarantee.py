"""Reads the numbers that a certificate states, for the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpdistill.publish.report import words
from dpdistill.schema import name_unit

Pairs = tuple[tuple[float, float], ...]
GROUP = ("rounds", "noise_multiplier", "sampling_prob")


@dataclass(frozen=True)
class Guarantee:
    """Statements of a certificate.

    Args:
        private: False if ε is infinite or not stated.
        epsilon, delta: the headline; inf and 0 without a guarantee.
        relation: the adjacency, as the certificate names it.
        unit: the meaning of one record, in the certificate's words.
        name: name of the protected unit with all its records; empty for single records.
        rows_per_unit: largest number of used records of one unit.
        group_privacy: ε of as many records by group privacy if the noise protected single records; None if unknown.
        noise: kind of the noise.
        seeded: whether the noise came from a seed, so that nothing is guaranteed.
        groups: groups of equal rounds with the numbers that GROUP names; None for numbers that are not stated.
        table: (δ, ε) pairs.
        rows: (k, ε) pairs at the headline's δ for a person with k rows, or for k units together.
        attacker: (false-positive rate, largest true-positive rate) of an attacker who asks whether a record was used.
        advantage: largest difference between the two rates; None if not stated.
        owners: several owners and what their sums assume, in words; empty for one owner.
    """

    private: bool
    epsilon: float
    delta: float
    relation: str
    unit: str
    name: str
    rows_per_unit: float
    group_privacy: float | None
    noise: str
    seeded: bool
    groups: list[list[float | None]]
    table: Pairs
    rows: Pairs
    attacker: Pairs
    advantage: float | None
    owners: str = ""

    @property
    def holds(self) -> bool:
        """Returns whether the noise that protects the records exists and is secret."""
        return self.private and not self.seeded

    @property
    def whose(self) -> str:
        """Returns the protected unit in words; empty for single records."""
        return name_unit(words.plain(self.name)) if self.name else ""

    @property
    def guess(self) -> float:
        """Returns the largest probability that a fifty-fifty guess about one record is right."""
        return words.guess_bound(self.epsilon, self.delta)

    @property
    def finite(self) -> Pairs:
        """Pairs of the table that a curve can show."""
        return tuple((delta, epsilon) for delta, epsilon in self.table if 0 < delta < 1 and 0 <= epsilon < 1e300)

    @property
    def several(self) -> Pairs:
        """First pairs of a person with more than one row."""
        return tuple((k, epsilon) for k, epsilon in self.rows if k > 1)[:3]


def read_guarantee(certificate: Mapping[str, Any]) -> Guarantee:
    """Reads the stated values; missing values stay empty, and without a finite ε nothing is guaranteed."""
    claim, budget = mapping(certificate.get("claim")), mapping(mapping(certificate.get("schedule")).get("budget"))
    epsilon, delta = number(claim.get("epsilon")), number(claim.get("delta"))
    noise = str(certificate.get("noise") or "")
    stated = epsilon is not None and delta is not None and 0 <= epsilon < math.inf and 0 <= delta < 1
    private = stated and noise.lower() != "none"
    return Guarantee(
        private=private,
        epsilon=epsilon if private and epsilon is not None else math.inf,
        delta=delta if private and delta is not None else 0.0,
        relation=str(certificate.get("relation") or ""),
        # The rest of the sentence points to a table of the certificate.
        unit=str(certificate.get("unit") or "").partition("; a person")[0].partition("; g of them")[0],
        name=str(budget.get("unit") or ""),
        rows_per_unit=number(budget.get("rows_per_unit")) or 1,
        group_privacy=number(certificate.get("group_privacy")),
        noise=noise,
        seeded=any(word in noise.lower() for word in ("seeded", "insecure")),
        groups=_groups(certificate) if private else [],
        table=_pairs(certificate.get("epsilons")) if private else (),
        rows=_pairs(certificate.get("groups")) if private else (),
        attacker=_pairs(certificate.get("attacker")) if private else (),
        advantage=number(mapping(certificate.get("attacker")).get("advantage")) if private else None,
        owners=_owners(certificate),
    )


def _owners(certificate: Mapping[str, Any]) -> str:
    """Returns a sentence about several owners; empty for one owner."""
    stated, owners = mapping(certificate.get("summation")), certificate.get("owners")
    if not stated or not isinstance(owners, list):
        return ""
    d, c, k = (number(stated.get(name)) or 0 for name in ("dropouts", "colluders", "persons_at"))
    person = f"; a person with records at {k:g} owners has {k:g} times μ" if k > 1 else ""
    return f"{len(owners)}, of whom at most {d:g} drop out of a round and at most {c:g} collude{person}"


def mapping(value: object) -> Mapping[str, Any]:
    """Returns an object of JSON; an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def number(value: object) -> float | None:
    """Returns a float from JSON, which may spell infinity as a word; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        value = float({"∞": "inf", "infinity": "inf"}.get(str(value).lower(), value))
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(value) else value


def _pairs(table: object) -> Pairs:
    """Returns (key, ε) pairs from {"1e-05": 1.0} without entries that are not numbers."""
    pairs = [(number(key), number(value)) for key, value in mapping(table).items()]
    return tuple(sorted((key, value) for key, value in pairs if key is not None and value is not None))


def _groups(certificate: Mapping[str, Any]) -> list[list[float | None]]:
    events = mapping(certificate.get("events")).get("events")
    result = [mapping(event) for event in (events if isinstance(events, list) else [])]
    return [[number({"sampling_prob": 1.0, **event}.get(key)) for key in GROUP] for event in result]
