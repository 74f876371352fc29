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
import numpy as np

from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.certificate.build import (
    NO_NOISE,
    NOT_STATED,
    OF_THE_RELEASES,
    build_certificate,
    recipe_content,
    write_certificate,
)
from dpdistill.errors import LedgerError
from dpdistill.folder.layout import RECIPE, UNLISTED
from dpdistill.folder.save import check_output, write_distilled
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.support import classifier_scores
from dpdistill.private.aggregator import LocalAggregator
from dpdistill.private.checks import check_query
from dpdistill.private.curator import Curator
from dpdistill.private.noise import Entropy, SystemEntropy
from dpdistill.programs.self_test import PASSED
from dpdistill.publish.export import write_documents
from dpdistill.publish.report import write_report
from dpdistill.query import Compute, LinearQuery, Params, Query, Release
from dpdistill.recipe.parts import implement
from dpdistill.recipe.saved import changed_releases, check_kind, check_private, recipe_of, slack_of
from dpdistill.run import output_folder
from dpdistill.run.checkpoint import Store
from dpdistill.run.given import check_given, method_for
from dpdistill.run.non_private import NonPrivateCurator
from dpdistill.run.payment import Payment, told
from dpdistill.run.serialize import releases_id
from dpdistill.run.start import check_ledger, check_unit, open_ledger, queries_of
from dpdistill.schema import AnySchema, DataError, schema_from_json
from dpdistill.storage.atomic import write_atomically
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Records
from dpdistill.workers import Workers

LOG = logging.getLogger("dpdistill")
"""What a run says to a program that asks: its public facts and the numbers of its rounds, never of records."""
Watch = Callable[[Query, Params, Release], None]


def _unwatched(query: Query, params: Params, release: Release) -> None:
    """A silent Watch."""


@dataclass(frozen=True)
class Parts:
    """Classes that a run makes its curator and its store of: an audit names subclasses of its own here."""

    curator: Callable[..., Curator] = Curator
    store: Callable[..., Store] = Store


USUAL = Parts()


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
        releases: the same for all sets that are made from the same releases; None where it is not known.
        payment: what the run paid; None where this process paid nothing.
    """

    distilled: Distilled
    recipe: dict
    schedule: Schedule | None
    noise: str | None
    run_dir: Path | None = None
    slack: str | None = None
    backend: str = NOT_STATED
    self_test: str = NOT_STATED
    releases: str | None = None
    payment: Payment | None = None

    def __repr__(self) -> str:
        spent = "infinite" if self.schedule is None else f"{self.schedule.budget.epsilon:g}"
        made = f"{len(self.y)} records of {len(self.distilled.schema.classes)} classes"
        return f"Result({self.recipe['method']}, {made}, epsilon={spent})"

    @property
    def X(self) -> np.ndarray:
        """Synthetic records in the schema's raw units: images (m, h, w, c), float32, or rows (m, columns), float64."""
        return self.distilled.schema.from_unit(self.distilled.X)

    @property
    def y(self) -> np.ndarray:
        """Class indices, (m,), int32."""
        return self.distilled.y

    @property
    def train_set(self) -> tuple[np.ndarray, np.ndarray]:
        """(X, y) that models are trained on, in raw units: the tiles where images are cut into such, else X and y."""
        X, y = self.distilled.train_set
        return self.distilled.schema.from_unit(X), y

    @property
    def epsilon(self) -> float:
        """Returns what was spent at the budget's delta; infinite without a guarantee."""
        return float("inf") if self.schedule is None else self.schedule.epsilon()

    def teacher(self, X: np.ndarray) -> np.ndarray:
        """Scores that the released classifier gives to any pictures, for other models to learn from.

        Args:
            X: in the schema's raw units, (n, h, w, c), n >= 1; nobody's records, or the receiver's own.

        Returns:
            (n, classes), float32, centred over the classes: post-processing, at no further cost.

        Raises:
            ValueError: the method released no classifier, or pictures of another shape.
        """
        made = self.distilled
        if made.classifier is None:
            raise ValueError(f"The method {self.recipe['method']} releases no classifier.")
        if np.ndim(X) != 1 + len(made.schema.shape) or np.shape(X)[1:] != made.schema.shape or not len(X):
            raise ValueError(f"Expected pictures of shape {('n', *made.schema.shape)}, n >= 1; got {np.shape(X)}.")
        scores = classifier_scores(made, made.schema.to_unit(X))
        return scores - scores.mean(1, keepdims=True)

    def save(self, folder: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the folder that may be shared: records, pictures, recipe, certificate, report, catalogue entries.

        Args:
            folder: where; it must not exist, or be empty, unless overwrite.
            overwrite: replace an earlier result of this program.

        Raises:
            DataError: the folder cannot be written.
        """
        with told(self.payment):
            path = self._save(folder, overwrite)
        if self.payment is not None:
            self.payment.saved = path
        LOG.info("%s is written", path)
        return path

    def _save(self, folder: str | os.PathLike, overwrite: bool) -> Path:
        path = check_output(folder, overwrite)
        if self.run_dir is not None and path.resolve() in (self.run_dir.resolve(), *self.run_dir.resolve().parents):
            raise DataError(f"Expected a folder that does not hold the run's own, {self.run_dir}, which is not shared.")
        if output_folder.ends(path, self.run_dir):
            return path
        target = output_folder.start(path)
        for stale in UNLISTED:
            (target / stale).unlink(missing_ok=True)
        write_distilled(target, self.distilled)
        content = recipe_content(self.recipe)
        write_atomically(target / RECIPE, lambda file: file.write(content))
        certificate = build_certificate(
            target,
            schedule=self.schedule,
            recipe=self.recipe,
            schema=self.distilled.schema,
            noise=self.noise or NO_NOISE,
            slack=self.slack,
            backend=self.backend,
            self_test=self.self_test,
            releases=self.releases,
        )
        write_certificate(target, certificate)
        write_documents(target)
        write_report(target)
        output_folder.hand_over(target, path, self.run_dir)
        return path


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
    """Distil private records under a budget: every release is noised, paid for, and never drawn twice.

    Args:
        records: the private records.
        method: a distiller; its fields are the recipe. None for DOS-KIP of images and DP-MERF of tables.
        budget: what may be spent; epsilon 1 at delta 1e-5 under add-or-remove by default.
        seed: fixes everything public; noise and coins never follow it.
        run_dir: the owner's folder: ledger and checkpoints, for resuming; None keeps them in memory.
        ledger: file that composes all runs on a data set, and knows its records and how far each run has come; a run
            that would exceed its cap, reads other records, or has gone on in a copy of run_dir, is refused, and so is
            a file that is missing: `begin_ledger` makes it.
        label: what the owner calls the run in that ledger.
        overwrite: archive the ledger of a finished or another run in run_dir, and pay anew.
        named: the published recipe that the method's fields were taken from, by name: the certificate says so.
        progress: told the number of rounds and steps done.
        watch: told each query, its parameters and what was released: for an audit. It is told of nothing else.
        beside: records that are nobody's, distilled beside the private ones: an audit's canaries. The ledgers are bound
            to the private records alone, so that such a run is never resumed: run_dir must be None.
        entropy: for tests only; what it makes is stamped insecure.
        compute: how many records a compiled program takes at once.
        workers: other processes that hold the records and add up shards of them; None leaves that to this one.
        memory: bytes, or a text such as "4G", that features of records may take; beyond it they lie in a file without
            a name on the disk of run_dir. None takes half of what the machine has.
        parts: classes of the curator and the store: for an audit.

    Returns:
        The result, with X, y, epsilon, and save(folder).

    Raises:
        ValueError: a method that has no private form, `beside` with a run_dir or a unit, or records with units and a
            budget without one, or the other way round.
        TypeError: records, a method or a budget of another type, or a method whose queries are not what it states.
        LedgerError: the run cannot be started or resumed, or the data set's ledger does not take it.

    Guarantee:
        (epsilon, delta)-DP of everything in the result, under the budget's adjacency, for the releases of this run: for
        one record, or, where the budget names a unit, for all records of one unit together.

    Example:
        >>> result = distill(records, DOS(networks=30), Budget(epsilon=1.0))  # doctest: +SKIP
        >>> result.save("shared")  # doctest: +SKIP
    """
    check_given(records, method, budget)
    method = method_for(records, method)
    check_private(method)
    check_kind(method, records.schema)
    if beside is not None and run_dir is not None:
        raise ValueError("Expected run_dir=None with records beside the private ones: such a run is never resumed.")
    budget, folder = budget or Budget(1.0), None if run_dir is None else Path(run_dir)
    check_unit(records, budget)
    if beside is not None and budget.unit is not None:
        raise ValueError("Expected a budget of single records with records beside the private ones: they have no unit.")
    schedule = calibrate(method.plan(), budget)
    entropy = entropy or SystemEntropy()
    # A recipe that does not fit the data or the noise of any stage is refused here, before anything is written.
    asked = queries_of(method, records.schema, seed)
    if isinstance(asked[0][0], LinearQuery) != method.linear:
        raise TypeError(f"Expected {type(method).__name__} to state linear={not method.linear}, as its first query is.")
    for (query, params), noise_multiplier in zip(asked, schedule.noise_multipliers, strict=True):
        check_query(query, params, records.schema, noise_multiplier, rows_per_unit=budget.rows_per_unit)
    recipe = recipe_of(method, seed, named)
    dataset = None if ledger is None else DatasetLedger(ledger)
    identity = {**recipe, "schema": records.schema.to_json(), "noise": entropy.kind}
    LOG.info("%s: %d releases, epsilon %g at delta %g", method.name, schedule.rounds, budget.epsilon, budget.delta)
    whole = records if beside is None else records.joined(beside)
    payment = Payment(budget, folder, None if ledger is None else Path(ledger))
    with told(payment):
        check_ledger(method, budget, ledger, seed=seed, run_dir=run_dir, overwrite=overwrite, named=named)
        with ExitStack() as stack:
            opened = open_ledger(records, identity, schedule, folder, dataset, label, overwrite, payment)
            run_ledger = stack.enter_context(opened)
            holders = stack.enter_context((workers or Workers()).holders(folder))
            space = Memory.of(memory, folder)
            curator = parts.curator(whole, schedule, run_ledger, entropy, compute, space, holders or LocalAggregator)
            store, earlier = parts.store(folder, run_ledger.run_id, run_ledger), len(run_ledger.events())
            state = run_rounds(method, curator, store, schedule.rounds, seed, records.schema, progress, watch)
        payment.released, noise = True, curator.noise_kind
        del curator  # features of records: the set takes memory of its own
        distilled, name = method.finish(state, records.schema, progress), releases_id(run_ledger.run_id, state)
    on = _machine(workers, earlier)
    stated = {"slack": slack_of(method), "backend": on, "self_test": PASSED, "releases": name, "payment": payment}
    return Result(distilled, recipe, schedule, noise, folder, **stated)


def distill_without_privacy(
    records: Records, method: Method, *, seed: int = 0, named: str | None = None, progress: Progress = no_progress
) -> Result:
    """The same method on plain sums: epsilon is infinite, and everything that is written says so.

    Args:
        records: records that need no protection.
        method: a distiller.
        seed: fixes everything.
        named: the published recipe that the method's fields were taken from, by name.
        progress: told the number of rounds and steps done.

    Raises:
        ValueError: a method for images on a table.
        TypeError: records or a method of another type.
    """
    check_given(records, method)
    method = method_for(records, method)
    check_kind(method, records.schema)
    probs = [stage.sampling_prob for stage in method.plan() for _ in range(stage.rounds)]
    curator = NonPrivateCurator(records, probs, seed)
    state = run_rounds(method, curator, Store(None), len(probs), seed, records.schema, progress)
    del curator  # features of records: the set takes memory of its own
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
    """Another synthetic set from releases that are paid for: more records a class, other steps; it costs nothing.

    Args:
        run_dir: the owner's folder of a run whose rounds are all released.
        method: the run's method; only fields that `finish` reads may differ.
        budget: if stated, it must be the one that was paid.
        named: the published recipe that fields which differ from the run's were taken from; None for the run's own.
        progress: told the number of steps done.

    Raises:
        LedgerError: the run is not complete, or its releases do not fit the recipe.
    """
    folder, method = Path(run_dir), implement(method, Method)
    run = RunLedger.read(folder)
    changed = changed_releases(method, run.recipe)
    if changed:
        raise LedgerError(f"The releases of this run were made with another {', '.join(changed)}: they do not fit.")
    if budget is not None and budget != run.schedule.budget:
        raise LedgerError("The releases of this run were paid with another budget: leave epsilon and delta out.")
    schema, seed = schema_from_json(run.recipe["schema"]), run.recipe["seed"]
    like = method.init(jax.random.key(seed), schema)
    t, state = Store(folder, run.run_id).load(like)
    if t != run.schedule.rounds or len(run.events) != t:
        raise LedgerError("This run is not complete: resume it with the command that started it.")
    distilled = method.finish(state, schema, progress)
    said = dict.fromkeys(("backend", "self_test"), OF_THE_RELEASES)
    stated = {"slack": slack_of(method), **said, "releases": releases_id(run.run_id, state)}
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
    """The loop: ask, release, tell. The line with `curator.release` is the only one that touches private records."""
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


def _machine(workers: Workers | None, earlier: int) -> str:
    """Returns what the releases were computed on, as far as this process knows.

    Other machines of a Ray cluster do not tell, nor does the ledger of rounds before the run was started again.
    """
    elsewhere = workers is not None and workers.ray not in (None, "local")
    cluster = "; its sums on machines of a Ray cluster, not stated"
    # Not how many: under a time limit that would tell how long a round takes, and so how many records there are.
    some = "; of its rounds before it was started again, not stated"
    return backend() + cluster * elsewhere + some * (earlier > 0)


def backend() -> str:
    """Returns what this process computes on, in words: "cpu", "gpu (NVIDIA H200)"."""
    name, kind = jax.default_backend(), jax.devices()[0].device_kind
    return name if kind == name else f"{name} ({kind})"
