"""Forecasts runs, distils records, and finishes runs again from their releases."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.checks import check_method, check_settings
from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import Account, BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.api.prepare import chosen_recipe, how_paid, prepared, promised_plan, state_outlook
from dpdistill.api.reading import check_source, read_public_images
from dpdistill.api.request import Request, Terms
from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget
    from dpdistill.method import Method, Progress
    from dpdistill.run.forecast import Capacity, Outlook
    from dpdistill.run.result import Result
    from dpdistill.storage.records import Records
    from dpdistill.workers import Workers


@dataclass(frozen=True)
class Plan:
    """Forecast of a run: its noise, seconds, memory and disk.

    Args:
        outlook: releases and size of the noise; None without a budget.
        capacity: seconds, memory and disk, counted, not measured; for the owner of the records alone.
        records: number of records; this field and the following ones are for the owner alone.
        memory: bytes that the run needs.
        unused: number of records that cannot be used.
        units: number of units (persons), or None.
    """

    outlook: Outlook | None
    capacity: Capacity
    records: int
    memory: int
    unused: int
    units: int | None


def plan(
    data: Any,
    method: Method | RecipeChoice | str | None = None,
    budget: Budget | BudgetChoice | None = None,
    *,
    records: int | None = None,
    reading: Reading = Reading(),
    persons: Persons = Persons(),
    machine: Machine = Machine(),
    account: Account = Account(),
    out: str | os.PathLike | None = None,
    private: bool = True,
    listener: Listener = SILENT,
) -> Plan:
    """Returns a forecast of a run's noise, time, memory and disk; nothing is paid.

    Args:
        data: as `distill` takes it.
        method: as `distill` takes it.
        budget: as `distill` takes it.
        reading: as `distill` takes it.
        persons: as `distill` takes it.
        machine: as `distill` takes it.
        account: as `distill` takes it.
        out: as `distill` takes it.
        records: number of records, if public; counted by default.
        private: False for a run without a guarantee.
        listener: receives notes and warnings.

    Raises:
        DataError: anything that the run would refuse.

    Example:
        >>> plan("digits:train", "dos-kip", Budget(1.0))  # doctest: +SKIP
    """
    request = _request(
        data, method, budget, reading=reading, persons=persons, machine=machine, account=account, out=out,
        private=private,
    )  # fmt: skip
    terms = Terms.of(request)
    path = None if out is None else _output(request)[0]
    terms.caution(listener)
    check_source(request.data, reading.table, reading.sql)
    if terms.budget is not None and not request.by_channels:
        from dpdistill.accounting.schedule import calibrate

        listener.scheduled(calibrate(promised_plan(request, terms), terms.budget))
    method, held, _ = prepared(request, terms, how_paid(request, terms, path), listener)
    if terms.budget is not None and request.by_channels:
        from dpdistill.accounting.schedule import calibrate

        listener.scheduled(calibrate(method.plan(), terms.budget))
    class_size = account.class_size
    if class_size is None and records is not None:
        class_size = max(1, records // len(held.schema.classes))
    with listener.working("counting the work of the run"):
        from dpdistill.run.dry_run import dry_run
        from dpdistill.run.forecast import capacity

        with dry_run():  # shapes and noise follow from no number that a program computes
            outlook = state_outlook(request, terms, method, held, class_size, listener)
        schedule = None if outlook is None else outlook.schedule
        found = capacity(method, held.schema, max(1, records or len(held)), schedule)
    record = held.X.itemsize * math.prod(held.schema.raw_shape)
    memory = found.memory + max(0, found.records - len(held)) * record
    return Plan(outlook, found, len(held), memory, *_unused(held))


def distill(
    data: Any,
    method: Method | RecipeChoice | str | None = None,
    budget: Budget | BudgetChoice | None = None,
    *,
    reading: Reading = Reading(),
    persons: Persons = Persons(),
    machine: Machine = Machine(),
    seed: int | None = None,
    ledger: str | os.PathLike | None = None,
    overwrite: bool = False,
    class_size: int | None = None,
    out: str | os.PathLike | None = None,
    run_dir: str | os.PathLike | None = None,
    label: str | None = None,
    title: str | None = None,
    private: bool = True,
    progress: Progress | None = None,
    listener: Listener = SILENT,
) -> Result:
    """Distils private records under a budget: every release is noised and paid, and its noise is drawn once.

    Args:
        data: the private records: `Records`, a path, a frame or a data set object.
        method: a distiller, whose fields are the recipe; the name of a method or of a published recipe, or a .yaml
            file; or both with changes (`RecipeChoice`). None for DOS-KIP of images and DP-MERF of tables.
        budget: the budget; missing parts are the recipe's, or epsilon 1 at delta 1e-5 under add-or-remove.
        reading: options of reading, if the records are not `Records`.
        persons: unit of privacy, where the budget does not name one.
        machine: computing resources.
        seed: seed of everything public, never of noise and coins; None for 0.
        ledger: file that composes all runs on a data set; refuses a run that would exceed its cap. `begin_ledger`
            creates the file.
        overwrite: replace an earlier result, and pay for a new run.
        class_size: number of records of a class, if public.
        out: the folder for the result, which may be shared; None leaves writing to `Result.save`.
        run_dir: the owner's folder with ledger and checkpoints, for resuming; by default DIR.run of `out`, or memory.
        label: name of the run in the ledger; the name of `out` by default.
        title: heading of the page in `out`; its classes by default.
        private: False for a run without noise, whose epsilon is infinite (`distill_without_privacy`).
        progress: called with the stage, the number of steps done and their total.
        listener: receives notes, warnings and progress; logs warnings by default.

    Returns:
        The result, with X, y, epsilon and save(folder).

    Raises:
        DataError, ValueError, TypeError: records, a recipe or a budget that cannot be used; nothing was paid.
        LedgerError: the run cannot be started or resumed, or the data set's ledger refuses the run.

    Guarantee:
        (epsilon, delta)-DP of everything in the result, under the budget's adjacency, for the releases of this run: for
        one record, or, where the budget names a unit, for all records of one unit together.

    Example:
        >>> distill(records, DOS(networks=30), Budget(epsilon=1.0))  # doctest: +SKIP
        >>> distill("scans/", "dos-kip", out="shared", reading=Reading(resize=32))  # doctest: +SKIP
    """
    account = Account(ledger=ledger, overwrite=overwrite, seed=seed, class_size=class_size)
    request = _request(
        data, method, budget, reading=reading, persons=persons, machine=machine, account=account, out=out,
        run_dir=run_dir, label=label, private=private,
    )  # fmt: skip
    _check_title(title, out)
    return _run(request, listener if progress is None else Listener(progress), title)


def distill_without_privacy(
    data: Any,
    method: Method | RecipeChoice | str,
    *,
    reading: Reading = Reading(),
    machine: Machine = Machine(),
    seed: int | None = None,
    overwrite: bool = False,
    out: str | os.PathLike | None = None,
    progress: Progress | None = None,
    listener: Listener = SILENT,
) -> Result:
    """Distils records without noise: epsilon is infinite, and every written file states that.

    Args:
        data: records that need no protection.
        method: as `distill` takes it.
        reading: as `distill` takes it.
        machine: as `distill` takes it.
        seed: as `distill` takes it.
        overwrite: as `distill` takes it.
        out: as `distill` takes it.
        progress: as `distill` takes it.
        listener: as `distill` takes it.

    Returns:
        The result, without a guarantee.

    Raises:
        DataError, ValueError, TypeError: records or a recipe that cannot be used.
    """
    how = {"reading": reading, "machine": machine, "seed": seed, "overwrite": overwrite, "out": out}
    return distill(data, method, private=False, progress=progress, listener=listener, **how)


def finish_again(
    run_dir: str | os.PathLike,
    method: Method | RecipeChoice | str | None = None,
    budget: Budget | BudgetChoice | None = None,
    *,
    out: str | os.PathLike | None = None,
    overwrite: bool = False,
    title: str | None = None,
    progress: Progress | None = None,
    listener: Listener = SILENT,
) -> Result:
    """Returns another synthetic set from the releases of a finished run, at no further cost.

    Args:
        run_dir: the owner's folder of the run, DIR.run.
        method: changes to its recipe, in fields that do not shape releases; None for the run's recipe.
        budget: must equal the budget that was paid, if stated.
        out: the folder for the result, or None.
        overwrite: replace an earlier result.
        title: heading of the page in `out`; its classes by default.
        progress: called with the stage, the number of steps done and their total.
        listener: receives notes, warnings and progress.

    Raises:
        DataError: a folder without a run, or a field that shapes releases.
        LedgerError: the run is not complete, or its releases do not fit the recipe.
    """
    listener = listener if progress is None else Listener(progress)
    _check_title(title, out)
    choice, made = chosen_recipe(method)
    if choice.purpose is not None:
        raise DataError("A run determines its method: leave out --for with --from.")
    check_method(choice.method)
    if choice.public is not None:
        check_source(choice.public, table=False)
    from dpdistill.run.output_folder import output_folder

    path, replaces = (None, False) if out is None else output_folder(out, overwrite)
    _check_owners(run_dir)
    from dpdistill.ledger.run import RunLedger

    paid = RunLedger.read(Path(run_dir))
    if made is None:
        straighten = choice.public is not None and paid.recipe["schema"].get("straightened", False)
        images = read_public_images(choice.public, None, None, straighten, listener)
        check_settings(choice.method or paid.recipe["method"], choice.settings, choice.per_class)
        from dpdistill.api.recipes import build_again

        made = build_again(run_dir, choice.method, choice.settings, per_class=choice.per_class, public_images=images)
    from dpdistill.run import driver

    if isinstance(budget, BudgetChoice):
        budget = replace(paid.schedule.budget, **budget.stated) if budget.stated else None
    with listener.progress() as report:
        result = driver.finish_again(run_dir, made, budget=budget, progress=report)
    return _saved(result, path, replaces, listener, title)


def _request(data: Any, method: Any, budget: Any, **stated: Any) -> Request:
    choice, made = chosen_recipe(method)
    return Request(data=data, choice=choice, method=made, budget=budget or BudgetChoice(), **stated)


def _run(request: Request, listener: Listener, title: str | None) -> Result:
    terms = Terms.of(request)
    path, replaces = (None, False) if request.out is None else _output(request)
    terms.caution(listener)
    paid = how_paid(request, terms, path)
    if terms.budget is not None:
        from dpdistill.ledger.store import ledger_name
        from dpdistill.run import payment

        payment.expect(payment.Payment(terms.budget, paid["run_dir"], ledger_name(request.account.ledger)))
    method, records, paid = prepared(request, terms, paid, listener)
    if terms.budget is not None:
        from dpdistill.accounting.schedule import calibrate

        listener.scheduled(calibrate(method.plan(), terms.budget))
    state_outlook(request, terms, method, records, request.account.class_size, listener)
    from dpdistill.run import driver

    with listener.progress() as progress:
        if terms.budget is None:
            kept = {"seed": paid["seed"], "named": paid["named"]}
            result = driver.distill_without_privacy(records, method, **kept, progress=progress)
        else:
            how = {"workers": _workers(request.machine), "memory": request.machine.memory, "progress": progress}
            label = (path.name if path else "") if request.label is None else request.label
            result = driver.distill(records, method, terms.budget, label=label, **how, **paid)
    return _saved(result, path, replaces, listener, title)


def _check_title(title: str | None, out: str | os.PathLike | None) -> None:
    """Refuses a title that the page cannot show, before anything is paid, and a title without a page."""
    if title is None:
        return
    from dpdistill.publish.report.title import check_title

    check_title(title)
    if out is None:
        raise DataError(f"Expected out, the folder for the result, with title={title!r}.")


def _output(request: Request) -> tuple[Path, bool]:
    """Returns (folder for the result, True if an earlier result may be replaced)."""
    from dpdistill.run.output_folder import output_folder

    assert request.out is not None
    return output_folder(request.out, request.account.overwrite)


def _saved(result: Result, path: Path | None, replaces: bool, listener: Listener, title: str | None) -> Result:
    if path is not None:
        with listener.working("writing the certificate and the report"):
            result.save(path, replaces, title)
    return result


def _unused(records: Records) -> tuple[int, int | None]:
    """Returns (number of unusable records, number of units or None)."""
    import numpy as np

    unused = int(np.count_nonzero(np.asarray(records.y) < 0))
    if records.units is None:
        return unused, None
    units = np.asarray(records.units)
    return unused, len(np.unique(units[units >= 0]))


def _workers(machine: Machine) -> Workers:
    """Returns the workers of a run, with one shard per worker where they read from a shared store."""
    from dpdistill.workers import Workers

    count = machine.workers or 0
    return Workers(count, machine.ray, machine.share, max(1, count) if machine.share else 1)


def _check_owners(run_dir: str | os.PathLike) -> None:
    """Refuses the folder that may be shared: releases lie in the owner's folder next to it."""
    from dpdistill.folder.layout import CERTIFICATE

    if (Path(run_dir) / CERTIFICATE).is_file():
        raise DataError(f"Expected --from with the owner's folder {run_dir}.run; got {run_dir}, which may be shared.")
