"""Checks an owner's records against the plan, then pays in the owner's ledgers."""

from __future__ import annotations

from pathlib import Path

from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Method
from dpdistill.private.aggregator import LocalAggregator
from dpdistill.private.noise import Entropy, SystemEntropy
from dpdistill.private.share import ShareCurator
from dpdistill.query import Compute
from dpdistill.recipe.parts import implement
from dpdistill.recipe.saved import check_kind
from dpdistill.run.fit import fitting
from dpdistill.run.payment import Payment, expect
from dpdistill.run.start import check_unit, open_ledger, queries_of
from dpdistill.schema import DataError
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Records
from dpdistill.together.aggregator import steps_of
from dpdistill.together.plan import TogetherPlan


def check_records(plan: TogetherPlan, name: str, records: Records) -> None:
    """Refuses records that are not those of a plan: other public facts, or more than the owner's public number.

    Raises:
        DataError: for the owner's terminal; the run has paid nothing.
    """
    if records.schema != plan.facts:
        stated, found = plan.schema, records.schema.to_json()
        names = [key for key in {**stated, **found} if key != "inferred" and stated.get(key) != found.get(key)]
        raise DataError(
            f"The records differ from the plan in {', '.join(names)}: read them with the plan's facts, "
            "such as --classes, --resize or --schema."
        )
    most = plan.owner(name).most_records
    if len(records) > most:
        raise DataError(f"The plan allows {name} at most {most:,} records, and there are more: ask for another plan.")
    check_unit(records, plan.schedule.budget)


def open_account(
    plan: TogetherPlan,
    name: str,
    records: Records,
    run_dir: Path,
    dataset: DatasetLedger,
    entropy: Entropy | None = None,
    compute: Compute | None = None,
    memory: int | str | None = None,
) -> tuple[RunLedger, ShareCurator]:
    """Pays for an owner's part of a run, once, and returns its ledger and the curator of its share.

    Args:
        plan: the checked plan.
        name: the owner.
        records: its checked records.
        run_dir: the owner's folder of the run.
        dataset: the ledger of its data set.
        entropy: for tests only.
        compute: largest numbers of records that a program takes at once.
        memory: memory limit of features.

    Raises:
        LedgerError: the run cannot be resumed, or the data set's ledger refuses it.
        CuratorError: a query that cannot be summed.
    """
    method, schedule, entropy = implement(plan.part(), Method), plan.schedule, entropy or SystemEntropy()
    check_kind(method, records.schema)
    asked = queries_of(method, records.schema, plan.recipe["seed"])
    rows = schedule.budget.rows_per_unit
    for (query, params), noise_multiplier in zip(asked, schedule.noise_multipliers, strict=True):
        steps_of(query, params, records.schema, noise_multiplier, rows)
    compute = fitting(method, records.schema, asked, schedule, compute)
    identity = {**plan.recipe, "schema": plan.schema, "noise": entropy.kind, "together": plan.run, "owner": name}
    payment = Payment(schedule.budget, run_dir, dataset.name)
    expect(payment)
    ledger = open_ledger(records, identity, schedule, run_dir, dataset, f"together {plan.run[:16]}", False, payment)
    space = Memory.of(memory, run_dir)
    curator = ShareCurator(records, schedule, ledger, entropy, compute, space, LocalAggregator, shares=plan.shares)
    return ledger, curator
