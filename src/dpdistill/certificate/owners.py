"""Checks what a certificate states about several owners: the number of noise shares, and the aliasing of their sum."""

from __future__ import annotations

from collections.abc import Iterator

from dpdistill.accounting.noise_shares import check_aliasing, log10_aliasing, noise_shares
from dpdistill.accounting.schedule import Schedule
from dpdistill.certificate.check import Check, plain
from dpdistill.certificate.format import Certificate


def check_owners(certificate: Certificate, schedule: Schedule) -> Iterator[Check]:
    """Yields the check of several owners; nothing for one owner."""
    stated, names = certificate.summation, [owner.name for owner in certificate.owners]
    if stated is None:
        return
    if names != sorted(set(names)) or any(owner.part != owner.name for owner in certificate.owners):
        yield Check("owners", False, "The certificate's owners are not in the order of their names, each once.")
        return
    if len(set(stated.keys)) != len(names) or len(stated.keys) != len(names):
        yield Check("owners", False, "The certificate does not state one key for each owner.")
        return
    n, d, c = len(names), stated.dropouts, stated.colluders
    try:
        shares = noise_shares(n, d, c)
        linear = certificate.slack is not None
        aliasing = log10_aliasing(schedule.noise_multipliers, schedule.budget.epsilon, shares, linear)
        check_aliasing(aliasing)
    except (ArithmeticError, ValueError) as error:
        yield Check("owners", False, f"The owners' noise does not suffice. {plain(str(error), 300)}")
        return
    if stated.aliasing is None or aliasing is None:
        same = stated.aliasing is aliasing
    else:
        same = abs(stated.aliasing - aliasing) <= 1e-6 * abs(aliasing)
    if not same or stated.persons_at > n:
        yield Check("owners", False, "The certificate's aliasing, or its owners of a person, contradict its owners.")
        return
    grows = "exactly 0" if aliasing is None else f"at most 10^{aliasing:.4g}"
    k = stated.persons_at
    person = "no person has records at two owners, as stated"
    if k > 1:
        person = f"a person may have records at {k} owners, as stated, and then has {k} times mu: see groups"
    yield Check(
        "owners",
        True,
        f"{n} owners ({plain(', '.join(names), 200)}), {stated.mode}: each added 1/{shares} of the variance, which "
        f"suffices if at most {d} drop out of a round and at most {c} collude; delta grows by {grows}; {person}.",
    )
