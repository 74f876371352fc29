"""An owner's part of a run: records against the plan, its own ledgers, then answers until the run has ended."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Progress, no_progress
from dpdistill.private.share import ShareCurator
from dpdistill.schema import DataError
from dpdistill.signatures.keys import SigningKey
from dpdistill.storage.records import Records
from dpdistill.together.account import check_records, open_account
from dpdistill.together.client import take_part
from dpdistill.together.owner import Owner
from dpdistill.together.owner_store import OwnerStore
from dpdistill.together.plan import TogetherPlan


def name_of(plan: TogetherPlan, key: SigningKey) -> str:
    """Returns the name of the owner of a key in a plan.

    Raises:
        DataError: the plan has no such key.
    """
    for owner in plan.owners:
        if owner.public == key.public:
            return owner.name
    raise DataError(f"The plan has no owner with your key {key.public.fingerprint}: ask for a plan that has it.")


def check_cap(plan: TogetherPlan, dataset: DatasetLedger, run_dir: Path) -> None:
    """Refuses a plan that would exceed the cap of the owner's ledger, before any record is read.

    Raises:
        LedgerError: the cap would be exceeded (a resumed run has already paid), there is no ledger, or the run was
            resumed in a copy of run_dir.
    """
    dataset.check_first(plan.schedule.budget.epsilon)
    resumed = RunLedger.find(run_dir)
    run_id, nonces = ("", ("", "")) if resumed is None else (resumed.run_id, resumed.nonces)
    dataset.check(plan.schedule, run_id, nonces)


def join(
    plan: TogetherPlan,
    key: SigningKey,
    records: Records,
    run_dir: Path,
    ledger: str | Path,
    *,
    address: str | None = None,
    wait: float = 86400.0,
    memory: int | str | None = None,
    progress: Progress = no_progress,
    entropy: Any = None,
) -> None:
    """Takes part in a run of several owners, or resumes it, until the run has ended.

    Args:
        plan: the checked plan, which the owner accepts.
        key: the private key of one of its owners.
        records: that owner's records.
        run_dir: the owner's folder of the run.
        ledger: the ledger of the owner's data set, in which the run is paid once all owners have come.
        address: host:port of the coordinator; the plan's by default.
        wait: seconds without a coordinator after which this owner gives up; it can be resumed.
        memory: memory limit of features.
        progress: called with the number of finished rounds.
        entropy: for tests only.

    Raises:
        DataError: records or a key of another plan, or a coordinator that does not let this owner in.
        LedgerError: the ledger refuses the run.
        CuratorError: a round that could not be answered.

    Guarantee:
        What leaves this process is (epsilon, delta)-DP for one record or unit, as the plan states, if all owners but
        `plan.colluders` are honest: each round's sum of at least n - d owners, and masks.
    """
    name, dataset = name_of(plan, key), DatasetLedger(ledger)
    check_cap(plan, dataset, run_dir)
    check_records(plan, name, records)
    opened: list[RunLedger] = []

    def account() -> tuple[RunLedger, ShareCurator]:
        result = open_account(plan, name, records, run_dir, dataset, entropy, None, memory)
        opened.append(result[0])
        return result

    with closing(OwnerStore(run_dir, plan.run, name)) as store:
        try:
            take_part(plan, Owner(plan, name, key, store, account), address, wait, progress)
            for each in opened:
                if each.resume_at == plan.schedule.rounds:
                    each.complete()
        finally:
            for each in opened:
                each.close()
