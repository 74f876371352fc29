"""Audits: attacks and comparisons with the private records, for the owner alone; epsilon does not cover them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.audit_inputs import Place, has_private_form, paid_for, prepare, read_as
from dpdistill.api.audit_options import ALL_RECORDS, MemberReading
from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import Account, BudgetChoice, Reading, RecipeChoice
from dpdistill.api.prepare import chosen_recipe
from dpdistill.api.reading import check_source
from dpdistill.folder.save import audit_folder, read_distilled
from dpdistill.recipe import choices
from dpdistill.recipe.names import check_names
from dpdistill.schema import DataError, TableSchema

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget
    from dpdistill.audits.results import MethodAudit, RunAudit, SetAudit, ShadowAudit
    from dpdistill.method import Method
    from dpdistill.run.result import Result
    from dpdistill.storage.records import Records


def audit(
    folder: Place,
    members: Any = None,
    non_members: Any = None,
    *,
    reading: MemberReading = MemberReading(),
    out: Place | None = None,
    listener: Listener = SILENT,
) -> SetAudit:
    """Compares a synthetic set with its private records, and runs membership attacks.

    Args:
        folder: a folder that `distill` wrote.
        members: records used in the run: `Records`, a path, or a frame.
        non_members: records of the same kind that the run did not use; for a table, None skips the attack.
        reading: options of reading the records.
        out: the owner's page is written to OUT.audit; None leaves that to `save` of the result.
        listener: receives notes.

    Returns:
        Marginals of a table, and the rates of membership attacks.

    Raises:
        DataError: a folder or records that cannot be read, or records of a different kind than the set.

    Guarantee: none: this reads the private records.

    Example:
        >>> audit("shared", "train.csv", reading=MemberReading(schema="schema.yaml"))  # doctest: +SKIP
    """
    distilled = read_distilled(folder)
    if out is not None:
        audit_folder(out)
    facts, table = distilled.schema, isinstance(distilled.schema, TableSchema)
    if members is None or (non_members is None and not table):
        raise DataError("Expected --members DATA, and for images also --non-members DATA: records to compare with.")
    if non_members is None and reading.non_members_sql is not None:
        raise DataError("Expected --non-members with --non-members-sql.")
    sources = [(members, "train", reading.sql)]
    sources += [] if non_members is None else [(non_members, "test", reading.non_members_sql)]
    for data, _, sql in sources:
        if isinstance(data, str | os.PathLike):
            check_source(data, table, sql)
    with listener.working("reading the records"):
        read = [read_as(facts, data, part, sql, reading, listener) for data, part, sql in sources]
        others = read[1] if len(read) > 1 else None
    # Unreadable records are refused before JAX is imported, which takes seconds.
    from dpdistill.audits.results import compare_set

    with listener.working("attacking"):
        found = compare_set(Path(folder).name, distilled, read[0], others, paid_for(folder))
    if out is not None:
        found.save(out)
    return found


def audit_run(
    data: Any,
    method: Method | RecipeChoice | str | None = None,
    budget: Budget | BudgetChoice | None = None,
    *,
    canaries: int = 1000,
    leak: str | None = None,
    reading: Reading = Reading(),
    seed: int | None = None,
    ledger: Place | None = None,
    out: Place | None = None,
    listener: Listener = SILENT,
) -> RunAudit:
    """Distils records and canaries, and bounds epsilon from below by an attacker's guesses about the canaries.

    The audit is a run and spends its budget. Never share its synthetic set: canaries contributed to it.

    Args:
        data: as `distill` takes it.
        method: as `distill` takes it.
        budget: as `distill` takes it; for single records and add-remove.
        reading: as `distill` takes it.
        seed: as `distill` takes it.
        ledger: as `distill` takes it.
        canaries: number of random records, >= 100; each enters the run by a fair coin.
        leak: name of a defect to plant, "noised-again", "same-noise" or "real-start", to test that it is detected.
        out: the owner's page is written to OUT.audit; None leaves that to `save` of the result.
        listener: receives notes, warnings and progress.

    Returns:
        The bounds, with the guesses.

    Raises:
        DataError, ValueError: records, a recipe or a budget that cannot be audited; nothing was paid.
        LedgerError: the data set's ledger refuses the run.

    Guarantee: none for the bounds, which come from the private records; the run itself is paid for.
    Source: Steinke, Nasr & Jagielski, 2023 (Privacy auditing with one training run).

    Example:
        >>> audit_run("digits:train", "dp-merf", Budget(1.0)).bound  # doctest: +SKIP
    """
    check_names("leak", [] if leak is None else [leak], choices.LEAKS)
    account = Account(seed=seed, ledger=ledger)
    ready = prepare(data, *chosen_recipe(method), budget, reading, account, out, listener)
    from dpdistill import run
    from dpdistill.audits.canaries import audit_one_run
    from dpdistill.audits.leaks import LEAKS
    from dpdistill.audits.results import RunAudit

    assert ready.budget is not None
    how = {"canaries": canaries, "seed": seed or 0, "ledger": ledger}
    distill = run.distill if leak is None else LEAKS[leak]
    with listener.progress() as report:
        one_run = audit_one_run(ready.records, ready.method, ready.budget, distill=distill, progress=report, **how)
    found = RunAudit.of(one_run, leak)
    if out is not None:
        found.save(out)
    return found


def audit_shadows(
    data: Any,
    method: Method | RecipeChoice | str | None = None,
    budget: Budget | BudgetChoice | None = None,
    *,
    runs: int = 16,
    private: bool = True,
    reading: Reading = Reading(),
    seed: int | None = None,
    out: Place | None = None,
    listener: Listener = SILENT,
) -> ShadowAudit:
    """Distils random halves of the records many times, and attacks membership in each half by a likelihood ratio.

    Args:
        data: as `distill` takes it.
        method: as `distill` takes it.
        budget: as `distill` takes it; for single records.
        reading: as `distill` takes it.
        seed: as `distill` takes it.
        runs: number of runs, each on half of the records; at least 4.
        private: False for runs without noise; a method without a private form always runs without noise.
        out: the owner's page is written to OUT.audit; None leaves that to `save` of the result.
        listener: receives notes, warnings and progress.

    Returns:
        Rates of each attack, over all runs.

    Raises:
        DataError, ValueError: records, a recipe or a budget that cannot be used.

    Guarantee: none: the runs spend no budget, and their sets are not returned.
    Source: Carlini et al., 2022 (Membership inference attacks from first principles).

    Example:
        >>> audit_shadows("digits:train", "kip", runs=4)  # doctest: +SKIP
    """
    choice, given = chosen_recipe(method)
    if private and not has_private_form(choice, given, data, reading):
        private, budget = False, None
    ready = prepare(data, choice, given, budget, reading, Account(seed=seed), out, listener, private)
    from dpdistill.accounting.schedule import calibrate
    from dpdistill.audits.results import ShadowAudit
    from dpdistill.audits.shadows import attack_by_shadows

    schedule = None if ready.budget is None else calibrate(ready.method.plan(), ready.budget)
    with listener.progress() as report:
        rates = attack_by_shadows(ready.records, ready.method, ready.budget, runs=runs, seed=seed or 0, progress=report)
    found = ShadowAudit(ready.method.name, runs, rates, schedule)
    if out is not None:
        found.save(out)
    return found


def audit_method(
    data: Any,
    method: Method | Callable[[Records], Method] | RecipeChoice | str | None = None,
    budget: Budget | BudgetChoice | None = None,
    *,
    chosen: int | Iterable[int] | str = 3,
    fresh: bool = True,
    distill: Callable[..., Result] | None = None,
    reading: Reading = Reading(),
    seed: int | None = None,
    out: Place | None = None,
    listener: Listener = SILENT,
) -> MethodAudit:
    """Replays a run on changed records with the same releases, and compares everything that the run returns.

    Args:
        data: as `distill` takes it.
        budget: as `distill` takes it; for single records.
        reading: as `distill` takes it.
        seed: as `distill` takes it.
        method: as `distill` takes it; or a function of records that makes a method, which is called anew for every
            replay; or "FILE.py:NAME" or "MODULE:NAME" of either.
        chosen: records to remove and replace one by one: their number, their indices, or "all".
        fresh: replay in a new process as well.
        distill: called instead of `dpdistill.run.distill`; it must pass its keyword arguments on to that function.
        out: the owner's page is written to OUT.audit; None leaves that to `save` of the result.
        listener: receives notes, warnings and progress.

    Returns:
        Everything tried, with its results; `found` is True if there is a leak.

    Raises:
        DataError, ValueError: records, a method or a budget that cannot be used, or indices out of range.

    Guarantee: none: this reads the private records.
    Source: after dp-recorder (arXiv 2602.17454).

    Example:
        >>> print(audit_method("digits:train", "dos", chosen=10))  # doctest: +SKIP
    """
    if isinstance(chosen, str) and chosen != ALL_RECORDS:
        raise DataError(f"Expected chosen as a number of records, indices or {ALL_RECORDS!r}; got {chosen!r}.")
    choice, given = chosen_recipe(method)  # type: ignore[arg-type]  # a function is passed on
    ready = prepare(data, choice, given, budget, reading, Account(seed=seed), out, listener, own=True)
    if not len(ready.records):
        raise DataError(f"Expected at least one record to remove; {data} has none.")
    from dpdistill import run
    from dpdistill.audits.method_audit import replay_method
    from dpdistill.audits.results import MethodAudit

    assert ready.budget is not None
    files = [os.fspath(data)] if isinstance(data, str | os.PathLike) and Path(data).exists() else []
    tried = len(ready.records) if isinstance(chosen, str) else chosen
    with listener.progress() as report:
        replays = replay_method(
            ready.records, ready.method, ready.budget, chosen=tried, seed=seed or 0, distill=distill or run.distill,
            fresh=fresh, private_files=files, progress=report,
        )  # fmt: skip
    found = MethodAudit.of(replays, ready.name)
    if out is not None:
        found.save(out)
    return found
