"""Runs: `plan` forecasts one, `distill` makes it, `finish_again` uses its releases once more."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.checks import check_method, check_settings
from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import Account, BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.api.prepare import chosen_recipe, how_paid, prepared, state_outlook
from dpdistill.api.reading import check_source, read_public_images
from dpdistill.api.request import Request, Terms
from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget
    from dpdistill.method import Method, Progress
    from dpdistill.run.capacity import Capacity
    from dpdistill.run.driver import Result
    from dpdistill.run.outlook import Outlook
    from dpdistill.storage.records import Records
    from dpdistill.workers import Workers


@dataclass(frozen=True)
class Plan:
    """Forecast of a run: its noise, seconds, memory and disk.

    Args:
        outlook: its releases, and how large the noise is; None without a budget.
        capacity: seconds, memory and disk, for the owner of the records alone; they were measured on random records.
        records: how many records there are; this and what follows are for their owner alone.
        memory: bytes that the run needs.
        unused: records that cannot be used.
        units: how many units (persons) there are, or None.
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
    """Returns what a run would cost, show and take on this machine; nothing is paid.

    Args:
        data, method, budget, reading, persons, machine, account, out: as `distill` takes them.
        records: how many records there are, if that is public; counted if left out.
        private: False for a run without a guarantee.
        listener: receives notes and warnings.

    Raises:
        DataError: what the run would refuse.

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
    method, held = prepared(request, terms, how_paid(request, terms, path), listener)
    class_size = account.class_size
    if class_size is None and records is not None:
        class_size = max(1, records // len(held.schema.classes))
    outlook = state_outlook(request, terms, method, held, class_size, listener)
    with listener.working("timing the method on random records"):
        from dpdistill.run.capacity import capacity

        schedule = None if outlook is None else outlook.schedule
        found = capacity(method, held.schema, max(1, records or len(held)), schedule, account.seed or 0)
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
    private: bool = True,
    progress: Progress | None = None,
    listener: Listener = SILENT,
) -> Result:
    """Distils private records under a budget: every release is noised, paid for, and never drawn twice.

    Args:
        data: the private records: `Records`, a path, a frame or a data set that a program holds.
        method: a distiller, whose fields are the recipe; the name of a method or of a published recipe, or a .yaml
            file; or both with changes (`RecipeChoice`). None for DOS-KIP of images and DP-MERF of tables.
        budget: what may be spent; what is left out is the recipe's, or epsilon 1 at delta 1e-5 under add-or-remove.
        reading: how the records are read, if they are not `Records`.
        persons: whom the run protects, where the budget does not name a unit.
        machine: what it computes on.
        seed: fixes everything public; noise and coins never follow it. None for 0.
        ledger: file that composes all runs on a data set; a run that would exceed its cap is refused, and so is a file
            that is missing: `begin_ledger` makes it.
        overwrite: replace an earlier result, and pay for a new run.
        class_size: records of a class, if that is public.
        out: the folder for the result, which may be shared; None leaves that to `Result.save`.
        run_dir: the owner's folder: ledger and checkpoints, for resuming; DIR.run of `out`, or in memory, if left out.
        label: what the owner calls the run in the ledger; the name of `out` if left out.
        private: False for a run without noise, whose epsilon is infinite (`distill_without_privacy`).
        progress: called with the stage, the number of steps done and their total.
        listener: receives notes, warnings and progress; warnings are logged if left out.

    Returns:
        The result, with X, y, epsilon and save(folder).

    Raises:
        DataError, ValueError, TypeError: records, a recipe or a budget that cannot be used; nothing was paid.
        LedgerError: the run cannot be started or resumed, or the data set's ledger does not take it.

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
    return _run(request, listener if progress is None else Listener(progress))


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
    """Distils records on plain sums: epsilon is infinite, and everything that is written says so.

    Args:
        data: records that need no protection.
        method, reading, machine, seed, overwrite, out, progress, listener: as `distill` takes them.

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
    progress: Progress | None = None,
    listener: Listener = SILENT,
) -> Result:
    """Returns another synthetic set from the releases of a finished run: more records per class, other steps. Free.

    Args:
        run_dir: the owner's folder of the run, DIR.run.
        method: what changes of its recipe, in fields that shape no release; None for the run's.
        budget: if stated, it must be what was paid.
        out: the folder for the result, or None.
        overwrite: replace an earlier result.
        progress: called with the stage, the number of steps done and their total.
        listener: receives notes, warnings and progress.

    Raises:
        DataError: a folder that is no run's, or a field that shapes releases.
        LedgerError: the run is not complete, or its releases do not fit the recipe.
    """
    listener = listener if progress is None else Listener(progress)
    choice, made = chosen_recipe(method)
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
    return _saved(result, path, replaces, listener)


def _request(data: Any, method: Any, budget: Any, **stated: Any) -> Request:
    choice, made = chosen_recipe(method)
    return Request(data=data, choice=choice, method=made, budget=budget or BudgetChoice(), **stated)


def _run(request: Request, listener: Listener) -> Result:
    terms = Terms.of(request)
    path, replaces = (None, False) if request.out is None else _output(request)
    terms.caution(listener)
    paid = how_paid(request, terms, path)
    if terms.budget is not None:
        from dpdistill.run import payment

        ledger = request.account.ledger
        payment.expect(payment.Payment(terms.budget, paid["run_dir"], None if ledger is None else Path(ledger)))
    method, records = prepared(request, terms, paid, listener)
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
    return _saved(result, path, replaces, listener)


def _output(request: Request) -> tuple[Path, bool]:
    """Returns (the folder for the result, whether what is there may be replaced)."""
    from dpdistill.run.output_folder import output_folder

    assert request.out is not None
    return output_folder(request.out, request.account.overwrite)


def _saved(result: Result, path: Path | None, replaces: bool, listener: Listener) -> Result:
    if path is not None:
        with listener.working("writing the certificate and the report"):
            result.save(path, replaces)
    return result


def _unused(records: Records) -> tuple[int, int | None]:
    """Returns (how many records are of no use, how many units there are or None)."""
    import numpy as np

    unused = int(np.count_nonzero(np.asarray(records.y) < 0))
    if records.units is None:
        return unused, None
    units = np.asarray(records.units)
    return unused, len(np.unique(units[units >= 0]))


def _workers(machine: Machine) -> Workers:
    """Returns who adds up the sums of a run: as many parts as workers where they fetch the records from a store."""
    from dpdistill.workers import Workers

    count = machine.workers or 0
    return Workers(count, machine.ray, machine.share, max(1, count) if machine.share else 1)


def _check_owners(run_dir: str | os.PathLike) -> None:
    """Refuses the folder that may be shared: the releases lie in the folder next to it."""
    from dpdistill.folder.layout import CERTIFICATE

    if (Path(run_dir) / CERTIFICATE).is_file():
        raise DataError(f"{run_dir} is a folder that may be shared: --from takes its owner's folder, {run_dir}.run.")
