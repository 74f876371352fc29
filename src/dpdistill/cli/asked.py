"""What is asked of a run at the command line, and what is refused before a record is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpdistill.cli.options import refuse_cap
from dpdistill.cli.reading import NEEDS_SCHEMA, check_source, public_images, read_records
from dpdistill.cli.settings import check_kind, check_method, check_settings, check_size, named_under, stated_by
from dpdistill.cli.terminal import note
from dpdistill.recipe.methods import DEFAULTS, RECIPES
from dpdistill.schema import DataError, Schema, TableSchema
from dpdistill.storage.memory import parse_memory


@dataclass(frozen=True)
class Asked:
    """What is asked of a run, as far as it is known without JAX.

    Args:
        stated: what the caller states of the budget.
        budget: None without a guarantee.
        recipe: the published recipe, by its name or its file, or None.
        published: its whole name, where it is one of the package's and its budget is kept.
        method: name of the method.
        unit: column of the units, or None.
        counted: rows_per_unit is stated, or there are no units; False where it is the default.
    """

    stated: dict[str, Any]
    budget: Any
    recipe: str | None
    published: str | None
    method: str
    unit: str | None
    counted: bool = True

    def caution(self) -> None:
        """Says before anything is spent what a large delta or epsilon means, and whom the run protects by default."""
        from dpdistill.cli.outlook import say_caution

        say_caution(self.budget)
        if not self.counted:
            note(
                f"Protects persons by {self.unit}: of each at most {self.budget.rows_per_unit} records are used, which "
                "is the default (--rows-per-unit). Epsilon is the same for any number."
            )

    def paid(self, given: dict[str, Any], run_dir: Path | None) -> dict[str, Any]:
        """How the run is paid, as the driver takes it."""
        paid = {name: given[name] for name in ("ledger", "overwrite")}
        return {**paid, "seed": given["seed"] or 0, "named": self.published, "run_dir": run_dir}

    def say_outlook(
        self, recipe: Any, schema: Any, class_size: int | None, seed: int, speak: Callable[[str], None]
    ) -> Any:
        """What is public about the run, before anything is paid; sizes that cannot be are refused. The schedule."""
        from dpdistill.cli.outlook import say_outlook
        from dpdistill.recipe.saved import check_kind
        from dpdistill.run.outlook import check_size, outlook

        check_kind(recipe, schema)
        check_size(recipe, schema)
        if self.budget is None:
            return None
        found = outlook(recipe, self.budget, schema, class_size, seed)
        say_outlook(found, speak)
        return found.schedule


FOR_PHOTOGRAPHS = (
    "For photographs --recipe dos-kip-cifar10-eps1 is more accurate than the default, and takes longer; "
    "`dpdistill plan` says how long."
)
"""What a person with colour images is told who states no method."""


def asked_of(given: dict[str, Any]) -> Asked:
    """What the options of `distill` ask for.

    Raises:
        DataError: options that contradict each other, or that cannot be.
    """
    refuse_cap(given["cap"])
    stated = {name: given[name] for name in ("epsilon", "delta", "adjacency") if given[name] is not None}
    _refuse_contradictions(given, stated)
    check_method(given["method"])
    row = {} if given["recipe"] is None else stated_by(given["recipe"])
    if given["public"] is not None:
        check_source(given["public"], table=False)
    if given["memory"] is not None:
        parse_memory(given["memory"])
    anew = given["from_"] is None and not given["non_private"]
    protects = _protected(given["unit_column"], given["rows_per_unit"], given["schema"], anew)
    budget = _budget(row, stated, protects)
    published = named_under(row, None if given["non_private"] else (budget.epsilon, budget.delta))
    table = given["schema"] is not None
    named = row.get("method") or given["method"] or DEFAULTS[TableSchema if table else Schema]
    if given["from_"] is None:
        check_kind(named, table, not given["non_private"])
        check_settings(named, given["set_"] or (), given["per_class"], given["public"])
        _check_ledger(given["ledger"], budget.epsilon)
    asked = None if given["non_private"] else budget
    counted = not protects or given["rows_per_unit"] is not None
    return Asked(stated, asked, given["recipe"], published, named, protects.get("unit"), counted)


def prepared(given: dict[str, Any], asked: Asked, paid: dict[str, Any]) -> tuple[Any, Any]:
    """The method and the records; what is wrong with a recipe or a ledger is said before a record is read.

    What is wrong with the records is said before JAX is imported, unless a recipe or a ledger is to be checked first.
    """
    source = [given[name] for name in ("data", "schema", "classes", "bounds", "resize", "channels")]

    def read() -> Any:
        which = {**{name: given[name] for name in ("sql", "labels", "straighten")}, "unit": asked.unit}
        room = {"memory": given["memory"], "scratch": paid["run_dir"]}
        return read_records(*source, not given["lenient"], **which, **room)

    reads_first = not any(given[name] for name in ("ledger", "public", "recipe"))
    reads_first &= asked.budget is None or RECIPES[asked.method].private
    records = read() if reads_first else None
    if records is None:
        check_source(given["data"], given["schema"] is not None, given["sql"])
    else:
        check_size(asked.method, given["per_class"], records.schema)
    images = public_images(*(given[name] for name in ("public", "resize", "channels", "straighten")))
    fields = {"per_class": given["per_class"], "auxiliary": images}
    distiller = _checked_recipe(asked, given["set_"] or (), fields, paid)
    records = read() if records is None else records
    by_default = not any(given[name] for name in ("method", "recipe", "set_"))
    if by_default and given["schema"] is None and records.schema.shape[-1] == 3:
        note(FOR_PHOTOGRAPHS)
    return distiller, records


def _refuse_contradictions(given: dict[str, Any], stated: dict[str, Any]) -> None:
    """Refuse options of `distill` that exclude each other, given all of them and what is stated of the budget."""
    pictured = any(given[name] for name in ("classes", "bounds", "resize", "channels", "straighten", "labels"))
    again, ledger, non_private = given["from_"] is not None, given["ledger"], given["non_private"]
    drawn = given["seed"] is not None or ledger or non_private
    for wrong, sentence in (
        ((given["data"] is None) != again, "Expected either DATA or --from DIR.run: one of the two."),
        (_lies_in(given["to"], given["data"]), "Expected --out outside of DATA, which is left as it is."),
        (_lies_in(ledger, given["to"]), "Expected --ledger outside of --out: it tells whether records were used."),
        (
            given["public"] and given["data"] and _place(given["public"]) == _place(given["data"]),
            "The images of --public are the private ones of DATA: name others, or leave it out.",
        ),
        (
            non_private and stated,
            "With --non-private there is no budget: leave --epsilon, --delta and --adjacency out.",
        ),
        (non_private and ledger, "A run without a privacy guarantee cannot join a ledger: its epsilon is infinite."),
        (again and given["class_size"], "With --from nothing is paid: leave --class-size out."),
        (
            (given["ray"] or given["share"]) and not given["workers"],
            "Expected --workers N with --ray and --share: how many processes hold the records.",
        ),
        (
            given["workers"] and (again or non_private),
            "Workers add up what is paid for: leave --workers out with --from and --non-private.",
        ),
        (
            given["recipe"] and (given["method"] or again),
            "A recipe states its method, and a run its recipe: leave --method and --from out with --recipe.",
        ),
        (given["sql"] and not (given["schema"] or again), NEEDS_SCHEMA),
        (again and drawn, "With --from nothing is drawn or paid: leave --seed, --ledger and --non-private out."),
        (
            again and (pictured or any(given[name] for name in ("schema", "sql", "lenient", "memory"))),
            "With --from no record is read: leave out how they are read.",
        ),
        (
            given["schema"] and pictured,
            "With --schema leave --classes, --bounds, --resize, --channels, --straighten and --labels out: "
            "it states all.",
        ),
    ):
        if wrong:
            raise DataError(sentence)


def _check_ledger(ledger: str | None, epsilon: float) -> None:
    """Refuse what is no ledger, and the first run of one that is over its cap; others are composed later."""
    if ledger is not None:
        from dpdistill.ledger.dataset import DatasetLedger

        DatasetLedger(ledger).check_first(epsilon)


def workers_of(given: dict[str, Any]) -> Any:
    """Who adds up the sums of a run: as many parts as workers where they fetch the records from a store."""
    from dpdistill.workers import Workers

    count, share = given["workers"] or 0, given["share"]
    return Workers(count, given["ray"], share, max(1, count) if share else 1)


def _place(source: str) -> Path:
    """Where a source is, as the part of it that is distilled: "set.npz:train" is "set.npz"."""
    return Path(source if source.startswith("digits:") else source.removesuffix(":train")).resolve()


def _lies_in(inner: str | None, outer: str | None) -> bool:
    """Whether a place is in a folder: an output in that of the records would be taken for some of them."""
    if not inner or not outer or "\0" in inner + outer:
        return False
    try:
        return _place(outer) in _place(inner).parents
    except (OSError, RuntimeError):  # a loop of links, which is said when it is read
        return False


def _protected(column: str | None, rows: int | None, schema: str | None, anew: bool) -> dict[str, Any]:
    """The budget's unit and rows_per_unit, as stated here or in schema.yaml; nothing for single records.

    Where a column names persons, persons are protected, whether the most records of one are stated or not. Without a
    new guarantee, one of both options is an error, and what schema.yaml states does not count.
    """
    from dpdistill.accounting.schedule import ROWS_PER_UNIT

    if not anew:
        if column is not None or rows is not None:
            raise DataError("With --from or --non-private leave --unit-column and --rows-per-unit out.")
        return {}
    if schema is not None and column is None:
        from dpdistill.sources.tables.schema_file import read_reviewed

        column = read_reviewed(schema).unit_column
    if column is None and rows is not None:
        raise DataError("Expected --unit-column with --rows-per-unit: the column that names the person of a record.")
    return {} if column is None else {"unit": column, "rows_per_unit": ROWS_PER_UNIT if rows is None else rows}


def _budget(row: dict[str, Any], stated: dict[str, Any], protects: dict[str, Any]) -> Any:
    """The budget: what is stated overrides the published recipe's."""
    from dpdistill.accounting.schedule import Budget, check_affordable

    of_row = {name: row[name] for name in ("epsilon", "delta") if row.get(name) is not None}
    budget = Budget(**{"epsilon": 1.0, **of_row, **stated, **protects})
    check_affordable(budget.epsilon)
    return budget


def _checked_recipe(asked: Asked, settings: list[str] | tuple, fields: dict[str, Any], paid: dict[str, Any]) -> Any:
    """The method, that it can be run under the budget, and that a ledger takes it."""
    from dpdistill import run
    from dpdistill.cli.recipes import build, published_fields

    base = {} if asked.recipe is None else published_fields(asked.recipe)
    recipe = build(asked.method, settings, base, **fields)
    if asked.budget is not None:
        run.check_private(recipe)
        run.check_ledger(recipe, asked.budget, **paid)
    return recipe
