"""What verify accepts of a claim."""

from __future__ import annotations

from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.certificate import arithmetic
from dpdistill.query import Stage


def check_full_batch_claims() -> None:
    """A claim of full batches holds as calibrated, and one that is too small by a millionth fails."""
    schedule = calibrate((Stage(4), Stage(6, weight=2.0)), Budget(1.0))
    for share, holds in ((1.0, True), (1 - 1e-12, True), (1 - 1e-6, False), (0.999, False), (0.99, False)):
        claimed = Schedule(schedule.stages, schedule.noise_multipliers, Budget(share))
        found = arithmetic._full_batch(claimed)
        assert found.passed is holds, f"A claim of {share:.12g} of what the releases cost is judged wrongly."
        assert holds or "more than the claimed" in found.detail
