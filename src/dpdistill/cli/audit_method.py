"""`dpdistill audit method`: replays a run on changed records with the same releases, and compares all outputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.audit_options import ALL_RECORDS
from dpdistill.api.options import Account, BudgetChoice, Reading, RecipeChoice
from dpdistill.cli.audit import Data, Out, app, say_page
from dpdistill.cli.expand import Fields, expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.terminal import err, note, say
from dpdistill.schema import DataError

Choice = Annotated[
    RecipeChoice,
    Fields(
        method="See `dpdistill methods`; or FILE.py:NAME or MODULE:NAME of your own: a method class, a method, or "
        "a function of records that returns one.",
    ),
]
Tried = Annotated[
    str,
    typer.Option(
        "--records",
        rich_help_panel="Data",
        help="Records to remove and replace one by one: a number (single members of a class, outliers and duplicates "
        "first), all, or indices from 0 with commas, such as 3,17,99 or 3,",
    ),
]
Afresh = Annotated[
    bool,
    typer.Option(
        "--fresh/--no-fresh",
        rich_help_panel="Attack",
        help="Replay in a new process as well, which takes some seconds.",
    ),
]


@app.command("method")
@expand
def audit_method(
    data: Data,
    *,
    to: Out,
    choice: Choice,
    budget: BudgetChoice,
    records: Tried = "3",
    fresh: Afresh = True,
    reading: Reading,
    account: Annotated[Account, Fields("seed")],
) -> None:
    """Replay a run on changed records with the same releases, and compare all outputs. No set is written.

    For authors of a method. Exit code 1 means that a leak was found. Use small settings: each replay runs `finish`.
    """
    chosen = _parsed(records)
    with _progress_on_the_terminal():
        found = dp.audit_method(
            data, choice, budget, chosen=chosen, fresh=fresh, reading=reading, seed=account.seed, out=to,
            listener=Terminal(),
        )  # fmt: skip
    for each in found.replays:
        moved = f"sums moved by {max(each.moved):.4f} of the paid sensitivity; else " if each.moved else ""
        say(f"{each.change}: {moved}{'changed: ' + ', '.join(each.differ) if each.differ else 'nothing changed'}")
    for sentence in found.held:
        say(f"{sentence}: pass a function of the records that returns the method.")
    for sentence in found.not_tried:
        note(f"Not tried: {sentence}.")
    say(f"{found}.")
    say_page(found, to)
    if found.found:
        raise typer.Exit(1)


@contextmanager
def _progress_on_the_terminal() -> Iterator[None]:
    """Keeps progress on this process's stderr, since the audit records all other output there."""
    err.file = sys.stderr
    try:
        yield
    finally:
        err._file = None


def _parsed(text: str) -> int | tuple[int, ...] | str:
    """Returns the number of records to try, their indices, or "all"."""
    if text == ALL_RECORDS:
        return text
    try:
        numbers = [int(part) for part in text.split(",") if part]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or ("," not in text and not numbers[0]):
        raise DataError(f"Expected --records as a number from 1, all, or indices with commas (3,17,99); got {text!r}.")
    return tuple(numbers) if "," in text else numbers[0]
