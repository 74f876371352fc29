"""Prints notes, warnings and progress of a public function on the owner's terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from dpdistill.api.listener import Listener
from dpdistill.cli.progress import Bar, time_left
from dpdistill.cli.terminal import give, note, say, say_table, warn, working
from dpdistill.method import Progress

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget, Schedule
    from dpdistill.evaluation.table_scores import ClassifierScore
    from dpdistill.evaluation.tables import Told
    from dpdistill.run.forecast import Outlook


class Terminal(Listener):
    """Prints results on stdout, and notes, warnings and progress on stderr.

    Args:
        speak: prints the public forecast of a run before the run is paid.
    """

    def __init__(self, speak: Callable[[str], None] = note) -> None:
        super().__init__()
        self._speak = speak
        self._parts: dict[str, list[int]] = {}

    def line(self, text: str) -> None:
        say(text)

    def note(self, text: str) -> None:
        note(text)

    def warn(self, text: str) -> None:
        warn(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        say_table(header, rows)

    def caution(self, budget: Budget) -> None:
        from dpdistill.accounting.outlook import ATTACKED_AT, recognised

        if budget.caution is not None:
            warn(f"Warning: {budget.caution}")
        rate = recognised(budget)
        if rate is not None:
            give(recognised_at_most=rate)
            warn(
                f"Warning: epsilon = {budget.epsilon:.6g} does not protect against membership inference: an "
                f"attacker with a false-positive rate of {100 * ATTACKED_AT:g} % may recognise up to "
                f"{100 * rate:.1f} % of the members. See docs/guarantees.md."
            )

    def scheduled(self, schedule: Schedule) -> None:
        self._parts["releasing"] = list(accumulate(stage.rounds for stage in schedule.stages))
        releases = "1 release" if schedule.rounds == 1 else f"{schedule.rounds:,} releases"
        self._speak(
            f"Plan: {releases} at epsilon = {schedule.budget.epsilon:.10g}, delta = {schedule.budget.delta:g}; "
            f"noise_multiplier = {schedule.noise_multipliers[0]:.4g}."
        )

    def planned(self, outlook: Outlook) -> None:
        needed = f"{outlook.records:,.3g}" if outlook.records < 1000 else f"{outlook.records:,.0f}"
        self._speak(
            f"Plan: about {needed} similar records{' of a class' if outlook.by_class else ''} are needed before the "
            f"signal equals the noise. A sum has {outlook.coordinates:,} numbers."
        )
        if outlook.ratio is not None:
            self._speak(
                f"Plan: {outlook.stated:,} records per class have a signal-to-noise ratio of at most "
                f"{outlook.ratio:.3g}."
            )
            if (verdict := outlook.verdict(outlook.reference)) is not None:
                self._speak(f"Plan: {verdict}")
                give(verdict=verdict._asdict())
        if outlook.count_error is not None:
            self._speak(
                f"Plan: a count of 50 rows in one cell of a chosen table is ± {outlook.count_error:.0f} (95 % "
                "interval). A sum of m cells has root m times this error."
            )
        give(
            plan={
                "releases": outlook.schedule.rounds,
                "noise_multipliers": outlook.schedule.noise_multipliers,
                "numbers_of_a_sum": outlook.coordinates,
                "by_class": outlook.by_class,
                "records_as_loud_as_the_noise": outlook.records,
                "signal_to_noise": outlook.ratio,
                "hopeless": outlook.hopeless,
                "smallest_epsilon_that_is_not": outlook.least_epsilon,
                "error_of_a_count": outlook.count_error,
            }
        )
        if outlook.hopeless:
            _warn_hopeless(outlook)

    def working(self, text: str) -> AbstractContextManager[Any]:
        return working(text)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        with Bar(self._parts) as bar:
            yield bar

    @contextmanager
    def classifiers(self) -> Iterator[Told]:
        started = time.monotonic()

        def show(score: ClassifierScore, metrics: tuple[str, ...], done: float) -> None:
            spent = time.monotonic() - started
            values = ", ".join(f"{name} {value:.3f}" for name, value in zip(metrics, score.values, strict=True))
            note(f"{score.name}: {values}{time_left(spent, done, 1 - done)}")

        yield show


def _warn_hopeless(outlook: Outlook) -> None:
    """Warns that noise hides every class, and states the smallest epsilon at which it does not."""
    from dpdistill.accounting.outlook import HOPELESS

    size, least = outlook.reference, outlook.least_epsilon
    advice = f"Use --epsilon {least:g}." if least else "No epsilon up to 10 is enough."
    warn(
        f"Warning: the noise hides the classes: {size:,} similar records of a class have a signal-to-noise ratio of "
        f"{outlook.heard_from(size):.2g}; below {HOPELESS:g} a class cannot be distinguished from noise. {advice}"
    )
