"""What a run can be expected to give, before anything is paid: from the recipe, the budget and the schema alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpdistill.accounting.outlook import HOPELESS, least_epsilon, records_heard
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.method import Method
from dpdistill.private.checks import check_query
from dpdistill.run.start import queries_of
from dpdistill.schema import AnySchema, DataError
from dpdistill.storage.memory import check_set_size, machine_memory

LARGE_CLASS = 10_000
"""Records of a class that few data sets exceed: what is hopeless for so many is hopeless, whatever is stated."""


@dataclass(frozen=True)
class Outlook:
    """What is public about the first kind of release of a run.

    Args:
        schedule: the noise of every round.
        coordinates: numbers of one sum.
        by_class: every class has a sum of its own; otherwise there is one sum over all records.
        records: alike ones, of a class or of all, whose sum is as long as its noise.
        stated: records of a class that the caller stated, or None.
        classes: number of classes.
        least_epsilon: the smallest epsilon that is not hopeless; None where this one is not, or where none is.
    """

    schedule: Schedule
    coordinates: int
    by_class: bool
    records: float
    stated: int | None
    classes: int
    least_epsilon: float | None

    @property
    def ratio(self) -> float | None:
        """Signal-to-noise ratio of the stated number of records; None where none was stated."""
        return None if self.stated is None else self.heard_from(self.stated)

    @property
    def hopeless(self) -> bool:
        """Returns whether the stated number of records, or else LARGE_CLASS, is drowned by the noise."""
        return self.heard_from(self.reference) < HOPELESS

    @property
    def reference(self) -> int:
        """Records of a class by which hope is judged: those stated, or LARGE_CLASS."""
        return LARGE_CLASS if self.stated is None else self.stated

    def heard_from(self, class_size: int) -> float:
        """Signal-to-noise ratio of that many records a class, if they are alike."""
        return class_size * (1 if self.by_class else self.classes) / self.records


def outlook(method: Method, budget: Budget, schema: AnySchema, class_size: int | None = None, seed: int = 0) -> Outlook:
    """How loud a data set will be above the noise of a run, found without a record.

    Args:
        method: a distiller.
        budget: what may be spent.
        schema: of the records.
        class_size: records of a class, where that is publicly known, >= 1; never the private count.
        seed: of the run.

    Raises:
        ValueError: a class_size < 1, a plan that cannot be calibrated, or a recipe that does not fit the schema.
    """
    if class_size is not None and class_size < 1:
        raise ValueError(f"Expected class_size={class_size} >= 1.")
    schedule = calibrate(method.plan(), budget)
    query, params = queries_of(method, schema, seed)[method.main_stage]
    shape, classes = check_query(query, params, schema), len(schema.classes)
    coordinates = math.prod(shape)
    found = Outlook(
        schedule=schedule,
        coordinates=coordinates,
        by_class=query.by_class,
        records=records_heard(schedule, coordinates, method.main_stage),
        stated=class_size,
        classes=classes,
        least_epsilon=None,
    )
    if not found.hopeless:
        return found
    records = found.reference * (1 if query.by_class else classes)
    least = least_epsilon(method.plan(), budget, coordinates, records, stage=method.main_stage)
    return replace(found, least_epsilon=least)


def check_size(method: Method, schema: AnySchema, available: int | None = None) -> None:
    """Refuse more synthetic records, or more of what a method holds beside them, than this machine's memory can hold.

    Args:
        method: a distiller; of one without per_class records only what it holds beside them is looked at.
        schema: of the records.
        available: bytes; None for this machine's.

    Raises:
        DataError: with the largest size that fits, or what is held.
    """
    available = available or machine_memory()
    if available is not None and (held := method.finish_bytes(schema)) > available:
        raise DataError(
            f"Expected a recipe whose synthetic set is made within the {available / 2**30:.3g} GiB of memory of this "
            f"machine; {method.name} would hold {held / 2**30:.3g} GiB: take fewer networks or a smaller subspace."
        )
    per_class = getattr(method, "per_class", None)
    if per_class is not None:
        check_set_size(per_class, schema, hasattr(method, "kernel"), available)
