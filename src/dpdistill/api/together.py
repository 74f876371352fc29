"""Several owners distil one set: the plan, the coordinator and an owner."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget
    from dpdistill.certificate.check import Check
    from dpdistill.method import Method
    from dpdistill.run.result import Result
    from dpdistill.storage.records import Records
    from dpdistill.together.plan import TogetherPlan

PLAN = "plan.json"
"""File of the plan in the coordinator's folder, DIR.run."""
PORT = 9474


def together_plan(
    out: str | os.PathLike,
    owners: Mapping[str, tuple[str | os.PathLike, int]],
    schema: AnySchema,
    method: Method | RecipeChoice | str | None = None,
    budget: Budget | None = None,
    *,
    dropouts: int | None = None,
    colluders: int = 1,
    persons_at: int = 1,
    pace: float = 1.0,
    address: str = f"localhost:{PORT}",
    seed: int = 0,
) -> tuple[TogetherPlan, Path]:
    """Makes the plan of a run of several owners, and the coordinator's TLS key; nothing is asked or paid.

    Args:
        out: the folder for the result; the plan is in DIR.run next to it. Every owner gets a copy of the plan.
        owners: at least three: by name, the file of a public key (`new_key`) and a public number that the owner's
            number of records does not exceed.
        schema: public facts of all owners' records.
        method: the recipe, as `distill` takes it.
        budget: the budget; epsilon 1 at delta 1e-5 by default.
        dropouts: d, owners that may be missing in a round; by default 0 of three owners, 1 of more.
        colluders: c, owners that may collude with the coordinator.
        persons_at: largest number of owners at which one person may have records.
        pace: seconds; answers leave an owner at whole multiples of it.
        address: host:port of the coordinator, for owners.
        seed: seed of everything public.

    Returns:
        The plan, and the path of its file.

    Raises:
        DataError: a plan that is not accepted, such as n <= 2d + c owners, or one that exists already.

    Example:
        >>> together_plan("shared", {"a": ("a.pub", 2000), "b": ("b.pub", 2000), "c": ("c.pub", 2000)}, schema)
        ... # doctest: +SKIP
    """
    from dpdistill.accounting.noise_shares import default_dropouts
    from dpdistill.accounting.schedule import Budget, calibrate
    from dpdistill.folder.layout import owner_folder
    from dpdistill.folder.save import check_output
    from dpdistill.recipe.saved import check_kind, recipe_of
    from dpdistill.together.plan import PlanOwner, TogetherPlan
    from dpdistill.together.tls import new_certificate, split_address

    made, named = _method(method, schema)
    check_kind(made, schema)
    folder = owner_folder(check_output(out))
    split_address(address)
    if (folder / PLAN).exists():
        raise DataError(f"There is a plan at {folder / PLAN}: a plan is never replaced; name another folder.")
    facts = {name: value for name, value in schema.to_json().items() if name != "inferred"}
    plan = TogetherPlan.new(
        recipe=recipe_of(made, seed, named),
        schema=facts,
        schedule=calibrate(made.plan(), budget or Budget(1.0)),
        owners=tuple(PlanOwner(name, _public(owners[name][0]), owners[name][1]) for name in sorted(owners)),
        dropouts=default_dropouts(len(owners)) if dropouts is None else dropouts,
        colluders=colluders,
        persons_at=persons_at,
        pace=float(pace),
        address=address,
        certificate=new_certificate(folder),
    )
    plan.write(folder / PLAN)
    return plan, folder / PLAN


def together_serve(
    out: str | os.PathLike,
    *,
    listen: str | None = None,
    patience: float = 600.0,
    wait: float = 86400.0,
    title: str | None = None,
    listener: Listener = SILENT,
) -> Result:
    """Coordinates the run of a plan until its result is in a folder; the same call resumes it.

    Args:
        out: the folder for the result, for which the plan was made.
        listen: host:port to listen on; the plan's address by default.
        patience: seconds to wait for the answers of a round before a shorter list of owners is tried.
        wait: seconds to wait for owners before the run stops.
        title: heading of the page; its classes by default.
        listener: receives notes and progress.

    Returns:
        The result, which is saved.

    Raises:
        DataError: no plan, or an address that cannot be used.
        CuratorError: an owner that refused, sent garbage or did not come in time.
        LedgerError: another process coordinates this run.
    """
    from dpdistill.folder.layout import owner_folder
    from dpdistill.run.output_folder import output_folder
    from dpdistill.together.plan import TogetherPlan
    from dpdistill.together.serve import serve

    path, replaces = output_folder(out)
    folder = owner_folder(path)
    plan = TogetherPlan.read(folder / PLAN)
    for sentence in plan.sentences():
        listener.note(sentence)

    def listening(port: int) -> None:
        listener.note(f"Listening for owners on port {port}.")

    with listener.progress() as progress:
        how: dict[str, Any] = {"address": listen, "patience": patience, "wait": wait, "progress": progress}
        result = serve(plan, folder, **how, listening=listening)
    with listener.working("writing the certificate and the report"):
        result.save(path, replaces, title)
    return result


def together_join(
    plan: TogetherPlan,
    data: Any,
    key: Any,
    ledger: str | os.PathLike,
    run_dir: str | os.PathLike,
    *,
    reading: Reading = Reading(),
    machine: Machine = Machine(),
    address: str | None = None,
    wait: float = 86400.0,
    listener: Listener = SILENT,
) -> None:
    """Takes part in a run as one of its owners, until the run has ended; the same call resumes it.

    Args:
        plan: the plan, which the owner has read and accepts (`TogetherPlan.read`).
        data: the owner's records, as `distill` takes them.
        key: the owner's private key (`read_signing_key`), or its file without a passphrase.
        ledger: the ledger of the owner's data set (`begin_ledger`): the run is paid there once all owners have come.
        run_dir: the owner's folder of the run, which is never shared.
        reading: options of reading; classes, bounds and sizes of images are the plan's.
        machine: its memory limit is used.
        address: host:port of the coordinator; the plan's by default.
        wait: seconds without a coordinator after which this owner gives up.
        listener: receives notes and progress.

    Raises:
        DataError: records or a key of another plan, or a coordinator that does not let this owner in.
        LedgerError: the ledger refuses the run, or the folder belongs to another run.
        CuratorError: a round that could not be answered, or a coordinator that did not come in time.
    """
    from dpdistill.ledger.dataset import DatasetLedger
    from dpdistill.signatures.keys import SigningKey, read_signing_key
    from dpdistill.together.join import check_cap, join, name_of

    plan.check()
    key = key if isinstance(key, SigningKey) else read_signing_key(key)
    name = name_of(plan, key)
    place = Path(run_dir)
    check_cap(plan, DatasetLedger(ledger), place)  # before a record is read
    records = _records(plan, data, reading, machine, place, listener)
    listener.note(f"This owner is {name}; nothing is paid before all owners have come.")
    with listener.progress() as progress:
        how: dict[str, Any] = {"address": address, "wait": wait, "memory": machine.memory, "progress": progress}
        join(plan, key, records, place, Path(ledger), **how)


def together_check(
    folder: str | os.PathLike,
    plan: str | os.PathLike,
    transcript: str | os.PathLike,
    run_dir: str | os.PathLike | None = None,
    owner: str = "",
) -> list[Check]:
    """Returns checks that a result follows from what the owners of a run signed, by computing the result again.

    Args:
        folder: the result.
        plan: file of the plan.
        transcript: a copy of the folder `transcript` in the coordinator's DIR.run.
        run_dir: an owner's folder of the run, to find its own contributions; None leaves them out.
        owner: name of that owner.

    Raises:
        DataError: a plan that cannot be read.
        LedgerError: a run_dir of another run.
    """
    from dpdistill.together.plan import TogetherPlan
    from dpdistill.together.replay import check_transcript

    place = None if run_dir is None else Path(run_dir)
    from dpdistill.together.owner_store import FILE

    if not Path(transcript).is_dir() or (place is not None and not (place / FILE).is_file()):
        raise DataError("Expected the folders of a transcript and of an owner's run: one of them does not exist.")
    return [*check_transcript(TogetherPlan.read(Path(plan)), Path(transcript), Path(folder), place, owner)]


def schema_of(reading: Reading, shape: str | None) -> AnySchema:
    """Returns the public facts of a plan: of schema.yaml, or those stated for images.

    Args:
        reading: schema of a table; or classes, bounds and straighten of images.
        shape: "height,width,channels" of images.

    Raises:
        DataError: facts that are missing or of another form.
    """
    if reading.schema is not None:
        from dpdistill.sources.tables.schema_file import read_reviewed

        return read_reviewed(reading.schema).schema
    from dpdistill.storage.options import parse_bounds, parse_classes

    sides = tuple(int(side) for side in (shape or "").split(",") if side.strip().isdigit())
    if len(sides) != 3 or reading.classes is None:
        raise DataError("Expected --schema of a table, or --shape 28,28,1 and --classes of images.")
    return Schema(sides, parse_bounds(reading.bounds or "0,255"), parse_classes(reading.classes), reading.straighten)


def budget_of(choice: BudgetChoice, persons: Persons) -> Budget:
    """Returns the budget of a plan: epsilon 1 at delta 1e-5 for single records, unless stated."""
    from dpdistill.accounting.schedule import ROWS_PER_UNIT, Budget

    if persons.person_from is not None:
        raise DataError("Expected --unit-column with a plan: owners read persons from a column or an array.")
    unit = {}
    if persons.unit_column is not None:
        unit = {"unit": persons.unit_column, "rows_per_unit": persons.rows_per_unit or ROWS_PER_UNIT}
    return Budget(**{"epsilon": 1.0, **choice.stated, **unit})


def _method(method: Any, schema: AnySchema) -> tuple[Method, str | None]:
    """Returns the method and the name of the published recipe that its fields come from."""
    from dpdistill.api.prepare import chosen_recipe
    from dpdistill.api.recipes import build
    from dpdistill.recipe.published.statements import published_fields, stated_by

    choice, made = chosen_recipe(method)
    if made is not None:
        return made, None
    if choice.public is not None:
        raise DataError("Expected a recipe without --public: owners do not exchange images.")
    row = {} if choice.recipe is None else stated_by(choice.recipe)
    name = choice.named(TableSchema if isinstance(schema, TableSchema) else Schema, row)
    base = {} if choice.recipe is None else published_fields(choice.recipe)
    return build(name, choice.settings, base, per_class=choice.per_class), None


def _public(file: str | os.PathLike) -> str:
    """Returns the first two words of a public key's file."""
    from dpdistill.signatures.keys import read_small

    words = read_small(Path(file), "a public key").decode("ascii", "replace").split()
    if len(words) < 2:
        raise DataError(f"Expected a public key in {file}: `dpdistill key new FILE` writes FILE.pub.")
    return " ".join(words[:2])


def _records(
    plan: TogetherPlan, data: Any, reading: Reading, machine: Machine, scratch: Path, listener: Listener
) -> Records:
    """Returns the owner's records, read with the plan's public facts."""
    from dpdistill.api.reading import read_records
    from dpdistill.storage.records import Records

    unit, facts = plan.schedule.budget.unit, plan.facts
    if isinstance(data, Records) or isinstance(facts, TableSchema):
        if reading.schema is None and not isinstance(data, Records):
            raise DataError("Expected --schema with the schema.yaml of the plan's table.")
        return read_records(data, reading, listener, unit=unit, memory=machine.memory)
    from dpdistill.sources.load import load

    with listener.working("reading the records"):
        records = load(
            data, strict=not reading.lenient, labels=reading.labels, like=facts, unit=unit, memory=machine.memory
        )
    for each in records.notes:
        listener.note(each)
    return records
