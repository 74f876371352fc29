"""Prints the forecast and warnings of a run before anything is paid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpdistill.accounting.outlook import ATTACKED_AT, HOPELESS, recognised
from dpdistill.accounting.schedule import Budget
from dpdistill.cli.terminal import give, warn


def say_outlook(found: Any, speak: Callable[[str], None]) -> None:
    """Prints how large the noise is compared with the records, and warns where it hides them.

    Args:
        found: an Outlook.
        speak: prints everything but warnings.
    """
    schedule, budget, whose = found.schedule, found.schedule.budget, "a class" if found.by_class else "all records"
    releases = "1 release" if schedule.rounds == 1 else f"{schedule.rounds:,} releases"
    alike = f"{found.records:,.3g}" if found.records < 1000 else f"{found.records:,.0f}"
    speak(
        f"Plan: {releases} at epsilon = {budget.epsilon:.10g}, delta = {budget.delta:g}; noise_multiplier = "
        f"{schedule.noise_multipliers[0]:.4g}. The sum over {whose} has {found.coordinates:,} numbers. About {alike} "
        f"similar records are needed before its norm equals the norm of the noise."
    )
    if found.ratio is not None:
        speak(f"Plan: {found.stated:,} records per class have a signal-to-noise ratio of {found.ratio:.3g} at most.")
    give(
        plan={
            "releases": schedule.rounds,
            "noise_multipliers": schedule.noise_multipliers,
            "numbers_of_a_sum": found.coordinates,
            "by_class": found.by_class,
            "records_as_loud_as_the_noise": found.records,
            "signal_to_noise": found.ratio,
            "hopeless": found.hopeless,
            "smallest_epsilon_that_is_not": found.least_epsilon,
        }
    )
    if found.hopeless:
        size = found.reference
        least = f"Use --epsilon {found.least_epsilon:g}." if found.least_epsilon else "No epsilon up to 10 is enough."
        warn(
            f"Warning: the noise hides the classes: {size:,} equal records of a class have a signal-to-noise ratio of "
            f"{found.heard_from(size):.2g}; below {HOPELESS:g} a class cannot be told from noise. {least}"
        )


def say_large_epsilon(budget: Budget) -> None:
    """Warns of the membership attack that an epsilon above 10 permits."""
    rate = recognised(budget)
    if rate is not None:
        give(recognised_at_most=rate)
        warn(
            f"Warning: epsilon = {budget.epsilon:.6g} does not protect against membership inference: an attacker with "
            f"a false-positive rate of {100 * ATTACKED_AT:g} % may recognise up to "
            f"{100 * rate:.1f} % of the members. See docs/guarantees.md."
        )


def say_caution(budget: Budget | None) -> None:
    """Warns of a large delta or epsilon before the budget is spent; does nothing without a budget."""
    if budget is None:
        return
    if budget.caution is not None:
        warn(f"Warning: {budget.caution}")
    say_large_epsilon(budget)
