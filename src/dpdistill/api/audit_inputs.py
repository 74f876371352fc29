"""Reads and checks the inputs of an audit: records, a method and a budget of single records."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.audit_options import MemberReading
from dpdistill.api.checks import check_method
from dpdistill.api.listener import Listener
from dpdistill.api.options import Account, BudgetChoice, Reading, RecipeChoice
from dpdistill.api.own_method import is_own, own_method
from dpdistill.api.prepare import how_paid, prepared
from dpdistill.api.reading import read_records, table_source
from dpdistill.api.request import Request, Terms
from dpdistill.folder.save import audit_folder
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.published.statements import stated_by
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget, Schedule
    from dpdistill.storage.records import Records

Place = str | os.PathLike


@dataclass(frozen=True)
class Ready:
    """Records and a method to audit; `method` may be a function of records for `audit_method` only."""

    name: str
    method: Any
    budget: Budget | None
    records: Records


def prepare(
    data: Any, choice: RecipeChoice, given: Any, budget: Budget | BudgetChoice | None, reading: Reading,
    account: Account, out: Place | None, listener: Listener, private: bool = True, own: bool = False,
) -> Ready:  # fmt: skip
    """Returns the inputs of an audit; refuses what cannot be audited before records are read."""
    _refuse_units(budget, reading)
    if given is not None or (own and is_own(choice.method)):
        return _prepare_own(data, choice, given, budget, reading, account, out, listener, private)
    budget = budget or BudgetChoice()
    request = Request(data=data, choice=choice, budget=budget, reading=reading, account=account, private=private)
    terms = Terms.of(request)
    if out is not None:
        audit_folder(out)
    method, records, _ = prepared(request, terms, how_paid(request, terms, None), listener)
    return Ready(terms.method, method, terms.budget, records)


def _prepare_own(
    data: Any, choice: RecipeChoice, given: Any, budget: Budget | BudgetChoice | None, reading: Reading,
    account: Account, out: Place | None, listener: Listener, private: bool,
) -> Ready:  # fmt: skip
    """Returns the inputs of an audit of a caller's own method."""
    if out is not None:
        audit_folder(out)
    method: Any = own_method(choice) if given is None else given
    name = choice.method or getattr(method, "name", None) or getattr(method, "__qualname__", repr(method))
    from dpdistill.accounting.schedule import Budget, check_affordable

    if budget is None or isinstance(budget, BudgetChoice):
        budget = Budget(**{"epsilon": 1.0, **(budget or BudgetChoice()).stated})
    check_affordable(budget.epsilon)
    if account.ledger is not None:
        from dpdistill import run

        run.check_ledger(method, budget, account.ledger, seed=account.seed or 0)
    return Ready(name, method, budget if private else None, read_records(data, reading, listener))


def _refuse_units(budget: Budget | BudgetChoice | None, reading: Reading) -> None:
    if budget is not None and not isinstance(budget, BudgetChoice) and budget.unit is not None:
        raise DataError("Expected a budget of single records: an audit takes single rows.")
    if reading.schema is not None:
        from dpdistill.sources.tables.schema_file import read_reviewed

        if (column := read_reviewed(reading.schema).unit_column) is not None:
            raise DataError(
                f"{reading.schema} states unit_column {column!r:.80}, and an audit takes single rows: list it under "
                "ignored."
            )


def has_private_form(choice: RecipeChoice, given: Any, data: Any, reading: Reading) -> bool:
    """Returns whether the chosen method can run under a budget."""
    if given is not None:
        return given.private
    check_method(choice.method)
    table = reading.table or isinstance(getattr(data, "schema", None), TableSchema)
    row = {} if choice.recipe is None else stated_by(choice.recipe)
    return RECIPES[choice.named(TableSchema if table else Schema, row)].private


def read_as(
    facts: AnySchema, data: Any, part: str, sql: str | None, reading: MemberReading, listener: Listener
) -> Records:
    """Returns records, read by the public facts of a synthetic set."""
    from dpdistill.storage.records import Records

    if isinstance(data, Records):
        return data
    if not isinstance(facts, TableSchema):
        if sql is not None:
            raise DataError("The set holds images: --sql and --non-members-sql are for tables.")
        if reading.schema is not None:
            raise DataError("The set holds images: --schema is for tables.")
        from dpdistill.sources.load import load

        h, w, _ = facts.shape
        strict = h != w  # unreadable images are replaced by squares
        records = load(data, part, like=facts, labels=reading.labels, strict=strict)
        for each in records.notes:
            listener.note(each)
        return records
    if reading.labels is not None:
        raise DataError("The set is a table: --labels is for images.")
    if reading.schema is None:
        raise DataError("Expected --schema SCHEMA: the set is a table.")
    from dpdistill.sources.tables.load import load_table
    from dpdistill.sources.tables.schema_file import read_schema, without_units

    table_file = without_units(read_schema(reading.schema))
    if table_file.schema != facts:
        raise DataError(f"Expected --schema with the columns and classes of the set; {reading.schema} states others.")
    return load_table(table_source(data, sql), table_file, strict=False)


def paid_for(folder: Place) -> Schedule | None:
    """Returns the schedule that the set's certificate states; None where the certificate has no usable one."""
    from dpdistill.accounting.schedule import Schedule
    from dpdistill.certificate.build import SYSTEM_NOISE, read_certificate
    from dpdistill.errors import CertificateError

    try:
        certificate = read_certificate(Path(folder))
        if certificate["noise"] != SYSTEM_NOISE:
            return None
        return Schedule.from_json(json.dumps(certificate["schedule"]))
    except (CertificateError, TypeError, KeyError, ValueError):
        return None
