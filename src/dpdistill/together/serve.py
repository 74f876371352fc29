"""The coordinator of a run: waits for owners, asks, adds up, and finishes the set from the released sums."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from dpdistill.errors import CuratorError, Unanswered
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Method, Progress, no_progress, scratch
from dpdistill.recipe.parts import implement
from dpdistill.recipe.saved import check_kind, slack_of
from dpdistill.run.checkpoint import Store
from dpdistill.run.driver import run_rounds
from dpdistill.run.result import Result
from dpdistill.run.serialize import releases_id
from dpdistill.together.aggregator import Aggregator
from dpdistill.together.plan import TogetherPlan
from dpdistill.together.server import Server
from dpdistill.together.transcript import FOLDER, Transcript

LOG = logging.getLogger("dpdistill")
BACKEND = "the owners' machines, not stated"
SELF_TEST = "each owner's program refuses queries that mix records, before it answers; not stated by the coordinator"


def serve(
    plan: TogetherPlan,
    folder: Path,
    *,
    address: str | None = None,
    patience: float = 600.0,
    wait: float = 86400.0,
    progress: Progress = no_progress,
    listening: Any = None,
) -> Result:
    """Coordinates a run of several owners, or resumes it, and returns its result.

    Args:
        plan: the checked plan.
        folder: the coordinator's folder, in which the plan was made: TLS key, released sums, transcript.
        address: host:port to listen on; the plan's by default.
        patience: seconds to wait for the answers of a round, before a shorter list is tried.
        wait: seconds to wait for owners before the run stops; it can be resumed.
        progress: called with the number of finished rounds and steps.
        listening: called with the port, once it is open.

    Raises:
        Unanswered: owners that did not come or were lost; the same call resumes the run.
        CuratorError: an owner refused or sent garbage.
        DataError: an address that cannot be used, or a folder of another plan.
        LedgerError: another process uses the folder.

    Guarantee:
        The coordinator learns sums of the shares of all owners of a list, one of each round: (epsilon, delta)-DP for
        one record or unit of any owner, if at most `plan.colluders` owners collude with it.
    """
    method, facts, seed = implement(plan.part(), Method), plan.facts, plan.recipe["seed"]
    check_kind(method, facts)
    identity = {**plan.recipe, "schema": plan.schema, "noise": Aggregator.noise_kind, "together": plan.run}
    with RunLedger.open(folder, identity, plan.schedule, b"several owners") as ledger:
        transcript = Transcript(folder / FOLDER, plan.run)
        with closing(Server(plan, folder, transcript, address)) as server:
            if listening is not None:
                listening(server.port)
            try:
                if ledger.resume_at < plan.schedule.rounds and transcript.roster() is None:
                    _wait_for_all(plan, server, wait)
                    server.start()
                aggregator = Aggregator(plan, method, server, ledger, transcript, patience, wait)
                store = Store(folder, ledger.run_id, ledger)
                with scratch(folder / f"public-{ledger.run_id}.bin"):
                    state = run_rounds(method, aggregator, store, plan.schedule.rounds, seed, facts, progress)
                    ledger.complete()
                    server.close({"kind": "end"})
                    distilled = method.finish(state, facts, progress)
            except CuratorError as error:
                if not isinstance(error, Unanswered):
                    server.close({"kind": "stopped", "sentence": str(error)})
                raise
        name = releases_id(ledger.run_id, state)
    stated = {"slack": slack_of(method), "backend": BACKEND, "self_test": SELF_TEST, "releases": name}
    return Result(
        distilled,
        plan.recipe,
        plan.schedule,
        Aggregator.noise_kind,
        folder,
        **stated,
        owners=plan.names,
        summation=summation_of(plan),
    )


def summation_of(plan: TogetherPlan) -> dict[str, Any]:
    """Returns what a certificate states about a plan's sums."""
    return {
        "mode": "summed unseen",
        "plan": plan.run,
        "keys": [owner.public.fingerprint for owner in plan.owners],
        "dropouts": plan.dropouts,
        "colluders": plan.colluders,
        "persons_at": plan.persons_at,
        "aliasing": plan.aliasing(),
    }


def _wait_for_all(plan: TogetherPlan, server: Server, wait: float) -> None:
    """Waits until every owner of the plan is connected.

    Raises:
        Unanswered: not all of them come.
    """
    until, missing = time.monotonic() + wait, set(plan.names)
    while missing := set(plan.names) - server.connected():
        if time.monotonic() >= until:
            raise Unanswered(
                f"Owners did not connect: {', '.join(sorted(missing))}. Nothing was asked or paid; start the "
                "coordinator again with the same command when they can."
            )
        time.sleep(0.1)
