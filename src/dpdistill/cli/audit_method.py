"""`dpdistill audit method`: a run is replayed on other records with the same releases, and all else is compared."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.audit import (
    Data,
    Delta,
    Epsilon,
    Fields,
    Out,
    SchemaFile,
    Seed,
    Sql,
    app,
    check_recipe,
    records_of,
)
from dpdistill.cli.options import Bounds, Channels, Classes, Labels, Resize, Straighten
from dpdistill.cli.owners_page import owners_folder, write_page
from dpdistill.cli.terminal import Bar, err, note, say
from dpdistill.schema import DataError

Own = Annotated[
    str,
    typer.Option(
        "--method",
        help="See `dpdistill methods`; or FILE.py:NAME or MODULE:NAME of your own: a class of methods, a method, or a "
        "function of records that returns one.",
    ),
]
Tried = Annotated[
    str,
    typer.Option(
        "--records",
        help="Records to remove and replace one by one: how many (lone members of a class, outliers and duplicates "
        "first), all, or their numbers from 0 with commas, such as 3,17,99 or 3,",
    ),
]
Afresh = Annotated[
    bool, typer.Option("--fresh/--no-fresh", help="Replay in a process of its own too, which takes seconds more.")
]


@app.command("method")
def audit_method(
    data: Data,
    *,
    to: Out,
    method: Own,
    set_: Fields = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    records: Tried = "3",
    fresh: Afresh = True,
    schema: SchemaFile = None,
    sql: Sql = None,
    classes: Classes = None,
    bounds: Bounds = None,
    resize: Resize = None,
    channels: Channels = None,
    straighten: Straighten = False,
    labels: Labels = None,
    seed: Seed = 0,
) -> None:
    """Replay a run on other records with the same releases, and compare all that leaves it. Nothing is handed out.

    For authors of a method. Exit code 1 says that a leak was found. Take small settings: each replay runs `finish`.
    """
    chosen = _parsed(records)
    named = ":" not in method
    if named:
        check_recipe(method, set_, epsilon, delta, schema is not None)
    owners_folder(to)
    recipe = None if named else _own(method, set_)
    held = records_of(data, schema, sql, classes, bounds, resize, channels, straighten, labels)
    if not len(held):
        raise DataError(f"Expected at least one record, to be removed; {data} has none.")
    from dpdistill import audits as audit
    from dpdistill.accounting.schedule import Budget
    from dpdistill.audits.chapters import replays_chapter
    from dpdistill.cli.recipes import build

    recipe = build(method, set_ or ()) if named else recipe
    assert recipe is not None
    found = _audited(
        audit.audit_method,
        *(held, recipe, Budget(epsilon, delta)),
        chosen=len(held) if chosen is None else chosen,
        seed=seed,
        fresh=fresh,
        private_files=[data] if Path(data).exists() else (),
    )
    for each in found.replays:
        moved = f"sums moved by {max(each.moved):.4f} of what was paid for; else " if each.moved else ""
        say(f"{each.change}: {moved}{'changed: ' + ', '.join(each.differ) if each.differ else 'nothing changed'}")
    for sentence in found.held:
        say(f"{sentence}: give a function of the records that makes the method.")
    for sentence in found.not_tried:
        note(f"Not tried: {sentence}.")
    say(f"{found}.")
    made, results = replays_chapter(found)
    write_page(to, "method", f"{method}, replayed", f"{found}.", [made], results)
    if found.found:
        raise typer.Exit(1)


def _audited(audit: Callable[..., Any], *args: Any, **how: Any) -> Any:
    """The audit, with a bar that writes to the terminal: an audit listens to everything else that is written."""
    err.file = sys.stderr
    try:
        with Bar() as bar:
            return audit(*args, progress=bar, **how)
    finally:
        err._file = None


def _parsed(text: str) -> int | list[int] | None:
    """How many records, or which; None for all."""
    if text == "all":
        return None
    try:
        numbers = [int(part) for part in text.split(",") if part]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or ("," not in text and not numbers[0]):
        raise DataError(f"Expected --records as a number from 1, all, or numbers with commas (3,17,99); got {text!r}.")
    return numbers if "," in text else numbers[0]


def _own(name: str, settings: list[str] | None) -> Any:
    """A method of the caller's, or the function that makes one of records."""
    where, _, what = name.rpartition(":")
    folder, module = (str(Path(where).resolve().parent), Path(where).stem) if where.endswith(".py") else (".", where)
    sys.path.insert(0, str(Path(folder).resolve()))
    try:
        found = pkgutil.resolve_name(f"{module}:{what}")
    except (ImportError, AttributeError, ValueError) as error:
        raise DataError(
            f"Expected --method FILE.py:NAME or MODULE:NAME; {name!r} cannot be imported: {error}"
        ) from None
    from dpdistill.cli.recipes import build
    from dpdistill.method import Method
    from dpdistill.recipe.methods import RECIPES, listed
    from dpdistill.recipe.parts import code_of

    if isinstance(found, type) and issubclass(found, Method):
        if found.name in RECIPES and code_of(RECIPES[found.name]) is not found:
            raise DataError(f"Expected another name of {name}: {found.name!r} is a method of the package.")
        with listed(found):
            return build(found.name, settings or ())
    if settings:
        raise DataError(f"Expected no --set with {name}: it is no class of methods.")
    if not isinstance(found, Method) and not callable(found):
        raise DataError(f"Expected {name} to be a class of methods, a method, or a function of records.")
    return found
