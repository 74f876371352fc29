"""Accounting: a budget, the noise of a plan that spends it, and the epsilon of any releases."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from numbers import Real

import numpy as np

from dpdistill.accounting.bounds import Group
from dpdistill.accounting.gaussian import (
    Adjacency,
    check_delta,
    check_noise_multiplier,
    gaussian_noise_multiplier,
    root,
    sensitivity_factor,
)
from dpdistill.accounting.pld import check_pld_delta, compose
from dpdistill.query import Event, Stage

REPORTED_DELTAS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
MIN_EPSILON, MAX_EPSILON = 1e-9, 1e4
MAX_DELTA = 1e-2
CAUTIOUS_DELTA = 1e-4
MAX_ROWS_PER_UNIT = 1_000
MAX_ROUNDS, MAX_STAGES, MAX_SAMPLED_STAGES = 1_000_000, 64, 4
"""Limits of a plan: composing each sampled stage takes seconds, in a run and in `verify`."""
ROWS_PER_UNIT = 4
"""Default of the largest number of used records per unit. Epsilon is the same for any number, since the records of a
unit are clipped as one.
"""
_OF_UNITS = ("unit", "rows_per_unit")
_FAILS = "with probability up to delta the guarantee of a record may fail altogether"


@dataclass(frozen=True)
class Budget:
    """A privacy budget: (epsilon, delta) under an adjacency.

    Args:
        epsilon: > 0 and finite; below 1e-9 and above 10,000 no noise is calibrated for it.
        delta: in (0, 0.01]; state it, never derive it from the number of records.
        adjacency: "add-remove" (neighbours differ by one record more or less) or "replace-one".
        unit: the owner's name of the protected unit ("patient_id"): neighbours differ by all records of one unit. None
            protects single records.
        rows_per_unit: k, the largest number of used records per unit, 1 to 1,000; 1 without a unit.

    Raises:
        ValueError: an argument out of its bounds.
    """

    epsilon: float
    delta: float = 1e-5
    adjacency: Adjacency = "add-remove"
    unit: str | None = None
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, Real):
                raise ValueError(f"Expected {name} as a number; got {value!r:.80}.")
            if isinstance(value, np.generic):  # its arithmetic may be that of float32, and JSON does not take it
                object.__setattr__(self, name, value.item())
        if not self.epsilon > 0.0:
            raise ValueError(f"Expected epsilon={self.epsilon} > 0.")
        if self.epsilon == math.inf:
            raise ValueError("Expected a finite epsilon; got inf.")
        check_delta(self.delta)
        if self.delta > MAX_DELTA:
            raise ValueError(f"Expected delta={self.delta:g} <= {MAX_DELTA:g}: {_FAILS}.")
        sensitivity_factor(self.adjacency)
        if type(self.rows_per_unit) is not int or not 1 <= self.rows_per_unit <= MAX_ROWS_PER_UNIT:
            raise ValueError(f"Expected 1 <= rows_per_unit={self.rows_per_unit!r} <= {MAX_ROWS_PER_UNIT}.")
        if self.unit is None and self.rows_per_unit != 1:
            raise ValueError(
                f"Expected a unit with rows_per_unit={self.rows_per_unit}: name what several records belong to."
            )
        if self.unit is not None and not (
            isinstance(self.unit, str) and self.unit.isprintable() and self.unit == self.unit.strip() != ""
        ):
            raise ValueError(f"Expected a printable name of the unit; got {self.unit!r:.80}.")

    @property
    def caution(self) -> str | None:
        """Returns a sentence about the risk of a large delta; None for a small one."""
        if self.delta <= CAUTIOUS_DELTA:
            return None
        return f"delta = {self.delta:g} is large: {_FAILS}; of {1 / self.delta:,.0f} records that may be about one."


@dataclass(frozen=True)
class Schedule:
    """The noise of every round, fixed before the first record is read.

    Args:
        stages: the plan.
        noise_multipliers: sigma = stddev / clip_norm of a round, one a stage, > 0.
        budget: the budget that the plan was calibrated for.

    Raises:
        ValueError: lengths that differ, or a noise multiplier that is not positive.
    """

    stages: tuple[Stage, ...]
    noise_multipliers: tuple[float, ...]
    budget: Budget

    def __post_init__(self) -> None:
        if not self.stages or len(self.stages) != len(self.noise_multipliers):
            raise ValueError(
                f"Expected one noise multiplier a stage; got {len(self.noise_multipliers)} for {len(self.stages)}."
            )
        for noise_multiplier in self.noise_multipliers:
            check_noise_multiplier(noise_multiplier)

    @property
    def rounds(self) -> int:
        """Returns the number of releases of all stages."""
        return sum(stage.rounds for stage in self.stages)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Returns (rounds, event) of every stage, in order."""
        pairs = zip(self.stages, self.noise_multipliers, strict=True)
        return tuple((stage.rounds, Event(sigma, stage.sampling_prob)) for stage, sigma in pairs)

    def event(self, t: int) -> Event:
        """Returns the event that round t pays for.

        Raises:
            IndexError: t is not in 0 .. rounds - 1.
        """
        left = t
        for rounds, event in self.groups:
            if 0 <= left < rounds:
                return event
            left -= rounds
        raise IndexError(f"Expected 0 <= round={t} < {self.rounds}.")

    def epsilon(self, delta: float | None = None) -> float:
        """Returns epsilon of all rounds at delta, by default the budget's."""
        return compose(self.groups, self.budget.delta if delta is None else delta, self.budget.adjacency)

    def epsilons(self) -> dict[float, float]:
        """Returns epsilon at delta = 1e-4 .. 1e-8 and at the budget's delta, from the largest delta down."""
        deltas = sorted({*REPORTED_DELTAS, self.budget.delta}, reverse=True)
        return {delta: self.epsilon(delta) for delta in deltas}

    def event_tree(self) -> dict:
        """Returns the releases as plain data: the relation, and rounds, mechanism, noise and sampling of every stage.

        Noise multipliers apply to the unit, all of whose records are in a sample or none.
        """
        composition = [
            {
                "rounds": rounds,
                "mechanism": "gaussian" if event.sampling_prob == 1.0 else "poisson-gaussian",
                "noise_multiplier": event.noise_multiplier,
                "sampling_prob": event.sampling_prob,
            }
            for rounds, event in self.groups
        ]
        unit = {} if self.budget.unit is None else {key: getattr(self.budget, key) for key in _OF_UNITS}
        return {"relation": self.budget.adjacency, **unit, "composition": composition}

    def to_json(self) -> str:
        """Returns all fields as JSON text; floats are exact. A budget of single records states no unit."""
        held = asdict(self)
        if self.budget.unit is None:
            held["budget"] = {key: value for key, value in held["budget"].items() if key not in _OF_UNITS}
        return json.dumps(held)

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """Returns the schedule that to_json wrote, after checking all bounds."""
        data = json.loads(text)
        if set(data) != {field.name for field in fields(cls)}:
            raise ValueError("Expected the fields of a schedule and no other.")
        stages = tuple(Stage(**stage) for stage in data["stages"])
        return cls(stages, tuple(data["noise_multipliers"]), Budget(**data["budget"]))


def check_affordable(epsilon: float) -> None:
    """Refuses an epsilon for which no noise is calibrated.

    Raises:
        ValueError: above MAX_EPSILON, or below MIN_EPSILON.
    """
    if epsilon < MIN_EPSILON:
        raise ValueError(f"Expected epsilon={epsilon:g} >= {MIN_EPSILON:g}: the noise would hide any signal.")
    if epsilon > MAX_EPSILON:
        raise ValueError(
            f"Expected epsilon={epsilon:g} <= {MAX_EPSILON:,.0f}: so little noise gives no protection. "
            "Use --non-private for a run without a guarantee."
        )


def check_work(plan: Sequence[Stage]) -> None:
    """Refuses a plan whose epsilon would take minutes or hours to compute.

    Raises:
        ValueError: more than MAX_ROUNDS rounds, MAX_STAGES stages or MAX_SAMPLED_STAGES sampled ones.
    """
    for count, most, what in (
        (sum(stage.rounds for stage in plan), MAX_ROUNDS, "rounds"),
        (len(plan), MAX_STAGES, "stages"),
        (sum(stage.sampling_prob < 1.0 for stage in plan), MAX_SAMPLED_STAGES, "stages with sampling"),
    ):
        if count > most:
            got = f"{count:,}" if count < 10**9 else "a billion or more"
            raise ValueError(f"Expected a plan of at most {most:,} {what}, to compute its epsilon; got {got}.")


def calibrate(plan: Sequence[Stage], budget: Budget) -> Schedule:
    """Returns the schedule with the least noise for which a plan costs no more than the budget.

        sigma_i = sigma / weight_i,   the smallest sigma with epsilon(delta) <= budget.epsilon

    All full batch: the closed form. Otherwise a search on the PLD; it ends between 0.9995 and 1 times epsilon.

    Args:
        plan: stages, at least one.
        budget: budget of all stages together; delta >= 1e-10 with a sampled stage.

    Returns:
        The schedule, with schedule.epsilon() <= budget.epsilon.

    Raises:
        ValueError: an empty plan, one of too many rounds or stages, an epsilon below 1e-9 or above 10,000, or a budget
            whose noise the accountant cannot handle.

    Guarantee:
        The plan is (epsilon, delta)-private under the budget's adjacency if every round adds a Gaussian of its noise
        multiplier to a sum whose contributions are clipped, on a Poisson sample of its sampling probability; for units,
        if all records of one together contribute at most the clip norm and are in the sample together.
    """
    plan = tuple(plan)
    if not plan:
        raise ValueError("Expected a plan of at least one stage.")
    check_work(plan)
    check_affordable(budget.epsilon)
    common = _common_multiplier(plan, budget)
    return Schedule(plan, tuple(common / stage.weight for stage in plan), budget)


@lru_cache(maxsize=256)
def _common_multiplier(plan: tuple[Stage, ...], budget: Budget) -> float:
    """Returns sigma, cached, because the search takes seconds and every run needs the result twice."""
    if all(stage.sampling_prob == 1.0 for stage in plan):
        single = gaussian_noise_multiplier(budget.epsilon, budget.delta, budget.adjacency)
        return single * math.sqrt(math.fsum(stage.rounds * stage.weight**2 for stage in plan))
    check_pld_delta(budget.delta)

    def epsilon(common: float, coarser: float = 1.0) -> float:
        groups = Schedule(plan, tuple(common / stage.weight for stage in plan), budget).groups
        return compose(groups, budget.delta, budget.adjacency, coarser)

    # An interval sixteen times as wide costs a sixteenth and brings the final search close to its result.
    near = _search(lambda common: epsilon(common, 16.0), _clt_guess(plan, budget), budget.epsilon)
    return _search(epsilon, near, budget.epsilon)


def _clt_guess(plan: Sequence[Stage], budget: Budget) -> float:
    """Returns the common multiplier whose central-limit mu is the budget's; Bu, Dong, Long and Su 2020, Corollary 2."""
    log_mu2 = -2 * math.log(gaussian_noise_multiplier(budget.epsilon, budget.delta))
    rounds, q, w = np.array([(s.rounds, s.sampling_prob, s.weight) for s in plan], float).T

    def excess(log_common: float) -> float:
        precision = np.minimum((w / math.exp(log_common)) ** 2, 600.0)
        if budget.adjacency == "replace-one":
            sampled, full = 4 * q**2 * np.sinh(precision), 4 * precision
        else:
            sampled, full = q**2 * np.expm1(precision), precision
        return math.log(float(np.sum(rounds * np.where(q == 1.0, full, sampled)))) - log_mu2

    low = math.log(float(w.max())) - 3.0
    return math.exp(low if excess(low) <= 0.0 else root(excess, low, low + 43.0))


def _search(epsilon_of: Callable[[float], float], guess: float, target: float) -> float:
    """Returns a multiplier with 0.9995 target <= epsilon <= target: secants in log-log within a bracket."""
    aim, x, slope = math.log(target * (1 - 2e-4)), math.log(guess), -1.2
    low, high, previous = -math.inf, math.inf, None
    for _ in range(60):
        epsilon = epsilon_of(math.exp(x))
        if 0.9995 * target <= epsilon <= target:
            return math.exp(x)
        low, high = (x, high) if epsilon > target else (low, x)
        y = math.log(max(epsilon, 1e-12)) if epsilon < math.inf else math.inf
        if previous is not None and math.isfinite(y) and math.isfinite(previous[1]) and x != previous[0]:
            slope = min(-0.1, (y - previous[1]) / (x - previous[0]))
        previous = (x, y)
        step = (aim - y) / slope if math.isfinite(y) else math.log(2.0)
        candidate = x + min(max(step, -1.4), 1.4)
        x = candidate if low < candidate < high else (low + high) / 2
        if high - low < 1e-9:
            break
    if high == math.inf:
        raise ValueError(f"No noise was found for epsilon={target}: the accountant does not handle this plan.")
    return math.exp(high)
