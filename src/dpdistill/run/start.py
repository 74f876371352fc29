"""Starts a run: refusals before a record is read, and the ledgers that store the payment."""

from __future__ import annotations

import os
from pathlib import Path

import jax

from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.errors import LedgerError, LedgerUnusable
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.folder import digest_key
from dpdistill.ledger.run import MEMORY, RunLedger
from dpdistill.ledger.run_rows import RunRecord
from dpdistill.method import Method
from dpdistill.query import Params, Query
from dpdistill.recipe.saved import recipe_of
from dpdistill.run import output_folder
from dpdistill.run.payment import Payment
from dpdistill.run.serialize import digest_records
from dpdistill.schema import AnySchema, name_unit
from dpdistill.storage.records import Records


def check_ledger(
    method: Method,
    budget: Budget,
    ledger: str | os.PathLike | None,
    *,
    seed: int = 0,
    run_dir: str | os.PathLike | None = None,
    overwrite: bool = False,
    named: str | None = None,
) -> None:
    """Refuses a run that a data set's ledger does not accept, before its records are opened.

    Args:
        method: a distiller.
        budget: the budget.
        ledger: the data set's ledger; None for a run without one.
        seed, run_dir, overwrite, named: as in `distill`.

    Raises:
        LedgerError: the cap would be exceeded (a resumed run has already paid), the run was resumed in a copy of
            run_dir, the file has no ledger (`begin_ledger` creates one), or it cannot be written.
    """
    if ledger is None:
        return
    dataset = DatasetLedger(ledger)
    dataset.check_first(budget.epsilon)
    schedule = calibrate(method.plan(), budget)
    resumed = None if run_dir is None else _resumed(Path(run_dir), recipe_of(method, seed, named), schedule, overwrite)
    run_id, nonces = ("", ("", "")) if resumed is None else (resumed.run_id, resumed.nonces)
    dataset.check(schedule, run_id, nonces)


def queries_of(method: Method, schema: AnySchema, seed: int = 0) -> tuple[tuple[Query, Params], ...]:
    """Returns a method's first query in each stage of its plan, without reading a record.

    Raises:
        ValueError: a recipe that does not fit the schema.
    """
    state, stages = method.init(jax.random.key(seed), schema), method.plan()
    first = (sum(stage.rounds for stage in stages[:i]) for i in range(len(stages)))
    return tuple(method.ask(method.at_round(state, t)) for t in first)


def check_unit(records: Records, budget: Budget) -> None:
    """Refuses records with units and a budget without one, or the other way round.

    Raises:
        ValueError: a budget that protects units the records do not have, or records whose units it does not protect.
    """
    if records.units is None and budget.unit is not None:
        raise ValueError(f"Expected records with units where the budget protects one {name_unit(budget.unit)}.")
    if records.units is not None and budget.unit is None:
        raise ValueError("Expected a budget with unit and rows_per_unit: these records belong to units.")


def open_ledger(
    records: Records,
    identity: dict,
    schedule: Schedule,
    run_dir: Path | None,
    dataset: DatasetLedger | None,
    label: str,
    overwrite: bool,
    payment: Payment,
) -> RunLedger:
    """Returns the run's ledger, bound to the records, after paying in the data set's ledger.

    Args:
        records: the private records; only the two ledgers store digests of them.
        identity: recipe, schema and noise, which must be equal for a run to be resumed.
        schedule: payment of every round.
        run_dir: the owner's folder; None keeps the ledger in memory.
        dataset: the data set's ledger, or None.
        label: name of the run in that ledger, chosen by the owner.
        overwrite: archive the ledger of a finished or another run.
        payment: receives the run's ledger; a run that is refused has paid nothing.

    Raises:
        LedgerError: the run cannot be started or resumed, or the data set's ledger refuses it.
    """
    if dataset is not None:
        # Runs before a ledger is archived: a refused run changes nothing.
        dataset.bind(lambda key: digest_records(records, key))
    digest = digest_records(records, digest_key(run_dir))
    run_ledger = payment.run = _open_run(run_dir, identity, schedule, digest, overwrite, dataset)
    if dataset is not None:
        try:
            run_ledger.join(dataset, label)
        except BaseException as error:
            run_ledger.close()
            if isinstance(error, LedgerError) and not isinstance(error, LedgerUnusable):
                payment.run = None
            raise
    return run_ledger


def _open_run(
    run_dir: Path | None,
    identity: dict,
    schedule: Schedule,
    digest: bytes,
    overwrite: bool,
    dataset: DatasetLedger | None,
) -> RunLedger:
    """Resumes an unfinished run with the same identity; archives another run's ledger only with overwrite."""
    place = MEMORY if run_dir is None else run_dir
    try:
        ledger = RunLedger.open(place, identity, schedule, digest)
    except LedgerError:
        if not overwrite:
            raise
    else:
        if not overwrite or run_dir is None or not (run_dir / output_folder.FINISHED).exists():
            return ledger
        ledger.close()
    if dataset is not None:
        dataset.check(schedule)  # a refusal by the data set's ledger must leave the existing run unchanged
    ledger = RunLedger.open(place, identity, schedule, digest, overwrite=True)
    if run_dir is not None:
        (run_dir / output_folder.FINISHED).unlink(missing_ok=True)
    return ledger


def _resumed(run_dir: Path, recipe: dict, schedule: Schedule, overwrite: bool) -> RunRecord | None:
    """Returns the run that would be resumed; None if a new one would start."""
    run = RunLedger.find(run_dir)
    if run is None or (overwrite and (run_dir / output_folder.FINISHED).exists()):
        return None
    same = run.schedule == schedule and all(run.recipe.get(key) == value for key, value in recipe.items())
    return run if same else None
