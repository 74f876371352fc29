"""The driver: plan -> schedule -> ask / release / tell -> finish -> files."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.certificate.build import (
    OF_THE_RELEASES,
)
from dpdistill.errors import LedgerError
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.ledger.store import ledger_name
from dpdistill.method import Method, Progress, no_progress, scratch
from dpdistill.private.aggregator import LocalAggregator
from dpdistill.private.checks import check_query
from dpdistill.private.curator import Curator
from dpdistill.private.noise import Entropy, SystemEntropy
from dpdistill.programs.self_test import PASSED
from dpdistill.query import Compute, LinearQuery, Params, Query, Release
from dpdistill.recipe.parts import implement
from dpdistill.recipe.saved import changed_releases, check_kind, check_private, recipe_of, slack_of
from dpdistill.run.argument_types import check_given, method_for
from dpdistill.run.checkpoint import Store
from dpdistill.run.fit import fitting
from dpdistill.run.non_private import NonPrivateCurator
from dpdistill.run.payment import Payment, told
from dpdistill.run.result import Result
from dpdistill.run.serialize import releases_id
from dpdistill.run.start import check_ledger, check_unit, open_ledger, queries_of
from dpdistill.schema import AnySchema, schema_from_json
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Records
from dpdistill.workers import Workers

LOG = logging.getLogger("dpdistill")
"""Logger of a run: its public facts and the numbers of its rounds, never facts about records."""
Watch = Callable[[Query, Params, Release], None]


def _unwatched(query: Query, params: Params, release: Release) -> None:
    """Watches nothing."""


@dataclass(frozen=True)
class Parts:
    """Classes of a run's curator and store; an audit replaces them by its own subclasses."""

    curator: Callable[..., Curator] = Curator
    store: Callable[..., Store] = Store


USUAL = Parts()


def distill(
    records: Records,
    method: Method | None = None,
    budget: Budget | None = None,
    *,
    seed: int = 0,
    run_dir: str | os.PathLike | None = None,
    ledger: str | os.PathLike | None = None,
    label: str = "",
    overwrite: bool = False,
    named: str | None = None,
    progress: Progress = no_progress,
    watch: Watch = _unwatched,
    beside: Records | None = None,
    entropy: Entropy | None = None,
    compute: Compute | None = None,
    workers: Workers | None = None,
    memory: int | str | None = None,
    parts: Parts = USUAL,
) -> Result:
    """Distils private records under a budget: every release is noised, paid for, and never drawn twice.

    Args:
        records: the private records.
        method: a distiller; its fields are the recipe. None for DOS-KIP of images and DP-MERF of tables.
        budget: the budget; epsilon 1 at delta 1e-5 under add-or-remove by default.
        seed: fixes everything public; noise and coins never depend on it.
        run_dir: the owner's folder with ledger and checkpoints, for resuming; None keeps them in memory.
        ledger: ledger file of the data set, which composes all of its runs and stores a digest of its records and the
            progress of each run. A run is refused if it exceeds the cap, reads other records, or was resumed in a copy
            of run_dir. A missing file is refused: `begin_ledger` creates it.
        label: name of the run in that ledger, chosen by the owner.
        overwrite: archive the ledger of a finished or another run in run_dir, and pay again.
        named: name of the published recipe that the method's fields come from, for the certificate.
        progress: called with the number of finished rounds and steps.
        watch: called with each query, its parameters and its release, for an audit.
        beside: canaries of an audit: records that belong to no person and are distilled together with the private ones.
            The ledgers know the private records alone, so such a run is never resumed: run_dir must be None.
        entropy: for tests only; the result is marked insecure.
        compute: largest numbers of records that a compiled program takes at once; fewer where memory is small.
        workers: other processes that hold the records and add up shards of them; None uses this process.
        memory: bytes, or a text such as "4G", for features of records; the rest is in a file without a name on the disk
            of run_dir. None takes half of the machine's memory.
        parts: classes of the curator and the store, for an audit.

    Returns:
        The result, with X, y, epsilon, and save(folder).

    Raises:
        DataError: a round that does not fit into the memory of this machine.
        ValueError: a method that has no private form, `beside` with a run_dir or a unit, or records with units and a
            budget without one, or the other way round.
        TypeError: records, a method or a budget of another type, or a method whose queries contradict its statements.
        LedgerError: the run cannot be started or resumed, or the data set's ledger refuses it.

    Guarantee:
        (epsilon, delta)-DP of everything in the result, under the budget's adjacency, for the releases of this run: for
        one record, or, if the budget names a unit, for all records of one unit together.

    Example:
        >>> result = distill(records, DOS(networks=30), Budget(epsilon=1.0))  # doctest: +SKIP
        >>> result.save("shared")  # doctest: +SKIP
    """
    check_given(records, method, budget)
    method = method_for(records, method)
    check_private(method)
    check_kind(method, records.schema)
    if beside is not None and run_dir is not None:
        raise ValueError("Expected run_dir=None with canaries (beside): such a run is never resumed.")
    budget, folder = budget or Budget(1.0), None if run_dir is None else Path(run_dir)
    check_unit(records, budget)
    if beside is not None and budget.unit is not None:
        raise ValueError("Expected a budget of single records with canaries (beside): canaries have no unit.")
    schedule = calibrate(method.plan(), budget)
    entropy = entropy or SystemEntropy()
    # Refuses a recipe that does not fit the data or a stage's noise before anything is written.
    asked = queries_of(method, records.schema, seed)
    if isinstance(asked[0][0], LinearQuery) != method.linear:
        raise TypeError(f"Expected {type(method).__name__} to state linear={not method.linear}, as its first query is.")
    for (query, params), noise_multiplier in zip(asked, schedule.noise_multipliers, strict=True):
        check_query(query, params, records.schema, noise_multiplier, rows_per_unit=budget.rows_per_unit)
    compute = fitting(method, records.schema, asked, schedule, compute)
    recipe = recipe_of(method, seed, named)
    dataset = None if ledger is None else DatasetLedger(ledger)
    identity = {**recipe, "schema": records.schema.to_json(), "noise": entropy.kind}
    LOG.info("%s: %d releases, epsilon %g at delta %g", method.name, schedule.rounds, budget.epsilon, budget.delta)
    whole = records if beside is None else records.joined(beside)
    payment = Payment(budget, folder, ledger_name(ledger))
    with told(payment):
        check_ledger(method, budget, ledger, seed=seed, run_dir=run_dir, overwrite=overwrite, named=named)
        with ExitStack() as stack:
            opened = open_ledger(records, identity, schedule, folder, dataset, label, overwrite, payment)
            run_ledger = stack.enter_context(opened)
            holders = stack.enter_context((workers or Workers()).holders(folder))
            space = Memory.of(memory, folder)
            curator = parts.curator(whole, schedule, run_ledger, entropy, compute, space, holders or LocalAggregator)
            store, earlier = parts.store(folder, run_ledger.run_id, run_ledger), len(run_ledger.events())
            with scratch(_scratch_of(folder, run_ledger.run_id)):
                state = run_rounds(method, curator, store, schedule.rounds, seed, records.schema, progress, watch)
            head = run_ledger.complete()
        payment.released, noise = True, curator.noise_kind
        del curator  # frees the features of records: the set needs memory
        with scratch(_scratch_of(folder, run_ledger.run_id)):
            distilled = method.finish(state, records.schema, progress)
        name = releases_id(run_ledger.run_id, state)
    on = _machine(workers, earlier)
    stated = {"slack": slack_of(method), "backend": on, "self_test": PASSED, "releases": name, "payment": payment}
    return Result(distilled, recipe, schedule, noise, folder, ledger_head=head, **stated)


def distill_without_privacy(
    records: Records, method: Method, *, seed: int = 0, named: str | None = None, progress: Progress = no_progress
) -> Result:
    """Distils with plain sums: epsilon is infinite, and every output states this.

    Args:
        records: records that need no protection.
        method: a distiller.
        seed: fixes everything.
        named: name of the published recipe that the method's fields come from.
        progress: called with the number of finished rounds and steps.

    Raises:
        ValueError: a method for images on a table.
        TypeError: records or a method of another type.
    """
    check_given(records, method)
    method = method_for(records, method)
    check_kind(method, records.schema)
    probs = [stage.sampling_prob for stage in method.plan() for _ in range(stage.rounds)]
    compute = fitting(method, records.schema, queries_of(method, records.schema, seed), None)
    curator = NonPrivateCurator(records, probs, seed, compute)
    state = run_rounds(method, curator, Store(None), len(probs), seed, records.schema, progress)
    del curator  # frees the features of records: the set needs memory
    distilled = method.finish(state, records.schema, progress)
    return Result(distilled, recipe_of(method, seed, named), None, None, backend=backend())


def finish_again(
    run_dir: str | os.PathLike,
    method: Method,
    *,
    budget: Budget | None = None,
    named: str | None = None,
    progress: Progress = no_progress,
) -> Result:
    """Makes another synthetic set from paid releases, at no cost: more records per class, other steps.

    Args:
        run_dir: the owner's folder of a run whose rounds are all released.
        method: the run's method; only fields that `finish` reads may differ.
        budget: if stated, it must equal the paid budget.
        named: name of the published recipe that fields which differ from the run's come from; None for the run's own.
        progress: called with the number of finished steps.

    Raises:
        LedgerError: the run is not complete, or its releases do not fit the recipe.
    """
    folder, method = Path(run_dir), implement(method, Method)
    run = RunLedger.read(folder)
    changed = changed_releases(method, run.recipe)
    if changed:
        raise LedgerError(f"The releases of this run were made with another {', '.join(changed)}: they do not fit.")
    if budget is not None and budget != run.schedule.budget:
        raise LedgerError("The releases of this run were paid with another budget: omit epsilon and delta.")
    schema, seed = schema_from_json(run.recipe["schema"]), run.recipe["seed"]
    like = method.init(jax.random.key(seed), schema)
    t, state = Store(folder, run.run_id).load(like)
    if t != run.schedule.rounds or len(run.events) != t:
        raise LedgerError("This run is not complete: resume it with the command that started it.")
    with scratch(_scratch_of(folder, run.run_id)):
        distilled = method.finish(state, schema, progress)
    statements = dict.fromkeys(("backend", "self_test"), OF_THE_RELEASES)
    stated = {
        "slack": slack_of(method),
        **statements,
        "releases": releases_id(run.run_id, state),
        "ledger_head": run.head,
    }
    same = recipe_of(method, seed)["fields"] == run.recipe["fields"]
    recipe = recipe_of(method, seed, run.recipe.get("named") if same or named is None else named)
    return Result(distilled, recipe, run.schedule, run.recipe["noise"], **stated)


def run_rounds(
    method: Method,
    curator: Any,
    store: Store,
    rounds: int,
    seed: int,
    schema: AnySchema,
    progress: Progress,
    watch: Watch = _unwatched,
) -> Any:
    """Runs the loop: ask, release, tell. Only the line with `curator.release` touches private records."""
    t, state = store.load(method.init(jax.random.key(seed), schema))
    progress("releasing", t, rounds)
    LOG.info("%d of %d rounds are released already", t, rounds)
    while t < rounds:
        query, params = method.ask(state)
        if isinstance(query, LinearQuery) and not method.linear:
            raise TypeError(f"Expected {type(method).__name__} to state linear=True: the query of round {t} is linear.")
        release = curator.release(t, query, params)
        watch(query, params, release)
        state = method.tell(state, release)
        t += 1
        store.save(t, state, last=t == rounds)
        LOG.debug("round %d of %d is released", t, rounds)
        progress("releasing", t, rounds)
    return state


def _scratch_of(folder: Path | None, run_id: str) -> Path | None:
    """Returns the file for public data of the method in the owner's folder."""
    return None if folder is None else folder / f"public-{run_id}.bin"


def _machine(workers: Workers | None, earlier: int) -> str:
    """Returns the hardware that computed the releases, as far as this process knows.

    Unknown are the other machines of a Ray cluster, and those of rounds before the run was resumed.
    """
    elsewhere = workers is not None and workers.ray not in (None, "local")
    cluster = "; its sums on machines of a Ray cluster, not stated"
    # The number of rounds is not stated: under a time limit it would reveal the number of records.
    some = "; of its rounds before it was started again, not stated"
    return backend() + cluster * elsewhere + some * (earlier > 0)


def backend() -> str:
    """Returns this process's hardware in words: "cpu", "gpu (NVIDIA H200)"."""
    name, kind = jax.default_backend(), jax.devices()[0].device_kind
    return name if kind == name else f"{name} ({kind})"
