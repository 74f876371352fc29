"""One function that checks all of a shared folder: files, recipe, page, plan, ledger, and every epsilon."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from dpdistill.certificate.check import Expected, Verification, plain
from dpdistill.certificate.verify import check_certificate
from dpdistill.schema import AnySchema, DataError


def verify(folder: str | os.PathLike, run: str | os.PathLike | None = None) -> Verification:
    """Check a shared folder, as the command `dpdistill verify` does.

    Every file is listed in the certificate by its hash, made again and compared (report.html), or named as not covered.
    The recipe is what its method writes, its plan is that of the schedule and of the run's ledger, and every stated
    epsilon is computed by another route.

    Args:
        folder: the folder that was shared.
        run: the owner's folder of the run; by default the one beside it (folder + ".run"), if it is there.

    Returns:
        The checks; `passed` says whether none failed. A damaged folder gives a failed check, never an exception.

    Example:
        >>> verify("shared").passed  # doctest: +SKIP
        True
    """
    path = Path(folder)
    return check_certificate(path, None if run is None else Path(run), lambda stated: _expected(path, stated))


def _expected(folder: Path, certificate: dict) -> Expected:
    from dpdistill.report import render_report
    from dpdistill.report.folder import read_folder

    method = _method(certificate["recipe"])
    try:
        found = read_folder(folder)
        page = render_report(found).encode()
    except Exception as error:  # of a stranger's files: whatever cannot be read is a fault, never a traceback
        sentence = plain(error, 300) if isinstance(error, DataError) else "The records or the page cannot be read."
        return Expected(**_of_method(method, certificate["recipe"]), fault=sentence)
    facts = json.loads(json.dumps(found.schema.to_json()))
    slacks = _slacks(method if facts == certificate["schema"] else None, found.schema)
    return Expected(**_of_method(method, certificate["recipe"]), schema=facts, page=page, slacks=slacks)


def _method(recipe: dict) -> Any:
    """The recipe's method; None where this version does not know it."""
    from dpdistill.cli.recipes import from_fields

    try:
        return from_fields(recipe["method"], recipe["fields"])
    except (DataError, KeyError, TypeError, AttributeError):
        return None


def _of_method(method: Any, recipe: dict) -> dict[str, Any]:
    from dpdistill.run.driver import recipe_of

    if method is None:
        return {}
    seed = recipe.get("seed")
    free = frozenset(field.name for field in dataclasses.fields(method) if field.metadata.get("finish"))
    written = recipe_of(method, seed if type(seed) is int else 0)
    return {"recipe": written, "plan": tuple(method.plan()), "free": free}


def _slacks(method: Any, schema: AnySchema) -> tuple[str | None, ...]:
    """What the certificate of a method's run may state as its slack: one text, or either where that is not known."""
    import jax

    from dpdistill.private.linear import SLACK_TEXT
    from dpdistill.run.driver import slack_of

    if method is None:
        return None, SLACK_TEXT
    try:
        # The kind of a query does not depend on how many records are learned: the smallest state is enough.
        small = dataclasses.replace(method, per_class=1) if hasattr(method, "per_class") else method
        query, _ = small.ask(small.init(jax.random.key(0), schema))
    except Exception:  # of a stranger's recipe for a stranger's schema: then it is not known
        return None, SLACK_TEXT
    return (slack_of(query),)
