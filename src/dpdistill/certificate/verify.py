"""Checks a certificate against its files, its ledger and independent accountants."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

from dpdistill.accounting.bounds import Group
from dpdistill.accounting.schedule import Budget, Schedule, check_work
from dpdistill.certificate import build as cert
from dpdistill.certificate import earlier
from dpdistill.certificate.arithmetic import check_arithmetic
from dpdistill.certificate.check import Check, Expected, Verification, differing, plain, same
from dpdistill.certificate.files import check_files, check_handover
from dpdistill.certificate.format import (
    CANNOT_CHECK,
    FORMAT,
    WHOLE,
    Certificate,
    Composition,
    Gaussian,
    PoissonGaussian,
    parse,
)
from dpdistill.certificate.owners import check_owners
from dpdistill.certificate.public_inputs import public_inputs
from dpdistill.errors import CertificateError, LedgerError
from dpdistill.folder.layout import CERTIFICATE, owner_folder
from dpdistill.ledger.run import RUN_LEDGER, RunLedger
from dpdistill.ledger.run_rows import RunRecord, without_origin_of_facts
from dpdistill.query import Event, Stage
from dpdistill.recipe.earlier_names import current_recipe

CLOSING = (
    "verify checks arithmetic and files. It cannot check that the run was as described (these records, this code,"
    " secret noise): for that you trust the owner."
)
_DEEPEST = b"\n" + b" " * 60
"""Beginning of a line that is nested more deeply than any line of a certificate."""


def check_certificate(
    folder: str | Path,
    run: str | Path | None = None,
    expect: Callable[[Certificate], Expected] = lambda certificate: Expected(),
) -> Verification:
    """Checks a folder's certificate: recipe = plan = ledger = event tree, every file, and every stated epsilon.

    Args:
        folder: the shared folder.
        run: the owner's folder of the run; by default folder + ".run", if it exists.
        expect: returns the expected contents of the folder, given the certificate.

    Returns:
        The checks; a damaged or altered certificate gives a failed check, never an exception.
    """
    folder = Path(folder)
    closing = Check("scope", None, CLOSING)
    try:
        content = cert.read_certificate(folder)
        _check_text(folder / CERTIFICATE, content)
        certificate = _parse(content)
        schedule = _schedule(certificate)
    except CertificateError as error:
        return Verification((Check("certificate", False, str(error)), closing))
    expected = replace(expect(certificate), earlier=earlier.is_earlier(content))
    checks = [
        Check("certificate", True, "The certificate is complete."),
        *check_files(folder, certificate, expected),
        *check_handover(folder, run),
        _public_inputs(certificate),
        *expected.encoders,
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
            *check_arithmetic(certificate, _composed(certificate, schedule)),
            *_releases(certificate),
            *_ledger_head(certificate),
            *check_owners(certificate, schedule),
            *_inferred(certificate),
            Check("covered", None, plain(cert.scope(schedule.budget, certificate.recipe), 1000)),
        ]
    return Verification((*checks, closing))


def _parse(content: dict) -> Certificate:
    """Returns the certificate if this version can check all of its claims.

    Raises:
        CertificateError: a field of another type, or a claim that cannot be checked.
    """
    form = content.get("format")
    if type(form) is not int or (form != FORMAT and not earlier.is_earlier(content)):
        raise CertificateError(
            f"Expected a certificate of format {FORMAT}, or {earlier.ROWS} or {earlier.UNITS} of earlier versions: "
            "check this folder with the version of dpdistill that wrote it."
        )
    certificate = parse(earlier.upgrade(content) if form != FORMAT else content)
    _check_date(certificate.date)
    for name in CANNOT_CHECK:
        if getattr(certificate, name):
            raise CertificateError(f"The certificate states {name!r}, which this version cannot check.")
    if (certificate.summation is None) != (not certificate.owners):
        raise CertificateError("The certificate states 'owners' without 'summation', or the other way round.")
    if certificate.events is not None and (part := _other_part(certificate.events)) is not None:
        raise CertificateError(
            f"An event reads the part {plain(part)} of the records: this version checks events that read all."
        )
    return certificate


def _other_part(event: Composition | Gaussian | PoissonGaussian) -> str | None:
    inner = event.events if isinstance(event, Composition) else []
    return event.part if event.part != WHOLE else next(filter(None, map(_other_part, inner)), None)


def _schedule(certificate: Certificate) -> Schedule | None:
    """Returns the schedule; None for a certificate without a guarantee, which must not claim anything else.

    Raises:
        CertificateError: no schedule, or one that takes too long to check.
    """
    stated = certificate.schedule
    if stated is None:
        _check_no_claim(certificate)
        return None
    try:
        stages = tuple(Stage(stage.rounds, stage.sampling_prob, stage.weight) for stage in stated.stages)
        schedule = Schedule(stages, tuple(stated.noise_multipliers), Budget(**stated.budget.model_dump()))
    except (ArithmeticError, TypeError, ValueError):
        raise CertificateError("The certificate's 'schedule' is not a schedule.") from None
    try:
        check_work(stages)
    except ValueError as error:
        raise CertificateError(f"The schedule is not checked. {error}") from None
    return schedule


def _check_no_claim(certificate: Certificate) -> None:
    stated: dict = cert.no_claim() | {"noise": cert.NO_NOISE, "scope": cert.NO_SCOPE}
    stated |= dict.fromkeys(("slack", "releases", "ledger_head")) | {"owners": []}
    result = certificate.to_json()
    for key, value in stated.items():
        if not same(result[key], value):
            raise CertificateError(f"The certificate has no schedule, yet its {key!r} states a guarantee.")


def _check_text(path: Path, certificate: dict) -> None:
    """Checks that the file has the one text of its certificate, so that all readers read the same values."""
    content = path.read_bytes()
    if content != cert.certificate_content(certificate):
        raise CertificateError(
            "certificate.json is not written as dpdistill writes it: another layout or other numbers."
        )
    if _DEEPEST in content:
        raise CertificateError("certificate.json is nested more deeply than any certificate.")


def _check_date(text: str) -> None:
    try:
        if date.fromisoformat(text).isoformat() == text:
            return
    except ValueError:
        pass
    raise CertificateError("The certificate's 'date' is not a date as 2026-01-31.")


def _noise(certificate: Certificate) -> Check:
    if certificate.noise == cert.SYSTEM_NOISE:
        return Check("noise", True, f"The noise is stated to come from {cert.SYSTEM_NOISE}.")
    return Check("noise", False, f"The noise is not secret ({plain(certificate.noise)}): nothing is guaranteed.")


def _slack(certificate: Certificate, expected: Expected) -> Check:
    stated = "none" if certificate.slack is None else plain(certificate.slack, 200)
    if expected.slacks is None:
        return Check("slack", None, f"The stated slack of the sums is {stated}; it was not checked.")
    if certificate.slack not in expected.slacks:
        return Check("slack", False, f"The stated slack of the sums is not that of the recipe's queries: {stated}.")
    return Check("slack", True, f"The stated slack of the sums is that of the recipe's queries: {stated}.")


def _self_test(certificate: Certificate) -> Check:
    backend, tested = (plain(text, 160) for text in (certificate.backend, certificate.self_test))
    sentence = f"the run computed on {backend}; tested before: {tested}"
    return Check("self-test", None, f"Stated by the certificate, not checked: {sentence}.")


def _releases(certificate: Certificate) -> Iterator[Check]:
    if certificate.releases is not None:
        shared = "sets with this id were made from the same releases, which are paid for once"
        name = plain(certificate.releases)
        yield Check("releases", None, f"Release id, as stated by the certificate, not checked: {name}; {shared}.")


def _ledger_head(certificate: Certificate) -> Iterator[Check]:
    """Yields the stated head of the data set's ledger, which the owner of that ledger can compare."""
    if certificate.ledger_head is not None:
        how = "its owner compares the head: dpdistill budget check DIR --ledger FILE"
        detail = f"Head of the data set's ledger, as stated, not checked: {certificate.ledger_head}; {how}."
        yield Check("ledger head", None, detail)


def _inferred(certificate: Certificate) -> Iterator[Check]:
    """Yields a check that lists the public facts that were taken from the records."""
    if certificate.inferred:
        yield Check(
            "facts",
            None,
            "The certificate states facts that were taken from the records and treated as public, so that epsilon does"
            f" not cover them: {plain(', '.join(certificate.inferred))}.",
        )


def _public_inputs(certificate: Certificate) -> Check:
    """Checks that the public inputs are listed, not that the data are public."""
    if (named := public_inputs(certificate.recipe)) != certificate.public_inputs:
        return Check("public inputs", False, "The certificate's 'public_inputs' differ from its recipe's.")
    if not named:
        return Check("public inputs", True, "The recipe names no public inputs.")
    each = ", ".join(f"{one.kind} (declared by {one.declared_by})" for one in named)
    return Check(
        "public inputs", True, f"The recipe's public inputs are named; epsilon does not cover: {plain(each, 200)}."
    )


def _events(certificate: Certificate, schedule: Schedule) -> Check:
    budget = schedule.budget
    composed = compose_events(certificate.events)
    stated = {
        "claim": {"epsilon": budget.epsilon, "delta": budget.delta},
        "relation": budget.adjacency,
        "unit": cert.unit(budget, certificate.facts),
        "scope": cert.scope(budget, certificate.recipe),
    }
    result = certificate.to_json()
    differ = [] if composed == schedule.groups else ["events"]
    differ += [key for key, value in stated.items() if not same(result[key], value)]
    if differ:
        return Check("events", False, f"The schedule contradicts the certificate's {', '.join(differ)}.")
    return Check("events", True, f"Claim, relation and event tree agree with the schedule of {schedule.rounds} rounds.")


def compose_events(tree: Composition | None) -> tuple[Group, ...]:
    """Returns (rounds, event) of all events in a tree, in order."""
    result: list[Group] = []
    for event in () if tree is None else tree.events:
        if isinstance(event, Composition):
            result += compose_events(event)
        else:
            sampling_prob = event.sampling_prob if isinstance(event, PoissonGaussian) else 1.0
            result.append((event.rounds, Event(event.noise_multiplier, sampling_prob)))
    return tuple(result)


def _composed(certificate: Certificate, schedule: Schedule) -> Schedule:
    """Returns a schedule of the tree's events under the schedule's budget: all epsilons are computed from the events.

    If the events contradict the schedule, which another check reports, the schedule itself is returned.
    """
    groups = compose_events(certificate.events)
    if groups != schedule.groups:
        return schedule
    stages = tuple(Stage(rounds, event.sampling_prob) for rounds, event in groups)
    return Schedule(stages, tuple(event.noise_multiplier for _, event in groups), schedule.budget)


def _plan(schedule: Schedule, expected: Expected) -> Check:
    if expected.refused is not None:
        return Check("plan", False, expected.refused)
    if expected.plan is None:
        return Check("plan", None, "The recipe is unknown to this version: its plan was not checked.", compared=False)
    if expected.plan != schedule.stages:
        return Check("plan", False, "The recipe's plan is not that of the schedule.")
    return Check("plan", True, "The recipe's plan is that of the schedule.")


def _ledger(
    certificate: Certificate, schedule: Schedule, folder: Path, run: str | Path | None, expected: Expected
) -> Check:
    beside = owner_folder(folder.resolve())
    if run is None and not (os.access(beside / RUN_LEDGER, os.R_OK) and (beside / RUN_LEDGER).is_file()):
        return Check("ledger", None, "The run's ledger is not available here: the owner keeps it.")
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
    if record.head is not None and record.head != certificate.ledger_head:
        return Check("ledger", False, "The run's ledger states another head of the data set's ledger.")
    return _ledgers_recipe(certificate, record, expected.free, holds)


def _ledgers_recipe(certificate: Certificate, record: RunRecord, free: frozenset[str] | None, holds: str) -> Check:
    """Compares the ledger's recipe with the certificate's: the origin and fields of `finish` may differ."""
    stated = {**current_recipe(certificate.recipe), "schema": certificate.facts, "noise": certificate.noise}
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
        return Check("ledger", None, f"{holds}, but with another {named}: unknown whether releases depend on this.")
    return Check("ledger", True, f"{holds}; only finish reads the changed fields: {named}." if changed else f"{holds}.")
