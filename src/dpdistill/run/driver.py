"""The driver: plan -> schedule -> ask / release / tell -> finish -> files."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.certificate.build import NO_NOISE, NOT_STATED, build_certificate, write_certificate
from dpdistill.data import check_output, write_distilled
from dpdistill.data.atomic import write_atomically
from dpdistill.data.folder import RECIPE, UNLISTED
from dpdistill.data.records import Records
from dpdistill.ledger.database import LedgerError
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import MEMORY, RunLedger
from dpdistill.method import Distilled, Method, Progress, no_progress, to_json
from dpdistill.private.checks import check_query
from dpdistill.private.curator import Curator
from dpdistill.private.linear import SLACK_TEXT
from dpdistill.private.noise import Entropy, SystemEntropy
from dpdistill.query import Compute, LinearQuery, Query
from dpdistill.report import write_report
from dpdistill.run import handover
from dpdistill.run.blobs import digest_records
from dpdistill.run.non_private import NonPrivateCurator
from dpdistill.run.store import Store
from dpdistill.schema import AnySchema, TableSchema, schema_from_json


@dataclass(frozen=True, eq=False)
class Result:
    """A distilled set and what is known about how it was made.

    Args:
        distilled: the synthetic set.
        recipe: method, fields, seed, origin and references.
        schedule: what was paid; None without a guarantee.
        noise: where the noise came from; None without noise.
        run_dir: the owner's folder of the run, or None.
        slack: what its queries round away, in words; None if nothing.
        backend: what the releases were computed on, in words.
        self_test: what was checked before the first release, in words.
    """

    distilled: Distilled
    recipe: dict
    schedule: Schedule | None
    noise: str | None
    run_dir: Path | None = None
    slack: str | None = None
    backend: str = NOT_STATED
    self_test: str = NOT_STATED

    @property
    def X(self) -> np.ndarray:
        """Synthetic records in the schema's raw units, (m, h, w, c) or (m, columns), float32."""
        return self.distilled.schema.from_unit(self.distilled.X)

    @property
    def y(self) -> np.ndarray:
        """Class indices, (m,), int32."""
        return self.distilled.y

    @property
    def epsilon(self) -> float:
        """What was spent at the budget's delta; infinite without a guarantee."""
        return float("inf") if self.schedule is None else self.schedule.epsilon()

    def save(self, folder: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the folder that may be shared: records, pictures, recipe, certificate, report.

        Args:
            folder: where; it must not exist, or be empty, unless overwrite.
            overwrite: replace an earlier result of this program.

        Raises:
            DataError: the folder cannot be written.
        """
        path = check_output(folder, overwrite)
        target = handover.start(path)
        for stale in UNLISTED:
            (target / stale).unlink(missing_ok=True)
        write_distilled(target, self.distilled)
        text = json.dumps(self.recipe, indent=2) + "\n"
        write_atomically(target / RECIPE, lambda file: file.write(text.encode()))
        certificate = build_certificate(
            target,
            schedule=self.schedule,
            recipe=self.recipe,
            schema=self.distilled.schema,
            noise=self.noise or NO_NOISE,
            slack=self.slack,
            backend=self.backend,
            self_test=self.self_test,
        )
        write_certificate(target, certificate)
        write_report(target)
        handover.hand_over(target, path, self.run_dir)
        return path


def distill(
    records: Records,
    method: Method,
    budget: Budget | None = None,
    *,
    seed: int = 0,
    run_dir: str | os.PathLike | None = None,
    ledger: str | os.PathLike | None = None,
    cap: float | None = None,
    label: str = "",
    overwrite: bool = False,
    progress: Progress = no_progress,
    compute: Compute | None = None,
    entropy: Entropy | None = None,
) -> Result:
    """Distil private records under a budget: every release is noised, paid for, and never drawn twice.

    Args:
        records: the private records.
        method: a distiller; its fields are the recipe.
        budget: what may be spent; epsilon 1 at delta 1e-5 under add-or-remove by default.
        seed: fixes everything public; noise and coins never follow it.
        run_dir: the owner's folder: ledger and checkpoints, for resuming; None keeps them in memory.
        ledger: file that composes all runs on a data set; a run that would exceed its cap is refused.
        cap: that ledger's cap.
        label: what the owner calls the run in that ledger.
        overwrite: archive the ledger of a finished or another run in run_dir, and pay anew.
        progress: told the number of rounds and steps done.
        compute: how the work is cut up.
        entropy: for tests only; what it makes is stamped insecure.

    Returns:
        The result, with X, y, epsilon, and save(folder).

    Raises:
        ValueError: a method that has no private form.
        LedgerError: the run cannot be started or resumed, or the cap would be exceeded.

    Guarantee:
        (epsilon, delta)-DP of everything in the result, under the budget's adjacency, for the releases of this run.

    Example:
        >>> result = distill(records, DOS(networks=30), Budget(epsilon=1.0))  # doctest: +SKIP
        >>> result.save("shared")  # doctest: +SKIP
    """
    check_private(method)
    check_kind(method, records.schema)
    schedule = calibrate(method.plan(), budget or Budget(1.0))
    recipe = recipe_of(method, seed)
    entropy = entropy or SystemEntropy()
    identity = {**recipe, "schema": records.schema.to_json(), "noise": entropy.kind}
    # A recipe that does not fit the data or the noise is refused here, before anything is written.
    query, params = method.ask(method.init(jax.random.key(seed), records.schema))
    for noise_multiplier in (min(schedule.noise_multipliers), max(schedule.noise_multipliers)):
        check_query(query, params, records.schema, noise_multiplier)
    folder = None if run_dir is None else Path(run_dir)
    place = MEMORY if folder is None else folder
    if ledger is not None:
        # Before a ledger is archived: a refused run leaves everything as it was.
        check_cap(method, schedule.budget, ledger, cap, seed=seed, run_dir=run_dir, overwrite=overwrite)
    digest = digest_records(records, RunLedger.digest_key(place))
    with open_run(place, identity, schedule, digest, overwrite) as run_ledger:
        if ledger is not None:
            DatasetLedger(Path(ledger), cap).reserve(run_ledger.run_id, label, schedule)
        curator = Curator(records, schedule, run_ledger, entropy, compute)
        store = Store(folder, run_ledger.run_id, run_ledger)
        state = run_rounds(method, curator, store, schedule.rounds, seed, records.schema, progress)
    distilled = method.finish(state, records.schema, progress)
    tested = getattr(curator, "self_test", NOT_STATED)
    return Result(distilled, recipe, schedule, curator.noise_kind, folder, slack_of(query), backend(), tested)


def check_private(method: Method) -> None:
    """Refuse a method that only runs without a guarantee.

    Raises:
        ValueError: the method has no private form.
    """
    if not getattr(method, "private", True):
        raise ValueError(f"{type(method).__name__} has no private form: run it without a guarantee (--non-private).")


def check_kind(method: Method, schema: AnySchema) -> None:
    """Refuse a method for images on a table.

    Raises:
        ValueError: with the methods' own words.
    """
    if isinstance(schema, TableSchema) and not getattr(method, "tables", False):
        raise ValueError(f"{type(method).__name__} distils images, not tables: take dp-merf, dp-hp or dp-kip.")


def check_cap(
    method: Method,
    budget: Budget | None,
    ledger: str | os.PathLike,
    cap: float | None = None,
    *,
    seed: int = 0,
    run_dir: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> None:
    """Refuse a run that would exceed a data set's cap before its records are opened; a resumed run has paid already.

    Args:
        method: a distiller.
        budget: what may be spent; None for a run without a guarantee.
        ledger: the data set's ledger.
        cap: its cap.
        seed, run_dir, overwrite: as in `distill`.

    Raises:
        LedgerError: the cap would be exceeded, or the ledger cannot be written.
    """
    folder = Path(ledger).resolve().parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LedgerError(f"Expected --ledger in a folder that can be written to; {folder} cannot.")
    schedule = None if budget is None else calibrate(method.plan(), budget)
    resumed = None
    if schedule is not None and run_dir is not None:
        resumed = _resumed(Path(run_dir), recipe_of(method, seed), schedule, overwrite)
    DatasetLedger(Path(ledger), cap).check(resumed, schedule)


def _resumed(run_dir: Path, recipe: dict, schedule: Schedule, overwrite: bool) -> str | None:
    """Name of the run that would be resumed; None for one that would start."""
    run_id = RunLedger.run_id_in(run_dir)
    if run_id is None or (overwrite and (run_dir / handover.FINISHED).exists()):
        return None
    run = RunLedger.read(run_dir)
    same = run.schedule == schedule and all(run.recipe.get(key) == value for key, value in recipe.items())
    return run_id if same else None


def distill_without_privacy(
    records: Records,
    method: Method,
    *,
    seed: int = 0,
    ledger: str | os.PathLike | None = None,
    cap: float | None = None,
    label: str = "",
    progress: Progress = no_progress,
    compute: Compute | None = None,
) -> Result:
    """The same method on plain sums: epsilon is infinite, and everything that is written says so.

    Args:
        records: records that need no protection.
        method: a distiller.
        seed: fixes everything.
        ledger: file that composes all runs on a data set: what they have spent is infinite from now on.
        cap: that ledger's cap; with one, the run is refused.
        label: what the owner calls the run in that ledger.
        progress: told the number of rounds and steps done.
        compute: how the work is cut up.
    """
    check_kind(method, records.schema)
    probs = [stage.sampling_prob for stage in method.plan() for _ in range(stage.rounds)]
    if ledger is not None:
        DatasetLedger(Path(ledger), cap).reserve(secrets.token_hex(16), label, None)
    curator = NonPrivateCurator(records, probs, seed, compute)
    state = run_rounds(method, curator, Store(None), len(probs), seed, records.schema, progress)
    distilled = method.finish(state, records.schema, progress)
    return Result(distilled, recipe_of(method, seed), None, None, backend=backend())


def finish_again(
    run_dir: str | os.PathLike, method: Method, *, budget: Budget | None = None, progress: Progress = no_progress
) -> Result:
    """Another synthetic set from releases that are paid for: more records a class, other steps; it costs nothing.

    Args:
        run_dir: the owner's folder of a run whose rounds are all released.
        method: the run's method; only fields that `finish` reads may differ.
        budget: if stated, it must be the one that was paid.
        progress: told the number of steps done.

    Raises:
        LedgerError: the run is not complete, or its releases do not fit the recipe.
    """
    folder = Path(run_dir)
    run = RunLedger.read(folder)
    changed = _release_fields(method, run.recipe)
    if changed:
        raise LedgerError(f"The releases of this run were made with another {', '.join(changed)}: they do not fit.")
    if budget is not None and budget != run.schedule.budget:
        raise LedgerError("The releases of this run were paid with another budget: leave epsilon and delta out.")
    schema, seed = schema_from_json(run.recipe["schema"]), run.recipe["seed"]
    like = method.init(jax.random.key(seed), schema)
    query, _ = method.ask(like)
    t, state = Store(folder, RunLedger.run_id_in(folder) or "").load(like)
    if t != run.schedule.rounds or len(run.events) != t:
        raise LedgerError("This run is not complete: resume it with the command that started it.")
    distilled = method.finish(state, schema, progress)
    return Result(distilled, recipe_of(method, seed), run.schedule, run.recipe["noise"], slack=slack_of(query))


def run_rounds(
    method: Method, curator: Any, store: Store, rounds: int, seed: int, schema: AnySchema, progress: Progress
) -> Any:
    """The loop: ask, release, tell. Its second line is the only one that touches private records."""
    t, state = store.load(method.init(jax.random.key(seed), schema))
    progress("releasing", t, rounds)
    while t < rounds:
        query, params = method.ask(state)
        state = method.tell(state, curator.release(t, query, params))
        t += 1
        store.save(t, state, last=t == rounds)
        progress("releasing", t, rounds)
    return state


def slack_of(query: Query) -> str | None:
    """What a certificate says of a run's arithmetic, from its first query: a method's queries are all of one kind."""
    return SLACK_TEXT if isinstance(query, LinearQuery) else None


def backend() -> str:
    """What this process computes on, in words: "cpu", "gpu (NVIDIA H200)"."""
    name, kind = jax.default_backend(), jax.devices()[0].device_kind
    return name if kind == name else f"{name} ({kind})"


def name_of(method: Method) -> str:
    """The method's `name`, as in the command line's table; without one, that of its class in small letters."""
    return getattr(method, "name", type(method).__name__.lower())


def recipe_of(method: Method, seed: int) -> dict:
    """What is saved of a method: its name, all fields, the public seed, where the settings come from."""
    described = dataclasses.fields(method)  # type: ignore[arg-type]
    fields = {f.name: to_json(getattr(method, f.name)) for f in described}
    changed = [f.name for f in described if getattr(method, f.name) != f.default]
    return {
        "method": name_of(method),
        "title": getattr(method, "title", type(method).__name__),
        "fields": json.loads(json.dumps(fields)),
        "changed": changed,
        "seed": int(seed),
        "origin": f"caller changed {', '.join(changed)}" if changed else getattr(method, "origin", "package default"),
        "references": list(getattr(method, "references", ())),
    }


def open_run(folder: Any, identity: dict, schedule: Schedule, digest: bytes, overwrite: bool) -> RunLedger:
    """The run's ledger: resumed when it is the same run and not finished, archived only with overwrite."""
    try:
        ledger = RunLedger.open(folder, identity, schedule, digest)
    except LedgerError:
        if not overwrite:
            raise
    else:
        if not overwrite or folder == MEMORY or not (folder / handover.FINISHED).exists():
            return ledger
        ledger.close()
    ledger = RunLedger.open(folder, identity, schedule, digest, overwrite=True)
    (folder / handover.FINISHED).unlink(missing_ok=True)
    return ledger


def _release_fields(method: Method, recipe: dict) -> list[str]:
    """Names of the fields that shape releases and differ from the recipe's."""
    if recipe.get("method") != name_of(method):
        return ["method"]
    mine = recipe_of(method, 0)["fields"]
    fields = [f.name for f in dataclasses.fields(method) if not f.metadata.get("finish")]  # type: ignore[arg-type]
    return [name for name in fields if recipe["fields"].get(name) != mine[name]]
