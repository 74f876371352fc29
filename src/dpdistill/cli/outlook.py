"""What is said of a run before anything is paid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpdistill.accounting.outlook import ATTACKED_AT, HOPELESS, recognised
from dpdistill.accounting.schedule import Budget
from dpdistill.cli.terminal import give, warn


def say_outlook(found: Any, speak: Callable[[str], None]) -> None:
    """How loud records are above the noise, and a warning where they are not heard, or not protected.

    Args:
        found: an Outlook.
        speak: says what is no warning.
    """
    schedule, budget, whose = found.schedule, found.schedule.budget, "a class" if found.by_class else "all records"
    releases = "1 release" if schedule.rounds == 1 else f"{schedule.rounds:,} releases"
    alike = f"{found.records:,.3g}" if found.records < 1000 else f"{found.records:,.0f}"
    speak(
        f"Plan: {releases} at epsilon = {budget.epsilon:.10g}, delta = {budget.delta:g}; noise_multiplier = "
        f"{schedule.noise_multipliers[0]:.4g}. The sum over {whose}, of {found.coordinates:,} numbers, is as long as "
        f"its noise from {alike} records on, if they are alike."
    )
    if found.ratio is not None:
        speak(f"Plan: {found.stated:,} records a class have a signal-to-noise ratio of {found.ratio:.3g} at most.")
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
        least = f"Take --epsilon {found.least_epsilon:g}." if found.least_epsilon else "No epsilon up to 10 is enough."
        warn(
            f"Warning: this is hopeless: {size:,} records of a class, even if all alike, have a signal-to-noise ratio "
            f"of {found.heard_from(size):.2g}; a class is not told from noise below {HOPELESS:g}. {least}"
        )


def say_large_epsilon(budget: Budget) -> None:
    """What an epsilon above 10 no longer protects against."""
    rate = recognised(budget)
    if rate is not None:
        give(recognised_at_most=rate)
        warn(
            f"Warning: epsilon = {budget.epsilon:.6g} no longer protects against somebody who asks whether one"
            f" record was used: who wrongly accuses {100 * ATTACKED_AT:g} % of the outsiders may recognise up to "
            f"{100 * rate:.1f} % of the members. See docs/guarantees.md."
        )


def say_caution(budget: Budget | None) -> None:
    """What a large delta or epsilon means is said before it is spent; nothing where there is no budget."""
    if budget is None:
        return
    if budget.caution is not None:
        warn(f"Warning: {budget.caution}")
    say_large_epsilon(budget)
