"""One function that checks all of a shared folder: files, recipe, page, plan, ledger, and every epsilon."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.certificate.build import versions
from dpdistill.certificate.check import Expected, Verification, plain
from dpdistill.certificate.format import Certificate
from dpdistill.certificate.verify import check_certificate
from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.methods.generator_arrays import GeneratorArrays


def verify(folder: str | os.PathLike, run: str | os.PathLike | None = None) -> Verification:
    """Check a shared folder, as the command `dpdistill verify` does.

    Every file is listed in the certificate by its hash and read to its last byte, made again and compared (report.html
    and the documents for catalogues, which a publisher may have completed), or named as not covered. The recipe is what
    its method writes, its plan is that of the schedule and of the run's ledger, and every stated epsilon is computed by
    another route.

    Args:
        folder: the folder that was shared.
        run: the owner's folder of the run; by default the one beside it (folder + ".run"), if it is there.

    Returns:
        The checks, and their `outcome`: "PASSED", "FAILED", or "GUARANTEE PASSED, DOCUMENTS NOT COMPARED" where another
        version wrote what this one cannot make again. `passed` is True for the first alone. A damaged folder gives a
        failed check, never an exception.

    Example:
        >>> verify("shared").passed  # doctest: +SKIP
        True
    """
    path = Path(folder)
    return check_certificate(path, None if run is None else Path(run), lambda stated: _expected(path, stated))


def _expected(folder: Path, certificate: Certificate) -> Expected:
    # What makes pages and reads arrays takes longer to import than a certificate that is refused takes to read.
    from dpdistill.folder.contents import check_contents
    from dpdistill.publish.export.documents import compare
    from dpdistill.publish.report import render_report
    from dpdistill.publish.report.folder import read_folder

    of_method = {**_of_method(certificate.recipe), "refused": _refused(certificate)}
    try:
        found = read_folder(folder)
        contents = tuple(check_contents(folder, certificate.files, _generator))
        page = render_report(found).encode()
        documents = tuple(compare(folder, found))
    except Exception as error:  # of a stranger's files: whatever cannot be read is a fault, never a traceback
        sentence = plain(error, 300) if isinstance(error, DataError) else "The records or the page cannot be read."
        return Expected(**of_method, fault=sentence)
    schema = json.loads(json.dumps(found.schema.to_json()))
    return Expected(**of_method, schema=schema, page=page, documents=documents, contents=contents)


def _generator(*stated: Any) -> GeneratorArrays:
    """Returns a generator from what its file states."""
    from dpdistill.methods.generator_arrays import GeneratorArrays

    return GeneratorArrays.from_arrays(*stated)


def _refused(certificate: Certificate) -> str | None:
    """Why the recipe's method cannot have made the certificate; None where it may have, or is unknown."""
    from dpdistill.recipe.build import from_fields, is_method

    recipe, here = certificate.recipe, certificate.versions["dpdistill"] == versions()["dpdistill"]
    try:
        method = from_fields(recipe["method"], recipe["fields"])
    except (DataError, KeyError, TypeError, AttributeError):
        ours = here and is_method(recipe.get("method"))
        return (
            "This version is said to have made the certificate, yet its method takes no such recipe." if ours else None
        )
    if certificate.schedule is not None and not method.private:
        return "The recipe's method has no private form, yet the certificate claims an epsilon."
    return None


def _of_method(recipe: dict) -> dict[str, Any]:
    """What the recipe's method would write; a method that this version does not know may have had either slack."""
    from dpdistill.query import SLACK_TEXT
    from dpdistill.recipe.build import from_fields
    from dpdistill.recipe.saved import recipe_of, slack_of

    try:
        method = from_fields(recipe["method"], recipe["fields"])
    except (DataError, KeyError, TypeError, AttributeError):
        return {"slacks": (None, SLACK_TEXT)}
    seed = recipe.get("seed")
    free = frozenset(field.name for field in dataclasses.fields(method) if field.metadata.get("finish"))
    try:
        written = recipe_of(method, seed if type(seed) is int else 0, recipe.get("named"))
    except (
        DataError,
        ValueError,
        TypeError,
    ):  # no recipe of papers that this version knows: what it would write itself
        written = recipe_of(method, seed if type(seed) is int else 0)
    return {"recipe": written, "plan": tuple(method.plan()), "free": free, "slacks": (slack_of(method),)}
