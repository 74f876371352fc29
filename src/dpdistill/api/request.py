"""Checks the request for a run before a record is read and before JAX is imported."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.checks import check_kind, check_method, check_settings
from dpdistill.api.listener import Listener
from dpdistill.api.options import Account, BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.api.reading import check_source
from dpdistill.recipe.published.statements import named_under, stated_by
from dpdistill.schema import DataError, Schema, TableSchema

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget
    from dpdistill.method import Method


@dataclass(frozen=True, kw_only=True)
class Request:
    """Request for a run.

    Args:
        data: the private records: a path, or an object that holds them.
        choice: the recipe, by names and texts; unused where `method` is an object.
        method: the method object, or None.
        budget: the budget, complete or in part.
        reading: options of reading records.
        persons: unit of privacy.
        machine: computing resources.
        account: payment of the run.
        out: the folder for the result, or None.
        run_dir: the owner's folder, or None for DIR.run of `out`.
        label: name of the run in a ledger; None for the name of `out`.
        private: False for a run without noise and without a guarantee.

    Raises:
        DataError: options that contradict each other.
    """

    data: Any
    choice: RecipeChoice = RecipeChoice()
    method: Method | None = None
    budget: Budget | BudgetChoice = BudgetChoice()
    reading: Reading = Reading()
    persons: Persons = Persons()
    machine: Machine = Machine()
    account: Account = Account()
    out: str | os.PathLike | None = None
    run_dir: str | os.PathLike | None = None
    label: str | None = None
    private: bool = True

    @property
    def table(self) -> bool:
        """Returns whether the records are rows of a table."""
        schema = getattr(self.data, "schema", None)
        return self.reading.table or isinstance(schema, TableSchema)

    @property
    def by_channels(self) -> bool:
        """Returns whether the recipe is the default of images, which depends on their channels."""
        return self.method is None and self.choice.default and not self.table and self.private

    @property
    def own_budget(self) -> dict[str, Any]:
        """Returns the stated fields of the budget by name."""
        return self.budget.stated if isinstance(self.budget, BudgetChoice) else vars(self.budget)

    def __post_init__(self) -> None:
        ledger, out, public, choice = self.account.ledger, self.out, self.choice.public, self.choice
        for wrong, sentence in (
            (_lies_in(out, self.data), "Expected --out outside of DATA, which a run never changes."),
            (_lies_in(ledger, out), "Expected --ledger outside of --out: a ledger reveals whether records were used."),
            (
                public and isinstance(self.data, str | os.PathLike) and _place(public) == _place(self.data),
                "The images of --public are the private images of DATA: name other images, or leave out --public.",
            ),
            (
                not self.private and self.own_budget,
                "With --non-private there is no budget: leave out --epsilon, --delta and --adjacency.",
            ),
            (
                not self.private and ledger,
                "A run without a privacy guarantee cannot join a ledger: its epsilon is infinite.",
            ),
            (
                not self.private and self.machine.workers,
                "Workers compute private sums: leave out --workers with --from and --non-private.",
            ),
            (
                choice.recipe and choice.method,
                "A recipe determines its method, and a run its recipe: leave out --method and --from with --recipe.",
            ),
            (
                not self.private and self.persons.stated,
                "With --from or --non-private leave out --unit-column, --person-from and --rows-per-unit.",
            ),
            (
                not isinstance(self.budget, BudgetChoice) and self.budget.unit is not None and self.persons.stated,
                "Expected persons in the budget or in Persons, not in both.",
            ),
        ):
            if wrong:
                raise DataError(sentence)


@dataclass(frozen=True)
class Terms:
    """Terms that follow from a request before a record is read and before JAX is imported.

    Args:
        budget: None without a guarantee.
        method: name of the method.
        published: full name of a published recipe whose budget is kept, or None.
        counted: False where rows_per_unit takes its default value.
    """

    budget: Budget | None
    method: str
    published: str | None
    counted: bool

    @classmethod
    def of(cls, request: Request) -> Terms:
        """Returns the terms of a request.

        Raises:
            DataError, ValueError: an invalid name, field, budget or ledger.
        """
        choice = request.choice
        check_method(choice.method)
        row = {} if choice.recipe is None else stated_by(choice.recipe)
        if choice.public is not None:
            check_source(choice.public, table=False)
        protects = _protected(request) if request.private else {}
        budget = _budget(row, request, protects) if request.private else None
        published = named_under(row, None if budget is None else (budget.epsilon, budget.delta))
        named = choice.named(TableSchema if request.table else Schema, row)
        if request.method is None:
            check_kind(named, request.table, request.private)
            check_settings(named, choice.settings, choice.per_class, choice.public)
        if budget is not None and request.account.ledger is not None:
            from dpdistill.ledger.dataset import DatasetLedger

            DatasetLedger(request.account.ledger).check_first(budget.epsilon)
        counted = not protects or request.persons.rows_per_unit is not None
        return cls(budget, request.method.name if request.method else named, published, counted)

    def caution(self, listener: Listener) -> None:
        """Warns of a large delta or epsilon, and notes the default number of records per person."""
        if self.budget is None:
            return
        listener.caution(self.budget)
        if not self.counted:
            listener.note(
                f"Protects persons by {self.budget.unit}: at most {self.budget.rows_per_unit} records of each are "
                "used, the default of --rows-per-unit. Epsilon is the same for any number."
            )


def _place(source: str | os.PathLike) -> Path:
    """Returns the path of a source without its part: "set.npz" for "set.npz:train"."""
    text = os.fspath(source)
    return Path(text if text.startswith("digits:") else text.removesuffix(":train")).resolve()


def _lies_in(inner: Any, outer: Any) -> bool:
    """Returns whether a path lies in a folder: an output inside the records would be read as records."""
    paths = str | os.PathLike
    if not (isinstance(inner, paths) and isinstance(outer, paths)) or "\0" in f"{inner}{outer}" or not f"{inner}":
        return False
    try:
        return bool(f"{outer}") and _place(outer) in _place(inner).parents
    except (OSError, RuntimeError):  # a loop of links, which reading refuses
        return False


def _protected(request: Request) -> dict[str, Any]:
    """Returns the budget's unit and rows_per_unit, as stated or in schema.yaml; empty for single records.

    A column of persons means that persons are protected, with or without a stated rows_per_unit.
    """
    from dpdistill.accounting.schedule import ROWS_PER_UNIT

    persons = request.persons
    column, rows = persons.unit, persons.rows_per_unit
    if persons.unit_column or persons.person_from:
        _check_persons(request.data, persons.person_from is not None, request.table)
    if request.reading.schema is not None and column is None:
        from dpdistill.sources.tables.schema_file import read_reviewed

        column = read_reviewed(request.reading.schema).unit_column
    if column is None and rows is not None:
        raise DataError(
            "Expected --unit-column with --rows-per-unit: the column that names the person of a record. For class "
            "folders expected --person-from filename."
        )
    return {} if column is None else {"unit": column, "rows_per_unit": ROWS_PER_UNIT if rows is None else rows}


def _check_persons(data: Any, by_filename: bool, table: bool) -> None:
    """Refuses a column of persons for class folders, and names of files for anything else."""
    from dpdistill.sources.load import is_class_folders

    folders = not table and is_class_folders(data)
    if by_filename and not folders:
        raise DataError("Expected class folders with --person-from filename; use --unit-column for other sources.")
    if folders and not by_filename:
        raise DataError(
            'Class folders have no columns: use --person-from filename if the text before the first "_" of a file '
            "name is the person, as p017 in p017_scan2.png."
        )


def _budget(row: dict[str, Any], request: Request, protects: dict[str, Any]) -> Budget:
    """Returns the budget: stated fields override those of the published recipe."""
    from dpdistill.accounting.schedule import Budget, check_affordable

    if isinstance(request.budget, Budget):
        budget = request.budget if request.budget.unit or not protects else replace(request.budget, **protects)
    else:
        of_row = {name: row[name] for name in ("epsilon", "delta") if row.get(name) is not None}
        budget = Budget(**{"epsilon": 1.0, **of_row, **request.own_budget, **protects})
    check_affordable(budget.epsilon)
    return budget
