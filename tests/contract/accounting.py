"""What replace-one costs."""

from __future__ import annotations

from typing import Any

from dpdistill.accounting import schedule as accounting
from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.query import Stage


def check_replace_one_costs_more() -> None:
    """sigma = 3.7306 costs epsilon 1 under add-or-remove and 2.155 under replace-one."""
    relations: tuple[tuple[Any, float], ...] = (("add-remove", 1.0), ("replace-one", 2.155))
    for adjacency, truth in relations:
        schedule = Schedule((Stage(1),), (3.7306,), Budget(1.0, 1e-5, adjacency))
        assert abs(schedule.epsilon() - truth) < 2e-3, f"The epsilon under {adjacency} is not {truth}."
    sigma = accounting.calibrate((Stage(1),), Budget(1.0, 1e-5, "replace-one")).noise_multipliers[0]
    assert sigma > 7.4, "The noise under replace-one is that of add-or-remove."
