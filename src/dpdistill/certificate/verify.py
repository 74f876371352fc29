"""Checks of a certificate against its files, its ledger and independent accountants."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from dpdistill.accounting.schedule import Schedule, check_work
from dpdistill.certificate import build as cert
from dpdistill.certificate.arithmetic import check_arithmetic
from dpdistill.certificate.check import Check, Expected, Verification, differing, plain, same
from dpdistill.certificate.files import check_files, check_handover
from dpdistill.errors import CertificateError, LedgerError
from dpdistill.folder.layout import CERTIFICATE, owner_folder
from dpdistill.ledger.run import RUN_LEDGER, RunLedger, RunRecord, without_origin_of_facts

CLOSING = (
    "verify checks arithmetic and files; that the run was as described - these records, this code, secret noise -"
    " rests on who ran it."
)
_VERSION = re.compile(r"not installed|[0-9][0-9A-Za-z.+!-]{0,63}")
_DEEPEST = b"\n" + b" " * 60
"""How a line begins that is too deep for what a certificate holds."""
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("claim", "attacker", "groups", "epsilons", "recipe", "schema", "versions", "files"), (dict,)),
    **dict.fromkeys(("schedule", "events"), (dict, type(None))),
    **dict.fromkeys(("noise", "backend", "self_test", "date", "scope"), (str,)),
    **dict.fromkeys(("relation", "unit", "slack", "releases"), (str, type(None))),
}
_OF_UNITS: dict[str, tuple[type, ...]] = {"group_privacy": (float, type(None))}


def check_certificate(
    folder: str | Path,
    run: str | Path | None = None,
    expect: Callable[[dict], Expected] = lambda certificate: Expected(),
) -> Verification:
    """Check a folder's certificate: recipe = plan = ledger = event tree, every file, and every stated epsilon.

    Args:
        folder: the folder that was shared.
        run: the owner's folder of the run; by default the one beside it (folder + ".run"), if it is there.
        expect: what the makers of recipe, records and page would have written, given the certificate.

    Returns:
        The checks; a damaged or altered certificate gives a failed check, never an exception.
    """
    folder = Path(folder)
    closing = Check("scope", None, CLOSING)
    try:
        certificate = cert.read_certificate(folder)
        _check_text(folder / CERTIFICATE, certificate)
        schedule = _parse(certificate)
    except CertificateError as error:
        return Verification((Check("certificate", False, str(error)), closing))
    expected = expect(certificate)
    checks = [
        Check("certificate", True, "The certificate is complete."),
        *check_files(folder, certificate, expected),
        *check_handover(folder, run),
    ]
    if schedule is None:
        checks.append(Check("guarantee", None, "epsilon is infinite: this run gives no privacy guarantee."))
    else:
        checks += [
            _noise(certificate),
            _slack(certificate, expected),
            _self_test(certificate),
            _events(certificate, schedule),
            _plan(schedule, expected),
            _ledger(certificate, schedule, folder, run, expected),
            *check_arithmetic(certificate, schedule),
            *_releases(certificate),
            *_inferred(certificate),
            Check("covered", None, plain(cert.scope(schedule.budget, certificate["recipe"]), 1000)),
        ]
    return Verification((*checks, closing))


def _parse(certificate: dict) -> Schedule | None:
    form = certificate.get("format")
    if type(form) is not int or form not in (cert.FORMAT, cert.UNIT_FORMAT):
        raise CertificateError(
            f"Expected a certificate of format {cert.FORMAT} or {cert.UNIT_FORMAT}: what another version of dpdistill"
            " wrote, that version checks."
        )
    expected = _TYPES if form == cert.FORMAT else _TYPES | _OF_UNITS
    for key, types in expected.items():
        if key not in certificate:
            raise CertificateError(f"The certificate has no {key!r}.")
        if type(certificate[key]) not in types:
            raise CertificateError(f"The certificate's {key!r} is of the wrong type.")
    if unknown := certificate.keys() - expected.keys() - {"format"}:
        raise CertificateError(f"The certificate has a field that this version does not know: {plain(min(unknown))}.")
    if not all(isinstance(digest, str) for digest in certificate["files"].values()):
        raise CertificateError("The certificate's 'files' is of the wrong type.")
    _check_versions(certificate["versions"])
    _check_date(certificate["date"])
    if certificate["releases"] is not None and not re.fullmatch("[0-9a-f]{64}", certificate["releases"]):
        raise CertificateError("The certificate's 'releases' is not an id: 64 hexadecimal digits.")
    if certificate["schedule"] is None and form == cert.FORMAT:
        _check_no_claim(certificate)
        return None
    try:
        schedule = Schedule.from_json(json.dumps(certificate["schedule"]))
        if not same(json.loads(schedule.to_json()), certificate["schedule"]):
            raise ValueError
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise CertificateError("The certificate's 'schedule' is not a schedule.") from None
    try:
        check_work(schedule.stages)
    except ValueError as error:
        raise CertificateError(f"The schedule is not checked. {error}") from None
    if form != cert.format_of(schedule):
        raise CertificateError(f"A certificate of format {form} does not go with the unit of its schedule.")
    return schedule


def _check_no_claim(certificate: dict) -> None:
    stated: dict = cert.no_claim() | {"noise": cert.NO_NOISE, "slack": None, "releases": None, "scope": cert.NO_SCOPE}
    for key, value in stated.items():
        if not same(certificate[key], value):
            raise CertificateError(f"The certificate has no schedule, yet its {key!r} is not that of no guarantee.")


def _check_text(path: Path, certificate: dict) -> None:
    """One text for each certificate: no mark, comment, escape or number that two readers take for two things."""
    content = path.read_bytes()
    if content != cert.certificate_content(certificate):
        raise CertificateError(
            "certificate.json is not written as dpdistill writes it: another layout or other numbers."
        )
    if _DEEPEST in content:
        raise CertificateError("certificate.json is nested more deeply than any certificate.")


def _check_versions(versions: dict) -> None:
    if versions.keys() != cert.versions().keys():
        raise CertificateError("The certificate's 'versions' are not those of Python and the packages that matter.")
    if not all(isinstance(version, str) and _VERSION.fullmatch(version) for version in versions.values()):
        raise CertificateError("The certificate's 'versions' are not all version numbers.")


def _check_date(text: str) -> None:
    try:
        if date.fromisoformat(text).isoformat() == text:
            return
    except ValueError:
        pass
    raise CertificateError("The certificate's 'date' is not a date as 2026-01-31.")


def _noise(certificate: dict) -> Check:
    if certificate["noise"] == cert.SYSTEM_NOISE:
        return Check("noise", True, f"The noise is stated to come from {cert.SYSTEM_NOISE}.")
    return Check("noise", False, f"The noise is not secret ({plain(certificate['noise'])}): nothing is guaranteed.")


def _slack(certificate: dict, expected: Expected) -> Check:
    stated = "none" if certificate["slack"] is None else plain(certificate["slack"], 200)
    if expected.slacks is None:
        return Check("slack", None, f"The stated slack of the sums is {stated}; it was not checked.")
    if certificate["slack"] not in expected.slacks:
        return Check("slack", False, f"The stated slack of the sums is not that of the recipe's queries: {stated}.")
    return Check("slack", True, f"The stated slack of the sums is that of the recipe's queries: {stated}.")


def _self_test(certificate: dict) -> Check:
    backend, tested = (plain(certificate[key], 160) for key in ("backend", "self_test"))
    return Check("self-test", None, f"By its own word the run computed on: {backend}; and had tested before: {tested}.")


def _releases(certificate: dict) -> Iterator[Check]:
    if certificate["releases"] is not None:
        said = "sets that state the same were made from the same releases, which are paid for once"
        name = plain(certificate["releases"])
        yield Check("releases", None, f"By its own word the id of its releases is {name}: {said}.")


def _inferred(certificate: dict) -> Iterator[Check]:
    """What the certificate says of public facts that were taken from the records; it agrees with the set's schema."""
    names = certificate["schema"].get("inferred")
    if isinstance(names, list) and names:
        said = "taken from the records and treated as public, so that epsilon does not cover them"
        yield Check(
            "facts", None, f"As the certificate states, these facts were {said}: {plain(', '.join(map(str, names)))}."
        )


def _events(certificate: dict, schedule: Schedule) -> Check:
    budget = schedule.budget
    stated = {
        "events": schedule.event_tree(),
        "claim": {"epsilon": budget.epsilon, "delta": budget.delta},
        "relation": budget.adjacency,
        "unit": cert.unit(budget, certificate["schema"]),
        "scope": cert.scope(budget, certificate["recipe"]),
    }
    differ = [key for key, value in stated.items() if not same(certificate[key], value)]
    if differ:
        return Check("events", False, f"The schedule does not say the same as the certificate's {', '.join(differ)}.")
    return Check("events", True, f"Claim, relation and event tree agree with the schedule of {schedule.rounds} rounds.")


def _plan(schedule: Schedule, expected: Expected) -> Check:
    if expected.refused is not None:
        return Check("plan", False, expected.refused)
    if expected.plan is None:
        return Check("plan", None, "The recipe is unknown to this version: its plan was not checked.", compared=False)
    if expected.plan != schedule.stages:
        return Check("plan", False, "The recipe's plan is not that of the schedule.")
    return Check("plan", True, "The recipe's plan is that of the schedule.")


def _ledger(certificate: dict, schedule: Schedule, folder: Path, run: str | Path | None, expected: Expected) -> Check:
    beside = owner_folder(folder.resolve())
    if run is None and not (os.access(beside / RUN_LEDGER, os.R_OK) and (beside / RUN_LEDGER).is_file()):
        return Check("ledger", None, "The run's ledger is not here, or not to be read: it stays with the owner.")
    try:
        record = RunLedger.read(beside if run is None else run)
    except LedgerError as error:
        return Check("ledger", False, str(error))
    done = len(record.events)
    if record.schedule != schedule or done > schedule.rounds:
        return Check("ledger", False, "The run's ledger has another schedule.")
    promised = (event for rounds, event in schedule.groups for _ in range(rounds))
    if any(event != expected for event, expected in zip(record.events, promised, strict=False)):
        return Check("ledger", False, "The events in the run's ledger are not those of the schedule.")
    holds = f"The run's ledger holds {done} of {schedule.rounds} promised rounds, and no other"
    return _ledgers_recipe(certificate, record, expected.free, holds)


def _ledgers_recipe(certificate: dict, record: RunRecord, free: frozenset[str] | None, holds: str) -> Check:
    """A run's releases may be used again under other fields, if only `finish` reads them; the origin goes with them."""
    stated = {**certificate["recipe"], "schema": certificate["schema"], "noise": certificate["noise"]}
    paid = record.recipe if isinstance(record.recipe, dict) else {}
    fields, paid_fields = stated.get("fields"), paid.get("fields")
    if not isinstance(fields, dict) or not isinstance(paid_fields, dict):
        return Check("ledger", False, "The run's ledger and the certificate have no fields to compare.")
    changed = differing(fields, paid_fields)
    compared = ("method", "seed", "schema", "noise", *(() if changed else ("origin",)))
    paid, stated = without_origin_of_facts(paid), without_origin_of_facts(stated)
    differ = [key for key in compared if paid.get(key) != stated.get(key)]
    differ += [] if free is None else [f"the field {key}" for key in changed if key not in free]
    named = plain(", ".join(differ or changed))
    if differ:
        return Check("ledger", False, f"The run's ledger has another recipe than the certificate: {named}.")
    if changed and free is None:
        return Check("ledger", None, f"{holds}, but of other {named}: whether a release depends on that is not known.")
    return Check("ledger", True, f"{holds}; only finish reads what changed since: {named}." if changed else f"{holds}.")
