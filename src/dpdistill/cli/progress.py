"""Progress bars with the time left, and durations in words."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dpdistill.cli.terminal import err, mode

SAY_EVERY = 60.0
"""Seconds between lines of progress without a terminal; a shorter time left is not stated."""
RECENT = 20
"""Steps from which the time left is estimated."""


class Pace:
    """Estimates the seconds left of one stage from its latest steps.

        left = (total - done) (t - t_k) / (done - done_k),   step k the last but RECENT, and at least the first

    The first step also compiles programs and computes features, so that nothing is known before the second one.

    Args:
        now: seconds on a clock.
        done: number of steps done then.
    """

    def __init__(self, now: float, done: int) -> None:
        self._start, self._steps = done, deque[tuple[float, int]](maxlen=RECENT + 1)
        self.seconds: float | None = None
        """Seconds left; None before the second step."""

    def step(self, now: float, done: int, total: int) -> None:
        """Notes the time at which so many of the steps are done."""
        if done <= (self._steps[-1][1] if self._steps else self._start):
            return
        self._steps.append((now, done))
        (began, first), many = self._steps[0], len(self._steps) > 1
        self.seconds = (total - done) * (now - began) / (done - first) if many else None


class Bar:
    """Progress bar with time left, for rounds and steps of public loops, never for records.

    Without a terminal the progress is one line at the start, one after the second step if much time is left, one per
    minute, and one at the end.

    Args:
        parts: steps at which parts of a stage end, by stage: the time left is that of the present part.
    """

    def __init__(self, parts: Mapping[str, Sequence[int]] | None = None) -> None:
        self._parts = parts or {}
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("after"), TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
            console=err, disable=not err.is_terminal or mode.quiet,
        )  # fmt: skip
        self._tasks: dict[str, Any] = {}
        self._paces: dict[tuple[str, int], Pace] = {}
        self._said = 0.0
        self._estimated = False

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total, completed=done, left="")
            self._said, self._estimated = 0.0, False
        end = next((end for end in self._parts.get(stage, ()) if done < end), total)
        pace = self._paces.setdefault((stage, end), Pace(now, done))
        pace.step(now, done, end)
        seconds, of = pace.seconds, "" if end == total else f" of the first {end}"
        left = "" if seconds is None else f"{duration(seconds)} left{of}"
        self._bar.update(self._tasks[stage], completed=done, total=total, left=left)
        if err.is_terminal or mode.quiet:
            return
        left = f"{seconds_left(seconds)}{of}" if seconds is not None and seconds >= SAY_EVERY else ""
        if now - self._said > SAY_EVERY or done == total or (left and not self._estimated):
            err.print(f"{stage}: {done} of {total}{left}")
            self._said, self._estimated = now, bool(left)

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def time_left(spent: float, done: float, left: float) -> str:
    """Returns ", about 3 minutes left" from the seconds of the part done; empty below SAY_EVERY."""
    return seconds_left(spent * left / done if done > 0 else 0.0)


def seconds_left(seconds: float) -> str:
    """Returns ", about 3 minutes left"; empty below SAY_EVERY."""
    return "" if seconds < SAY_EVERY else f", about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """Returns "40 seconds", "3 minutes" from one minute on, or "3 hours" from two hours on; rounded up."""
    count, unit = (seconds / 3600, "hour") if seconds >= 2 * 3600 else (seconds / 60, "minute")
    count, unit = (seconds, "second") if seconds < 60 else (count, unit)
    return f"{math.ceil(count)} {unit}{'s' if count > 1 else ''}"
