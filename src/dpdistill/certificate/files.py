"""Checks a shared folder's files: each is compared with its hash, reproduced and compared, or reported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dpdistill.certificate.build import recipe_content, versions
from dpdistill.certificate.check import Check, Expected, differing, plain
from dpdistill.certificate.format import Certificate
from dpdistill.certificate.stated_epsilons import states_another
from dpdistill.folder.layout import (
    CERTIFICATE,
    FINISHED,
    IMAGES,
    RECIPE,
    REPORT,
    SCORES,
    SYNTHETIC,
    UNLISTED,
    hash_files,
    is_plain,
    is_signing,
    looks_listed,
    owner_folder,
    read_object,
    sha256,
    walk,
)
from dpdistill.recipe.earlier_names import current_recipe
from dpdistill.schema import DataError

MOST_NAMED = 20
_SQLITE = b"SQLite format 3\0"


def check_files(folder: Path, certificate: Certificate, expected: Expected) -> Iterator[Check]:
    """Checks every file of the folder: hashes, the recipe, the page, the scores, and files outside the certificate.

    A file that the certificate does not list fails if it could be mistaken for a run's file: it lies in images/, or has
    the ending of such a file (.npz, .csv, .parquet, .yaml, .png, .json, .html). Ledgers, links, pipes and devices fail,
    too. Other files are reported as not covered.
    """
    try:
        result, (names, folders) = hash_files(folder), walk(folder)
    except OSError:
        yield Check("files", False, "A file of the folder cannot be read.")
        return
    if irregular := [name for name in names if not is_plain(folder / name)]:
        named = plain(", ".join(irregular[:3])) + (" and more" if len(irregular) > 3 else "")
        yield Check("files", False, f"Expected regular files; these are links, pipes or devices: {named}.")
        return
    extra = [name for name in names if name not in certificate.files and name not in UNLISTED and not is_signing(name)]
    foreign = [name for name in extra if looks_listed(name) or _is_ledger(folder / name)]
    foreign += _foreign_folders(folders, certificate.files)
    yield _listed(result, certificate.files, foreign)
    yield from _named([name for name in extra if name not in foreign])
    yield _contents(expected, certificate)
    yield _recipe(folder, certificate)
    yield _origin(certificate, expected)
    yield _schema(certificate, expected)
    if SCORES in names:
        yield Check("not covered", None, f"{SCORES} holds scores on test records: epsilon does not cover them.")
    yield _page(folder / REPORT, certificate, expected)
    yield from _documents(folder, certificate, expected)


def _foreign_folders(folders: list[str], listed: dict[str, str]) -> list[str]:
    """Returns the folders in images/ without a listed image: readers of class folders take each folder for a class."""
    holding = {IMAGES, *(name.rpartition("/")[0] for name in listed)}
    return [name for name in folders if f"{name}/".startswith(f"{IMAGES}/") and name not in holding]


def _is_ledger(path: Path) -> bool:
    """Returns whether a file is a database, like ledgers: a ledger reveals whether a record is among the run's."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def check_handover(folder: Path, run: str | Path | None) -> Iterator[Check]:
    """Checks that the certificate is the one whose digest the run's folder stores."""
    beside = owner_folder(folder.resolve())
    owner = beside if run is None else Path(run)
    if (run is None and not os.access(owner / FINISHED, os.R_OK)) or not (owner / FINISHED).is_file():
        return
    if sha256(folder / CERTIFICATE).encode() in (owner / FINISHED).read_bytes().split():
        yield Check("handover", True, "The certificate is one that the run wrote.")
    elif owner.resolve() == beside:
        yield Check("handover", False, "The run wrote another certificate: the folder was changed after the run.")
    else:
        yield Check("handover", None, "The run wrote another certificate: this one may come from a later --from.")


def _listed(found: dict[str, str], listed: dict[str, str], foreign: list[str]) -> Check:
    faults = [f"{name} is missing" for name in listed if name not in found]
    faults += [f"{name} is not in the certificate" for name in foreign]
    faults += [f"{name} was changed" for name in found if name in listed and found[name] != listed[name]]
    faults += [f"{name} is not listed" for name in (SYNTHETIC, RECIPE) if name not in listed]
    if faults:
        shown = "; ".join(plain(fault) for fault in faults[:3]) + ("; and more" if len(faults) > 3 else "")
        return Check("files", False, f"The files are not those of the certificate: {shown}.")
    return Check("files", True, f"The SHA-256 of all {len(listed)} files that the certificate lists agree.")


def _contents(expected: Expected, certificate: Certificate) -> Check:
    """Checks that each listed file has the allowed contents of its kind and agrees with the arrays."""
    if expected.fault is not None:
        return Check("folder", False, expected.fault)
    if expected.contents is None:
        return Check("contents", None, "The contents of the files were not compared.", compared=False)
    faults = [each for each in expected.contents if each[1] is not None]
    settled = [
        fault for _, fault, packages in faults if not _others(certificate, expected, *packages) and packages != ("",)
    ]
    shown = [plain(fault, 120) for fault in (settled or [fault for _, fault, _ in faults])]
    sentence = "; ".join(shown[:2]) + ("; and more" if len(shown) > 2 else "")
    if settled:
        return Check("contents", False, f"A file is not as the run wrote it: {sentence}.")
    if faults:
        return Check("contents", None, f"A file was not compared: {sentence}.", compared=False)
    return Check("contents", True, f"The files agree with {SYNTHETIC} and have no other contents.")


def _named(names: list[str]) -> Iterator[Check]:
    for name in names[:MOST_NAMED]:
        yield Check("not covered", None, f"{plain(name)} is not in the certificate and was not checked.")
    if len(names) > MOST_NAMED:
        yield Check("not covered", None, f"{len(names) - MOST_NAMED} more files are not in the certificate.")


def _recipe(folder: Path, certificate: Certificate) -> Check:
    try:
        differ = differing(read_object(folder / RECIPE), certificate.recipe)
        content = (folder / RECIPE).read_bytes()
    except (DataError, OSError, RecursionError) as error:
        return Check("recipe", False, str(error) if isinstance(error, DataError) else f"{RECIPE} cannot be read.")
    if differ:
        return Check("recipe", False, f"{RECIPE} and the certificate differ in {plain(', '.join(differ))}.")
    if content != recipe_content(certificate.recipe):
        return Check(
            "recipe", False, f"{RECIPE} is not written as dpdistill writes it: another layout or other numbers."
        )
    return Check("recipe", True, f"{RECIPE} is the certificate's recipe.")


def _origin(certificate: Certificate, expected: Expected) -> Check:
    if expected.recipe is None:
        unknown = "The recipe is unknown to this version: title, origin and references were not checked."
        return Check("origin", None, unknown, compared=False)
    differ = differing(expected.recipe, current_recipe(certificate.recipe))
    if not differ:
        return Check("origin", True, "Title, origin and references agree with the method and these fields.")
    others = _others(certificate, expected, "dpdistill")
    where = f"; the certificate was made with {others}, whose verify may check more" if others else ""
    return Check("origin", False, f"The method states another {plain(', '.join(differ))} for these fields{where}.")


def _schema(certificate: Certificate, expected: Expected) -> Check:
    if expected.schema is None:
        return Check("schema", None, f"The schema was not compared with that of {SYNTHETIC}.", compared=False)
    stated = {**certificate.facts, **({"inferred": certificate.inferred} if certificate.inferred else {})}
    if differ := differing(expected.schema, stated):
        return Check("schema", False, f"{SYNTHETIC} and the certificate differ in {plain(', '.join(differ))}.")
    return Check("schema", True, f"The schema is that of {SYNTHETIC}.")


def _page(path: Path, certificate: Certificate, expected: Expected) -> Check:
    if not path.is_file():
        return Check("report", None, f"{REPORT} does not exist.")
    if expected.page is None:
        return Check("report", None, f"{REPORT} was not compared with the folder.", compared=False)
    if path.stat().st_size == len(expected.page) and path.read_bytes() == expected.page:
        return Check("report", True, f"{REPORT} is the page of this folder, byte for byte.")
    named = f"{REPORT} is not the page of this folder; `dpdistill report` writes the page again"
    if states_another(path, certificate, headline=True):
        return Check("report", False, f"{named}: it states another epsilon.")
    return _unless_elsewhere("report", named, certificate, expected, "dpdistill", "pillow", "jinja2")


def _documents(folder: Path, certificate: Certificate, expected: Expected) -> Iterator[Check]:
    for name, agrees, said in expected.documents:
        sentence = said.replace("ε", "epsilon").replace("δ", "delta")
        if another := states_another(folder / name, certificate):
            yield Check(name, False, f"{name} states {plain(another)}, which the certificate does not state.")
        elif agrees is False:
            yield _unless_elsewhere(name, sentence.removesuffix("."), certificate, expected, "dpdistill")
        else:
            yield Check(name, agrees, sentence)


def _others(certificate: Certificate, expected: Expected, *packages: str) -> str:
    """Returns the differing versions that the certificate was made with, such as "dpdistill 0.2"; empty if none."""
    here, stated = versions(), certificate.versions
    others = (f"{name} {stated[name]}" for name in packages if name in here and stated[name] != here[name])
    return plain(" and ".join([*others, *(["an earlier format"] if expected.earlier else [])]))


def _unless_elsewhere(name: str, fault: str, certificate: Certificate, expected: Expected, *packages: str) -> Check:
    """Returns a failed check, or an undecided one if other package versions explain the fault."""
    if others := _others(certificate, expected, *packages):
        told = f"{plain(fault, 240)}; the folder was made with {others}, so it was not compared."
        return Check(name, None, told, compared=False)
    return Check(name, False, plain(f"{fault}.", 300))
