"""Checks every epsilon of a certificate, independently of the code that computed the epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpdistill.accounting.attacker import attacker
from dpdistill.accounting.bounds import epsilon_lower_bound, epsilon_rdp
from dpdistill.accounting.pld import MIN_PLD_DELTA, discretization_interval, epsilon_pld
from dpdistill.accounting.schedule import Schedule
from dpdistill.certificate.build import group_epsilons, group_privacy
from dpdistill.certificate.check import Check, plain
from dpdistill.certificate.format import Certificate

_ROUNDING = 1.0 + 1e-9
_TOLERANCE = 1.0 + 1e-3
_LARGE, _NEAR_ZERO, _CLOSE, _CLOSE_IF_LARGE = 500.0, 1e-8, 1e-4, 1e-3
"""Largest difference between closed form and PLD: absolute below epsilon = 1e-4, else relative. A loss beyond 500 needs
wider intervals, so the tolerance is larger there.
"""


def check_arithmetic(certificate: Certificate, schedule: Schedule) -> Iterator[Check]:
    """Checks the claim and the tables: of other deltas, of an attacker's rates, and of people with several rows.

    Full batch: closed form and PLD agree. Sampled: the PLD at another discretisation and an independent lower bound.
    """
    sampled = any(event.sampling_prob < 1.0 for _, event in schedule.groups)
    epsilon = _computed("epsilon", lambda: _sampled(schedule) if sampled else _full_batch(schedule))
    yield epsilon
    if not epsilon.passed:
        return  # A false claim decides the detail; with absurd noise the tables can take hours.
    if schedule.budget.adjacency == "add-remove":
        yield _computed("looser bound", lambda: _looser(schedule))
    yield _computed("epsilons", lambda: _table("epsilons", certificate.epsilons, schedule.epsilons()))
    yield _computed("attacker", lambda: _table("attacker", certificate.attacker, attacker(schedule)))
    yield _computed("groups", lambda: _table("groups", certificate.groups, group_epsilons(schedule)))
    if schedule.budget.unit is not None:
        yield _computed("group privacy", lambda: _group_privacy(certificate.group_privacy, schedule))
    elif certificate.group_privacy is not None:
        yield Check("group privacy", False, "The certificate states a 'group_privacy', yet no unit.")


def _computed(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (ArithmeticError, MemoryError, TypeError, ValueError):  # the library raises various errors for absurd noise
        return Check(name, False, "The epsilon of this schedule cannot be computed.")


def _full_batch(schedule: Schedule) -> Check:
    budget, closed = schedule.budget, schedule.epsilon()
    if closed > budget.epsilon * _ROUNDING:
        return _over("cost", closed, schedule)
    if budget.delta < MIN_PLD_DELTA:
        return _within(schedule, f"closed form {closed:.6g}; this delta is too small for the PLD")
    pld = epsilon_pld(schedule.groups, budget.delta, budget.adjacency)
    if abs(closed - pld) > max(_NEAR_ZERO, (_CLOSE if closed <= _LARGE else _CLOSE_IF_LARGE) * closed):
        return Check("epsilon", False, f"The closed form gives epsilon={closed:.6g}, the PLD {pld:.6g}: they disagree.")
    return _within(schedule, f"closed form {closed:.6g}, PLD {pld:.6g}")


def _sampled(schedule: Schedule) -> Check:
    budget, groups = schedule.budget, schedule.groups
    lower = epsilon_lower_bound(groups, budget.delta, budget.adjacency)
    if lower > budget.epsilon * _ROUNDING:
        return _over("cost at least", lower, schedule)
    pld = epsilon_pld(groups, budget.delta, budget.adjacency, 2 * discretization_interval(groups, budget.adjacency))
    if pld > budget.epsilon * _TOLERANCE:
        return _over("cost, by the PLD,", pld, schedule)
    return _within(schedule, f"PLD {pld:.6g}, lower bound {lower:.6g}")


def _over(cost: str, epsilon: float, schedule: Schedule) -> Check:
    claim = schedule.budget.epsilon
    return Check("epsilon", False, f"The releases {cost} epsilon={epsilon:.6g}, more than the claimed {claim:.6g}.")


def _within(schedule: Schedule, found: str) -> Check:
    budget = schedule.budget
    return Check("epsilon", True, f"Claimed epsilon={budget.epsilon:.6g} at delta={budget.delta:g}: {found}.")


def _looser(schedule: Schedule) -> Check:
    rdp = epsilon_rdp(schedule.groups, schedule.budget.delta, schedule.budget.adjacency)
    detail = f"Renyi accounting gives epsilon <= {rdp:.6g}; this bound is looser and decides nothing."
    return Check("looser bound", None, detail)


def _group_privacy(stated: float | None, schedule: Schedule) -> Check:
    """Checks the group-privacy epsilon: the unit's guarantee if the same noise protected single rows."""
    if not _agree(stated, group_privacy(schedule)):
        return Check("group privacy", False, "The certificate's 'group_privacy' is wrong.")
    k, detail = schedule.budget.rows_per_unit, "is not computed" if stated is None else f"epsilon={stated:.6g}"
    return Check("group privacy", True, f"For {k} rows by group privacy, at the same noise multiplier: {detail}.")


def _table(name: str, stated: Mapping[str, float | None], computed: Mapping[Any, float | None]) -> Check:
    expected = {str(key): epsilon for key, epsilon in computed.items()}
    differ = stated.keys() ^ expected.keys()
    differ |= {key for key in stated.keys() & expected.keys() if not _agree(stated[key], expected[key])}
    if differ:
        keys = plain(", ".join(sorted(differ)))
        return Check(name, False, f"The certificate's {name!r} are wrong at {keys}.")
    return Check(name, True, f"All {len(expected)} values of {name!r} agree.")


def _agree(stated: Any, expected: float | None) -> bool:
    if expected is None or not math.isfinite(expected):
        return stated is None
    number = isinstance(stated, int | float) and not isinstance(stated, bool)
    return number and abs(stated - expected) <= 1e-3 * expected + 1e-6
