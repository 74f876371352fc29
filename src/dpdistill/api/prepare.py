"""Prepares a run: method, records, payment and public forecast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.checks import check_size
from dpdistill.api.listener import Listener
from dpdistill.api.options import RecipeChoice
from dpdistill.api.reading import check_source, read_public_images, read_records
from dpdistill.api.request import Request, Terms
from dpdistill.recipe.build import is_method
from dpdistill.recipe.methods import RECIPES
from dpdistill.schema import Schema

if TYPE_CHECKING:
    from dpdistill.method import Method
    from dpdistill.query import Stage
    from dpdistill.run.forecast import Outlook
    from dpdistill.storage.records import Records

FOR_COLOUR = "auto"
"""Default recipe of colour images: two releases choose the kernel."""
CHOSEN_KERNEL = (
    "Colour images: two releases choose the kernel, as --recipe auto does. --method dos-kip keeps the kernel of grey "
    "images; for photographs --recipe dos-kip-cifar10-eps1 is more accurate, and takes longer."
)
"""Note on the default recipe of colour images."""


def chosen_recipe(method: Method | RecipeChoice | str | None) -> tuple[RecipeChoice, Method | None]:
    """Returns (the stated recipe, the method object if the caller passed one)."""
    if method is None or isinstance(method, RecipeChoice):
        return method or RecipeChoice(), None
    if isinstance(method, str):
        return (RecipeChoice(method=method) if is_method(method) else RecipeChoice(recipe=method)), None
    return RecipeChoice(), method


def promised_plan(request: Request, terms: Terms) -> tuple[Stage, ...]:
    """Returns the stages of a run's releases, from the recipe alone: no record is read and JAX is not imported."""
    if request.method is not None:
        return request.method.plan()
    from dpdistill.recipe.published.statements import published_fields
    from dpdistill.recipe.text import recipe_from_text

    base = {} if request.choice.recipe is None else published_fields(request.choice.recipe)
    return recipe_from_text(terms.method, request.choice.settings, base, per_class=request.choice.per_class).plan()


def how_paid(request: Request, terms: Terms, path: Path | None) -> dict[str, Any]:
    """Returns the driver's arguments for the payment of the run."""
    from dpdistill.folder.layout import owner_folder

    account = request.account
    run_dir = None if path is None else owner_folder(path)
    run_dir = run_dir if request.run_dir is None else Path(request.run_dir)
    kept = {"ledger": account.ledger, "overwrite": account.overwrite, "seed": account.seed or 0}
    return {**kept, "named": terms.published, "run_dir": run_dir}


def prepared(
    request: Request, terms: Terms, paid: dict[str, Any], listener: Listener
) -> tuple[Method, Records, dict[str, Any]]:
    """Returns the method, the records and the arguments for the payment.

    A wrong recipe or ledger is refused before a record is read. Wrong records are refused before JAX is imported,
    unless a recipe or a ledger must be checked first. The default recipe of images follows from the number of channels,
    which is a public fact.
    """
    choice, reading = request.choice, request.reading
    unit = None if terms.budget is None else terms.budget.unit

    def read() -> Records:
        room = {"memory": request.machine.memory, "scratch": paid["run_dir"]}
        return read_records(request.data, reading, listener, unit=unit, **room)

    reads_first = not (request.account.ledger or choice.public or choice.recipe)
    private = RECIPES[terms.method].private if request.method is None else request.method.private
    reads_first &= terms.budget is None or private
    records = read() if reads_first else None
    if records is None:
        check_source(request.data, reading.table, reading.sql)
    elif request.method is None:
        check_size(terms.method, choice.per_class, records.schema)
    images = read_public_images(choice.public, reading.resize, reading.channels, reading.straighten, listener)
    method = _checked_recipe(request, terms, images, paid)
    records = read() if records is None else records
    if request.by_channels and isinstance(records.schema, Schema) and records.schema.shape[-1] == 3:
        listener.note(CHOSEN_KERNEL)
        request = replace(request, choice=replace(choice, recipe=FOR_COLOUR))
        terms = Terms.of(request)
        paid = {**paid, "named": terms.published}
        method = _checked_recipe(request, terms, images, paid)
    return method, records, paid


def _checked_recipe(request: Request, terms: Terms, images: Any, paid: dict[str, Any]) -> Method:
    """Returns the method, checked against the budget and the ledger."""
    from dpdistill import run
    from dpdistill.api.recipes import build
    from dpdistill.recipe.published.statements import published_fields

    choice, method = request.choice, request.method
    if method is None:
        base = {} if choice.recipe is None else published_fields(choice.recipe)
        method = build(terms.method, choice.settings, base, per_class=choice.per_class, public_images=images)
    if terms.budget is not None:
        run.check_private(method)
        run.check_ledger(method, terms.budget, **paid)
    return method


def state_outlook(
    request: Request, terms: Terms, method: Method, records: Records, class_size: int | None, listener: Listener
) -> Outlook | None:
    """Reports and returns the public forecast of the run, None without a budget; refuses impossible sizes."""
    from dpdistill.recipe.saved import check_kind
    from dpdistill.run.forecast import check_size, outlook

    check_kind(method, records.schema)
    check_size(method, records.schema, folder=request.run_dir or request.out)
    if terms.budget is None:
        return None
    found = outlook(method, terms.budget, records.schema, class_size, request.account.seed or 0)
    listener.planned(found)
    return found
