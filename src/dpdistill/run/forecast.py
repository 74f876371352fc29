"""Forecasts a run before anything is paid: noise from public facts; time, memory and disk on this machine."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import disk_usage
from tempfile import gettempdir
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.accounting.outlook import HOPELESS, least_epsilon, records_heard
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.accounting.verdict import Verdict, judge
from dpdistill.method import Distilled, Method
from dpdistill.private.checks import check_query
from dpdistill.programs import clipping
from dpdistill.run.checkpoint import EVERY
from dpdistill.run.count import LESSON, Count, fewer
from dpdistill.run.dry_run import Work, dry_run, shapes_only, work_of
from dpdistill.run.fit import SUMS, fitting
from dpdistill.run.speed import seconds_each
from dpdistill.run.start import queries_of
from dpdistill.schema import AnySchema, DataError, Schema
from dpdistill.schema.counts import LEVEL
from dpdistill.storage.memory import check_set_size, machine_memory

try:
    import resource
except ImportError:  # Windows
    resource = None

LARGE_CLASS = 10_000
"""Records of a class that few data sets exceed: what is hopeless for so many is hopeless, whatever is stated."""
SIDE = 32
"""Pixels of the longer side of images that are counted; larger ones take more by their number of pixels."""
COMPILED = 40 << 10
"""Bytes of memory that an operation of a compiled program takes."""
SEED = 1 << 30
"""Seed of dry runs: no run has the same one, so that no run finds a value that a dry run cached."""


@dataclass(frozen=True)
class Outlook:
    """Public facts about the main kind of release of a run.

    Args:
        schedule: the noise of every round.
        coordinates: numbers of one sum.
        by_class: every class has a sum of its own; otherwise there is one sum over all records.
        records: equal ones, of a class or of all, whose sum is as long as its noise.
        stated: records of a class that the caller stated, or None.
        classes: number of classes.
        least_epsilon: the smallest epsilon that is not hopeless; None where this one is not, or where none is.
        classifier: whether the method releases a classifier of images, on which `verdict` judges.
        count_error: half of the 95 % interval of a count in one cell of a chosen table; None without such tables.
    """

    schedule: Schedule
    coordinates: int
    by_class: bool
    records: float
    stated: int | None
    classes: int
    least_epsilon: float | None
    classifier: bool = False
    count_error: float | None = None

    def verdict(self, class_size: int) -> Verdict | None:
        """Returns whether a class has enough records for the released classifier; None if there is none."""
        return judge(class_size, self.records / math.sqrt(self.coordinates)) if self.classifier else None

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
        """Signal-to-noise ratio of that many records a class, if they are equal."""
        return class_size * (1 if self.by_class else self.classes) / self.records


def outlook(method: Method, budget: Budget, schema: AnySchema, class_size: int | None = None, seed: int = 0) -> Outlook:
    """Returns how large the noise of a run is compared with one class, found without a record.

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
    plan, stage, classes = method.plan(), method.main_stage, len(schema.classes)
    schedule = calibrate(plan, budget)
    query, params = queries_of(method, schema, seed)[stage]
    shape = check_query(query, params, schema)
    coordinates = getattr(query, "signal_numbers", math.prod(shape))
    heard = records_heard(schedule, coordinates, stage)
    cell = method.cell_noise
    error = None if cell is None else LEVEL * cell * schedule.groups[stage][1].noise_multiplier
    released = {"classifier": method.judged, "count_error": error}
    known = Outlook(schedule, coordinates, query.by_class, heard, class_size, classes, None, **released)
    if not known.hopeless:
        return known
    records = known.reference * (1 if query.by_class else classes)
    return replace(known, least_epsilon=least_epsilon(plan, budget, coordinates, records, stage=stage))


def check_size(
    method: Method, schema: AnySchema, available: int | None = None, folder: str | os.PathLike | None = None
) -> None:
    """Refuses more synthetic records, or more data of a method, than this machine's memory and disk can hold.

    Args:
        method: a distiller; without per_class, only the other data of the method are checked.
        schema: of the records.
        available: bytes of memory; None for this machine's.
        folder: the owner's folder, which may not exist yet; None for the system's temporary folder.

    Raises:
        DataError: with the largest size that fits, or what is held.
    """
    available = available or machine_memory()
    if available is not None and (held := method.finish_bytes(schema)) > available:
        raise DataError(
            f"Expected a recipe whose synthetic set is made within the {available / 2**30:.3g} GiB of memory of this "
            f"machine; {method.name} would hold {held / 2**30:.3g} GiB: take fewer networks or a smaller subspace."
        )
    place = Path(folder or gettempdir()).absolute()
    place = next((path for path in (place, *place.parents) if path.exists()), Path("/"))
    if (stored := method.disk_bytes(schema)) > (free := disk_usage(place).free):
        raise DataError(
            f"Expected a recipe whose data fit into the {free / 2**30:.3g} GiB that are free on the disk of {place}; "
            f"{method.name} would store {stored / 2**30:.3g} GiB: take fewer networks or a smaller subspace."
        )
    per_class = getattr(method, "per_class", None)
    if per_class is not None:
        check_set_size(per_class, schema, hasattr(method, "kernel"), available)


@dataclass(frozen=True)
class Capacity:
    """Forecast of what a run of some number of records takes on this machine.

    Args:
        records: how many.
        compiling: seconds until programs are compiled and tested.
        encoding: seconds for features of all records, which are made once.
        releasing: seconds of all rounds.
        finishing: seconds of all steps after the last round.
        memory: bytes that a run needs beside the features of records.
        features: bytes of the records' features, which are kept in memory or in the owner's folder.
        disk: bytes of ledger, checkpoints and synthetic records.
    """

    records: int
    compiling: float
    encoding: float
    releasing: float
    finishing: float
    memory: int
    features: int
    disk: int

    @property
    def seconds(self) -> float:
        """Returns the seconds of all parts."""
        return self.compiling + self.encoding + self.releasing + self.finishing


def capacity(method: Method, schema: AnySchema, records: int, schedule: Schedule | None = None) -> Capacity:
    """Returns what a run takes on this machine, from the work of its programs, none of which is compiled or run.

        seconds = sum over kinds of work of (work x seconds of a unit on this machine) + seconds in Python and NumPy
        releasing = sum over the stages of rounds (a + b chunks(n)),   a, b of one round and one chunk

    Args:
        method: a distiller.
        schema: of the records.
        records: how many, >= 1: a public number, or one whose forecast only the owner sees.
        schedule: the noise of every round; None without a guarantee.

    Raises:
        DataError: a round that does not fit into the memory of this machine.
        ValueError: records < 1, or a recipe that does not fit the schema.
    """
    if records < 1:
        raise ValueError(f"Expected records={records} >= 1.")
    each = seconds_each()
    counted, key = _smaller(method, schema), jax.random.key(SEED)
    larger, small = schema.dimension / counted.dimension, fewer(method, LESSON)
    with clipping.as_tested(), dry_run() as dry:
        asked, first = queries_of(small, counted, SEED), small.init(key, counted)
        compute = fitting(method, counted, asked, schedule, larger=larger)
        count = Count(method, small, counted, schema, records, schedule, dry, compute)
        held = _bytes(method.init(key, counted))
        state = first
        for stage, (query, params) in zip(method.plan(), asked, strict=True):
            state = state if count.whole_stages else small.at_round(first, count.rounds)
            state = count.stage(stage, query, params, state)
        made, finishing = count.finish(state)
        kept = 2 * held + _set_bytes(made)

    products = _products_of_a_pixel(method, schema) / _products_of_a_pixel(method, counted)

    def seconds(work: Work) -> float:
        return max(0.0, work.larger(larger, products).seconds_at(each))

    releasing, sums = seconds(count.releasing), SUMS * max(size for _, size in count.released)
    # A checkpoint frees the values of the rounds that it includes.
    kept += sum(size * min(n, 1 + EVERY * n / max(releasing, 1e-9)) for n, size in count.released)
    return Capacity(
        records=records,
        compiling=seconds(count.starting) + count.tracing,
        encoding=seconds(count.encoding),
        releasing=releasing,
        finishing=seconds(finishing),
        memory=_peak() + int(larger * (dry.memory + sums) + COMPILED * count.starting.equations),
        features=int(larger * sum(count.features.values())) if count.rounds > 1 else 0,
        disk=int(larger * kept) + method.disk_bytes(schema),
    )


def _smaller(method: Method, schema: AnySchema) -> AnySchema:
    """Returns a schema of smaller images if they are large: work, memory and disk grow with the number of pixels."""
    if not isinstance(schema, Schema) or max(schema.shape[:2]) <= SIDE:
        return schema
    h, w, channels = schema.shape
    shrink = SIDE / max(h, w)
    smaller = replace(schema, shape=(*(max(8, 8 * round(shrink * side / 8)) for side in (h, w)), channels))
    try:
        method.init(jax.random.key(SEED), smaller)
    except ValueError:  # public images of one size, or parts that a smaller image does not have
        return schema
    return smaller


def _products_of_a_pixel(method: Method, schema: AnySchema) -> float:
    """Returns the work of matrix products for a pixel by the features of the method's kernel; 1 without products.

    A ScatterNet's grow with the side of the image, since it multiplies by matrices of the waves along each side.
    """
    encoder = getattr(getattr(method, "kernel", None), "encoder", None)
    if encoder is None:
        return 1.0
    record = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    with shapes_only():
        traced = jax.make_jaxpr(lambda X: encoder(X))(record)
    return work_of(traced.jaxpr, {}).products / schema.dimension or 1.0


def _bytes(tree: Any) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))


def _set_bytes(made: Distilled) -> int:
    """Returns the bytes of a synthetic set's arrays, and of its generator's."""
    arrays = [made.X, made.y, made.targets, made.classifier, made.soft_labels, *(made.training or ())]
    return _bytes([*arrays, *getattr(made.generator, "weights", ())])


def _peak() -> int:
    """Returns the most bytes of memory that this process has had; 0 where the system does not tell."""
    if resource is None:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
