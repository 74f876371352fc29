"""Checks of a shared folder's files: each is listed by its hash, made again and compared, or named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from dpdistill.certificate.build import versions
from dpdistill.certificate.check import Check, Expected, differing, plain
from dpdistill.data.folder import (
    CERTIFICATE,
    FINISHED,
    RECIPE,
    REPORT,
    SCORES,
    SYNTHETIC,
    UNLISTED,
    hash_files,
    list_files,
    looks_listed,
    owner_folder,
    read_object,
    sha256,
)
from dpdistill.schema import DataError

MOST_NAMED = 20
_SQLITE = b"SQLite format 3\0"
_NUMBER = r"([0-9][0-9,]*\.?[0-9]*(?:e[+-]?[0-9]+)?)"
_EPSILON = tuple(
    re.compile(rf"{start}{_NUMBER}", re.IGNORECASE | re.MULTILINE)
    for start in (
        r"^ *epsilon: ",  # of a YAML file, which explains others in comments before
        r"(?:epsilon|ε)[^0-9]{0,40}",
    )
)


def check_files(folder: Path, certificate: dict, expected: Expected) -> Iterator[Check]:
    """Every file of the folder: hashes, the recipe, the page, the scores, and what the certificate does not speak of.

    A file that the certificate does not list fails if it might be taken for one that a run wrote: it lies in images/ or
    ends in .npz, .csv, .parquet, .yaml, .png, .json or .html; so does a ledger. Any other is named as not covered.
    """
    try:
        found, names = hash_files(folder), list_files(folder)
    except OSError:
        yield Check("files", False, "A file of the folder cannot be read.")
        return
    extra = [name for name in names if name not in certificate["files"] and name not in UNLISTED]
    foreign = [name for name in extra if looks_listed(name) or _is_ledger(folder / name)]
    yield _listed(found, certificate["files"], foreign)
    yield from _named([name for name in extra if name not in foreign])
    yield _recipe(folder, certificate)
    yield _origin(certificate, expected)
    yield _schema(certificate, expected)
    if SCORES in names:
        yield Check("not covered", None, f"{SCORES} holds scores on test records: epsilon does not cover them.")
    yield _page(folder / REPORT, certificate, expected)
    yield from _documents(folder, certificate, expected)


def _is_ledger(path: Path) -> bool:
    """Whether it is a database, as ledgers are: one tells who holds the records whether they are those of the run."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def check_handover(folder: Path, run: str | Path | None) -> Iterator[Check]:
    """The certificate is the one that the run's folder says it handed over."""
    beside = owner_folder(folder.resolve())
    owner = beside if run is None else Path(run)
    if (run is None and not os.access(owner / FINISHED, os.R_OK)) or not (owner / FINISHED).is_file():
        return
    if sha256(folder / CERTIFICATE).encode() in (owner / FINISHED).read_bytes().split():
        yield Check("handover", True, "The certificate is one that the run handed over.")
    elif owner.resolve() == beside:
        yield Check("handover", False, "The run handed over another certificate: the folder was changed since.")
    else:
        yield Check("handover", None, "The run handed over another certificate: this one may be of a later --from.")


def _listed(found: dict[str, str], listed: dict[str, str], foreign: list[str]) -> Check:
    faults = [f"{name} is missing" for name in listed if name not in found]
    faults += [f"{name} is not in the certificate" for name in foreign]
    faults += [f"{name} was changed" for name in found if name in listed and found[name] != listed[name]]
    faults += [f"{name} is not listed" for name in (SYNTHETIC, RECIPE) if name not in listed]
    if faults:
        shown = "; ".join(plain(fault) for fault in faults[:3]) + ("; and more" if len(faults) > 3 else "")
        return Check("files", False, f"The files are not those of the certificate: {shown}.")
    return Check("files", True, f"The SHA-256 of all {len(listed)} files that the certificate lists agree.")


def _named(names: list[str]) -> Iterator[Check]:
    for name in names[:MOST_NAMED]:
        yield Check("not covered", None, f"{plain(name)} is not in the certificate: nothing here speaks of it.")
    if len(names) > MOST_NAMED:
        yield Check("not covered", None, f"{len(names) - MOST_NAMED} more files are not in the certificate.")


def _recipe(folder: Path, certificate: dict) -> Check:
    try:
        differ = differing(read_object(folder / RECIPE), certificate["recipe"])
    except DataError as error:
        return Check("recipe", False, str(error))
    if differ:
        return Check("recipe", False, f"{RECIPE} and the certificate differ in {plain(', '.join(differ))}.")
    return Check("recipe", True, f"{RECIPE} is the certificate's recipe.")


def _origin(certificate: dict, expected: Expected) -> Check:
    if expected.recipe is None:
        return Check("origin", None, "The recipe is unknown to this version: what it says of itself was not checked.")
    differ = differing(expected.recipe, certificate["recipe"])
    if not differ:
        return Check("origin", True, "Title, origin and references are those that the method states for these fields.")
    named = f"The method states another {plain(', '.join(differ))} for these fields"
    return _unless_elsewhere("origin", named, certificate, "dpdistill")


def _schema(certificate: dict, expected: Expected) -> Check:
    if expected.fault is not None:
        return Check("folder", False, expected.fault)
    if expected.schema is None:
        return Check("schema", None, f"The schema was not compared with that of {SYNTHETIC}.")
    if differ := differing(expected.schema, certificate["schema"]):
        return Check("schema", False, f"{SYNTHETIC} and the certificate differ in {plain(', '.join(differ))}.")
    return Check("schema", True, f"The schema is that of {SYNTHETIC}.")


def _headline(text: str) -> float | None:
    """The first number that a text states as an epsilon."""
    found = next((found for pattern in _EPSILON if (found := pattern.search(text))), None)
    return None if found is None else float(found[1].replace(",", ""))


def _states_another(path: Path, certificate: dict) -> bool:
    """Whether the first epsilon of a file is not the claimed one: no other version explains that."""
    if certificate["schedule"] is None:
        return False
    stated, claim = _headline(path.read_text(errors="replace")), certificate["schedule"]["budget"]["epsilon"]
    return stated is not None and abs(stated - claim) > 1e-2 * claim


def _page(path: Path, certificate: dict, expected: Expected) -> Check:
    if not path.is_file():
        return Check("report", None, f"There is no {REPORT}.")
    if expected.page is None:
        return Check("report", None, f"{REPORT} was not compared with the folder.")
    if path.stat().st_size == len(expected.page) and path.read_bytes() == expected.page:
        return Check("report", True, f"{REPORT} is the page of this folder, byte for byte.")
    named = f"{REPORT} is not the page of this folder, which `dpdistill report` writes anew"
    if _states_another(path, certificate):
        return Check("report", False, f"{named}: it states another epsilon.")
    return _unless_elsewhere("report", named, certificate, "dpdistill", "pillow", "jinja2")


def _documents(folder: Path, certificate: dict, expected: Expected) -> Iterator[Check]:
    for name, agrees, said in expected.documents:
        sentence = said.replace("ε", "epsilon").replace("δ", "delta")
        if agrees is False and _states_another(folder / name, certificate):
            yield Check(name, False, plain(sentence, 300))
        elif agrees is False:
            yield _unless_elsewhere(name, sentence.removesuffix("."), certificate, "dpdistill")
        else:
            yield Check(name, agrees, sentence)


def _unless_elsewhere(name: str, fault: str, certificate: dict, *packages: str) -> Check:
    """A fault, unless the certificate was made with other versions of packages that may well explain it."""
    here, stated = versions(), certificate["versions"]
    others = [f"{package} {stated.get(package)}" for package in packages if stated.get(package) != here[package]]
    if not others:
        return Check(name, False, f"{fault}.")
    return Check(name, None, f"{fault}; it was made with {plain(' and '.join(others))}, so that decides nothing.")
