"""`dpdistill distill`: makes a run and prints its result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import dpdistill as dp
from dpdistill.api.options import SOURCES, Account, BudgetChoice, Machine, Persons, Reading, RecipeChoice
from dpdistill.cli.expand import expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.options import Cap, refuse_cap
from dpdistill.cli.panels import Expert
from dpdistill.cli.passphrase import say_signed, unlocked
from dpdistill.cli.terminal import give, say
from dpdistill.schema import DataError, name_unit


@expand
def distill(
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=SOURCES)] = None,
    *,
    out: Annotated[
        str, typer.Option("--out", rich_help_panel="Output", help="Folder for the result; it may be shared.")
    ],
    title: Annotated[
        str | None,
        typer.Option(
            "--title",
            rich_help_panel=Expert("Output"),
            help="Name of the set, the heading of its page; its classes by default.",
        ),
    ] = None,
    choice: RecipeChoice,
    budget: BudgetChoice,
    reading: Reading,
    persons: Persons,
    account: Account,
    machine: Machine,
    cap: Cap = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", rich_help_panel="Recipe", help="DIR.run of a finished run: use its releases again, free."
        ),
    ] = None,
    sign: Annotated[
        str | None,
        typer.Option(
            "--sign", rich_help_panel=Expert("Output"), help="Sign the result with this key: see `dpdistill sign`."
        ),
    ] = None,
    non_private: Annotated[
        bool,
        typer.Option(
            "--non-private", rich_help_panel=Expert("Privacy"), help="No noise and no guarantee: epsilon is infinite."
        ),
    ] = False,
) -> None:
    """Distil private records into a tiny synthetic set under a privacy budget."""
    refuse_cap(cap)
    if (data is None) != (from_ is not None):
        raise DataError("Expected either DATA or --from DIR.run.")
    key = None if sign is None else unlocked(sign)  # before anything is paid
    if from_ is not None:
        _refuse_with_from(choice, reading, persons, account, machine, non_private)
        result = dp.finish_again(
            from_, choice, budget, out=out, title=title, overwrite=account.overwrite, listener=Terminal()
        )  # fmt: skip
    else:
        result = dp.distill(
            data, choice, budget, reading=reading, persons=persons, machine=machine, out=out,
            title=title, private=not non_private, listener=Terminal(), **vars(account),
        )  # fmt: skip
    _say_result(Path(out).resolve(), result)
    if key is not None:
        say_signed(Path(out), dp.sign(out, key), key)


def _refuse_with_from(
    choice: RecipeChoice, reading: Reading, persons: Persons, account: Account, machine: Machine, non_private: bool
) -> None:
    """Refuses options that a run without new releases cannot use."""
    for wrong, sentence in (
        (account.class_size, "With --from nothing is paid: leave out --class-size."),
        (machine.workers, "Workers compute private sums: leave out --workers with --from and --non-private."),
        (
            choice.recipe,
            "A recipe determines its method, and a run its recipe: leave out --method and --from with --recipe.",
        ),
        (
            account.seed is not None or account.ledger or non_private,
            "With --from nothing is drawn or paid: leave out --seed, --ledger and --non-private.",
        ),
        (
            reading != Reading() or machine.memory,
            "With --from no record is read: leave out the reading options and --memory.",
        ),
        (persons.stated, "With --from or --non-private leave out --unit-column, --person-from and --rows-per-unit."),
    ):
        if wrong:
            raise DataError(sentence)


def _say_result(path: Path, result: Any) -> None:
    give(folder=str(path), epsilon=None if result.schedule is None else result.schedule.budget.epsilon)
    if result.schedule is None:
        say(f"{path}: no privacy guarantee, epsilon is infinite.")
        return
    b = result.schedule.budget
    give(delta=b.delta, adjacency=b.adjacency, run_folder=str(result.run_dir) if result.run_dir else None)
    say(f"{path}: epsilon = {b.epsilon:.10g} at delta = {b.delta:.10g} ({b.adjacency}).")
    if b.unit is not None:
        _say_unit(result.schedule)
    if result.accuracy is not None:
        say(f"The released classifier names {result.accuracy} of the records rightly; epsilon covers this statement.")
        give(accuracy=result.accuracy._asdict())
    kept = f"keep {result.run_dir.name} to yourself" if result.run_dir else "its releases had been paid for"
    say(f"{path.name} may be shared; {kept}.")


def _say_unit(schedule: Any) -> None:
    """Prints the protected unit, and the epsilon of group privacy under the same noise."""
    from dpdistill.certificate.build import group_privacy
    from dpdistill.publish.report.words import bound

    b, other = schedule.budget, group_privacy(schedule)
    whose = f"one {name_unit(b.unit)}, all records together"
    say(f"The guarantee holds for {whose}; at most {b.rows_per_unit} of each are used, drawn at random.")
    found = "is not computed for this plan" if other is None else f"would be epsilon = {bound(other)}"
    say(f"With this noise for single records, group privacy for {b.rows_per_unit} of them {found}.")
