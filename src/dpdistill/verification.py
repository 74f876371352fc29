"""Checks a whole shared folder: files, recipe, page, plan, ledger, and every epsilon."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.certificate.build import versions
from dpdistill.certificate.check import Check, Expected, Verification, plain
from dpdistill.certificate.format import Certificate
from dpdistill.certificate.public_inputs import ENCODER
from dpdistill.certificate.verify import check_certificate
from dpdistill.schema import DataError
from dpdistill.signatures.folder import check_signatures
from dpdistill.signatures.signers import read_signers

if TYPE_CHECKING:
    from dpdistill.method import Distilled
    from dpdistill.methods.generator_arrays import GeneratorArrays


def verify(
    folder: str | os.PathLike,
    run: str | os.PathLike | None = None,
    encoder: str | os.PathLike | None = None,
    signer: str | os.PathLike | None = None,
) -> Verification:
    """Checks a shared folder, like the command `dpdistill verify`.

    Each file is read completely. A file is compared with its hash in the certificate, reproduced and compared
    (report.html and the documents for catalogues, which a publisher may have completed), or reported as not covered.
    The recipe must be the one that its method writes; its plan must equal the schedule's and the run ledger's. Every
    stated epsilon is computed independently.

    Args:
        folder: the shared folder.
        run: the owner's folder of the run; by default folder + ".run", if it exists.
        encoder: the ONNX file of the recipe's public pre-trained encoder; by default the file on this machine with the
            stated hash, if there is one.
        signer: KEY.pub, or a file `allowed_signers` of ssh-keygen: the folder fails unless one of these signers signed
            certificate.json and documents.sha256. None checks no signature. A signature says who signed, never what
            was run.

    Returns:
        The checks, and their `outcome`: "PASSED", "FAILED", or "GUARANTEE PASSED, DOCUMENTS NOT COMPARED" if another
        version wrote a document that this one cannot reproduce. `passed` is True only for "PASSED". A damaged folder
        gives a failed check, never an exception.

    Raises:
        DataError: `signer` cannot be read, or has a line with an option that is not honoured.

    Example:
        >>> verify("shared").passed  # doctest: +SKIP
        True
    """
    path = Path(folder)
    file = None if encoder is None else Path(encoder)
    signers = None if signer is None else read_signers(signer)
    found = check_certificate(path, None if run is None else Path(run), lambda stated: _expected(path, stated, file))
    *checks, closing = found.checks
    return Verification((*checks, *check_signatures(path, signers), closing))


def _expected(folder: Path, certificate: Certificate, encoder: Path | None) -> Expected:
    # Importing the renderers takes longer than refusing a bad certificate.
    from dpdistill.folder.contents import check_contents
    from dpdistill.publish.export.documents import compare
    from dpdistill.publish.report import render_report
    from dpdistill.publish.report.folder import read_folder
    from dpdistill.publish.report.title import stated_title

    of_method = {**_of_method(certificate.recipe), "refused": _refused(certificate)}
    of_method["encoders"] = tuple(_encoders(certificate, encoder))
    try:
        shared = read_folder(folder)
        is_model = partial(_is_model, shared.recipe)
        contents = tuple(check_contents(folder, certificate.files, _generator, is_model))
        page = render_report(shared, stated_title(folder)).encode()
        documents = tuple(compare(folder, shared))
    except Exception as error:  # the files are untrusted: an unreadable one is a fault, never a traceback
        sentence = plain(error, 300) if isinstance(error, DataError) else "The records or the page cannot be read."
        return Expected(**of_method, fault=sentence)
    schema = json.loads(json.dumps(shared.schema.to_json()))
    return Expected(**of_method, schema=schema, page=page, documents=documents, contents=contents)


def _encoders(certificate: Certificate, file: Path | None) -> Iterator[Check]:
    """Yields a check of each public encoder: that its file has the stated hash and holds a graph of known operators."""
    from dpdistill.encoders.cards import digest, file_by_hash
    from dpdistill.encoders.onnx_file import read_graph

    stated = [each for each in certificate.public_inputs if each.kind == ENCODER and each.sha256]
    if file is not None and not stated:
        yield Check("encoder", False, "An encoder's file is given, and the certificate names no encoder.")
    for each in stated:
        facts = plain(f"{each.source}; declared public by {each.declared_by}", 600)
        try:
            found = file or file_by_hash(each.sha256 or "")
            if found is None:
                yield Check("encoder", None, f"The encoder's file is not on this machine, so not compared: {facts}.")
                continue
            if digest(found) != each.sha256:
                yield Check("encoder", False, f"{plain(found.name)} has another sha256 than the encoder: {facts}.")
                continue
            read_graph(found.read_bytes())
        except DataError as error:
            yield Check("encoder", False, plain(error, 300))
            continue
        yield Check("encoder", True, f"The encoder's file has the stated sha256: {facts}.")


def _generator(*stated: Any) -> GeneratorArrays:
    """Returns a generator from the contents of its file."""
    from dpdistill.methods.generator_arrays import GeneratorArrays

    return GeneratorArrays.from_arrays(*stated)


def _is_model(recipe: dict[str, Any], content: bytes, distilled: Distilled) -> bool:
    """Returns whether bytes are the ONNX file of a set's classifier; raises DataError if it cannot be made again."""
    from dpdistill.graphs.released import encoder_in, released_model, same_model

    return same_model(content, released_model(distilled, encoder_in(recipe["fields"], distilled.counts)))


def _refused(certificate: Certificate) -> str | None:
    """Returns why the recipe's method cannot have made the certificate; None if it can, or is unknown."""
    from dpdistill.recipe.build import from_fields, is_method

    recipe, here = certificate.recipe, certificate.versions["dpdistill"] == versions()["dpdistill"]
    try:
        method = from_fields(recipe["method"], recipe["fields"])
    except (DataError, KeyError, TypeError, AttributeError):
        ours = here and is_method(recipe.get("method"))
        return "The certificate names this version as its maker, but this version refuses the recipe." if ours else None
    if certificate.schedule is not None and not method.private:
        return "The recipe's method has no private form, yet the certificate claims an epsilon."
    return None


def _of_method(recipe: dict) -> dict[str, Any]:
    """Returns the output of the recipe's method; a method unknown to this version may have either slack."""
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
    ):  # a recipe of papers that this version does not know
        written = recipe_of(method, seed if type(seed) is int else 0)
    return {"recipe": written, "plan": tuple(method.plan()), "free": free, "slacks": (slack_of(method),)}
