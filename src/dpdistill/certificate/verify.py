"""Checks of a certificate against its files, its ledger and independent accountants."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpdistill.accounting.schedule import (
    Schedule,
    discretization_interval,
    epsilon_lower_bound,
    epsilon_pld,
    epsilon_rdp,
)
from dpdistill.certificate import build as cert
from dpdistill.certificate.build import CertificateError
from dpdistill.ledger.database import LedgerError
from dpdistill.ledger.run import RUN_LEDGER, RunLedger, RunRecord
from dpdistill.query import Stage

CLOSING = (
    "verify checks arithmetic and files; that the run was as described - these records, this code, secret noise -"
    " rests on who ran it."
)
RECIPE = "recipe.json"
_ROUNDING = 1.0 + 1e-9
_TOLERANCE = 1.0 + 1e-3
_MAX_ROUNDS = 10_000_000
_MIN_PLD_DELTA = 1e-10
_TYPES: dict[str, tuple[type, ...]] = {
    "claim": (dict,),
    "relation": (str, type(None)),
    "unit": (str, type(None)),
    "groups": (dict,),
    "epsilons": (dict,),
    "schedule": (dict, type(None)),
    "events": (dict, type(None)),
    "noise": (str,),
    "slack": (str, type(None)),
    "recipe": (dict,),
    "origin": (str,),
    "public_seed": (int,),
    "schema": (dict,),
    "public_data": (list,),
    "versions": (dict,),
    "files": (dict,),
    "date": (str,),
    "scope": (str,),
}


@dataclass(frozen=True)
class Check:
    """One check.

    Args:
        name: what was checked.
        passed: True or False, or None for a statement that decides nothing.
        detail: one sentence.
    """

    name: str
    passed: bool | None
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks of a certificate, in order; the last says what verify cannot know."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """No check failed."""
        return all(check.passed is not False for check in self.checks)


def verify(
    folder: str | Path,
    plan: Sequence[Stage] | None = None,
    run: str | Path | None = None,
    free: Collection[str] | None = None,
) -> Verification:
    """Check a folder's certificate: recipe = plan = ledger = event tree, the files' hashes, and every stated epsilon.

    Args:
        folder: the folder that was shared.
        plan: the plan of the certificate's recipe, from the method itself; None leaves it unchecked, and says so.
        run: the owner's folder of the run; by default the one beside it (folder + ".run"), if it is there.
        free: the recipe's fields that only `finish` reads, which may have changed since the run; None if they are not
            known: a field that differs from the run's is then named, and decides nothing.

    Returns:
        The checks; a damaged or altered certificate gives a failed check, never an exception.
    """
    folder = Path(folder)
    closing = Check("scope", None, CLOSING)
    try:
        certificate = cert.read_certificate(folder)
        schedule = _parse(certificate)
    except CertificateError as error:
        return Verification((Check("certificate", False, str(error)), closing))
    checks = [Check("certificate", True, "The certificate is complete."), _files(folder, certificate)]
    if (folder / RECIPE).exists():
        checks.append(_recipe(folder / RECIPE, certificate))
    if schedule is None:
        checks.append(Check("guarantee", None, "epsilon is infinite: this run gives no privacy guarantee."))
    else:
        checks += [
            _noise(certificate),
            _events(certificate, schedule),
            _plan(schedule, plan),
            _ledger(certificate, schedule, folder, run, free),
            *_arithmetic(certificate, schedule),
        ]
    return Verification((*checks, closing))


def _parse(certificate: dict) -> Schedule | None:
    if type(certificate.get("format")) is not int or certificate["format"] != cert.FORMAT:
        raise CertificateError(f"Expected a certificate of format {cert.FORMAT}.")
    for key, types in _TYPES.items():
        if key not in certificate:
            raise CertificateError(f"The certificate has no {key!r}.")
        if type(certificate[key]) not in types:
            raise CertificateError(f"The certificate's {key!r} is of the wrong type.")
    if not all(isinstance(digest, str) for digest in certificate["files"].values()):
        raise CertificateError("The certificate's 'files' is of the wrong type.")
    if certificate["schedule"] is None:
        _check_no_claim(certificate)
        return None
    try:
        schedule = Schedule.from_json(json.dumps(certificate["schedule"]))
        if not all(type(stage.rounds) is int and stage.rounds <= _MAX_ROUNDS for stage in schedule.stages):
            raise ValueError
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise CertificateError("The certificate's 'schedule' is not a schedule.") from None
    return schedule


def _check_no_claim(certificate: dict) -> None:
    stated: dict = cert.no_claim() | {"noise": cert.NO_NOISE, "scope": cert.NO_SCOPE}
    for key, value in stated.items():
        if certificate[key] != value:
            raise CertificateError(f"The certificate has no schedule, yet its {key!r} is not that of no guarantee.")


def _plain(text: str) -> str:
    """Text of a certificate as it may be shown on a terminal: short, printable, one line."""
    return ascii(text)[1:-1][:80]


def _files(folder: Path, certificate: dict) -> Check:
    try:
        found = cert.hash_files(folder)
    except OSError:
        return Check("files", False, "A synthetic file cannot be read.")
    listed = certificate["files"]
    faults = [f"{name} is missing" for name in listed if name not in found]
    faults += [f"{name} is not in the certificate" for name in found if name not in listed]
    faults += [f"{name} was changed" for name in found if name in listed and found[name] != listed[name]]
    if "synthetic.npz" not in listed:
        faults.append("synthetic.npz is not listed")
    if faults:
        shown = "; ".join(_plain(fault) for fault in faults[:3]) + ("; and more" if len(faults) > 3 else "")
        return Check("files", False, f"The files are not those of the certificate: {shown}.")
    return Check("files", True, f"The SHA-256 of all {len(found)} synthetic files agree.")


def _noise(certificate: dict) -> Check:
    if certificate["noise"] == cert.SYSTEM_NOISE:
        return Check("noise", True, f"The noise is stated to come from {cert.SYSTEM_NOISE}.")
    return Check("noise", False, f"The noise is not secret ({_plain(certificate['noise'])}): nothing is guaranteed.")


def _events(certificate: dict, schedule: Schedule) -> Check:
    budget = schedule.budget
    stated = {
        "events": schedule.event_tree(),
        "claim": {"epsilon": budget.epsilon, "delta": budget.delta},
        "relation": budget.adjacency,
        "unit": cert.unit(budget.adjacency, certificate["schema"]),
        "scope": cert.SCOPE,
    }
    differ = [key for key, value in stated.items() if certificate[key] != value]
    if differ:
        return Check("events", False, f"The schedule does not say the same as the certificate's {', '.join(differ)}.")
    return Check("events", True, f"Claim, relation and event tree agree with the schedule of {schedule.rounds} rounds.")


def _plan(schedule: Schedule, plan: Sequence[Stage] | None) -> Check:
    if plan is None:
        return Check("plan", None, "The recipe is unknown to this version: its plan was not checked.")
    if tuple(plan) != schedule.stages:
        return Check("plan", False, "The recipe's plan is not that of the schedule.")
    return Check("plan", True, "The recipe's plan is that of the schedule.")


def _stated_recipe(certificate: dict) -> dict[str, Any]:
    """The certificate's recipe, by the names that recipe.json and the run's ledger have for it."""
    recipe = certificate["recipe"]
    stated = {"method": recipe.get("method"), "fields": recipe.get("fields")}
    return {**stated, "seed": certificate["public_seed"], "origin": certificate["origin"]}


def _recipe(path: Path, certificate: dict) -> Check:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError):
        found = None
    if not isinstance(found, dict):
        return Check("recipe", False, f"{RECIPE} is not a recipe.")
    differ = [key for key, value in _stated_recipe(certificate).items() if key not in found or found[key] != value]
    if differ:
        return Check("recipe", False, f"{RECIPE} and the certificate differ in {', '.join(differ)}.")
    return Check("recipe", True, f"{RECIPE} and the certificate have the same method, fields, seed and origin.")


def _ledger(
    certificate: dict, schedule: Schedule, folder: Path, run: str | Path | None, free: Collection[str] | None
) -> Check:
    beside = folder.resolve()
    beside = beside.with_name(beside.name + ".run")
    if run is None and not (beside / RUN_LEDGER).is_file():
        return Check("ledger", None, "The run's ledger is not here: it stays with the owner.")
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
    return _ledgers_recipe(certificate, record, free, holds)


def _ledgers_recipe(certificate: dict, record: RunRecord, free: Collection[str] | None, holds: str) -> Check:
    """A run's releases may be used again under other fields, if only `finish` reads them; the origin goes with them."""
    stated, paid = _stated_recipe(certificate), record.recipe if isinstance(record.recipe, dict) else {}
    fields, paid_fields = stated["fields"], paid.get("fields")
    if not isinstance(fields, dict) or not isinstance(paid_fields, dict):
        return Check("ledger", False, "The run's ledger and the certificate have no fields to compare.")
    changed = sorted(
        key
        for key in fields.keys() | paid_fields.keys()
        if (key in fields) != (key in paid_fields) or fields[key] != paid_fields[key]
    )
    compared = ("method", "seed") if changed else ("method", "seed", "origin")
    differ = [key for key in compared if paid.get(key) != stated[key]]
    differ += [] if free is None else [f"the field {key}" for key in changed if key not in free]
    named = _plain(", ".join(differ or changed))
    if differ:
        return Check("ledger", False, f"The run's ledger has another recipe than the certificate: {named}.")
    if changed and free is None:
        return Check("ledger", None, f"{holds}, but of other {named}: whether a release depends on that is not known.")
    return Check("ledger", True, f"{holds}; only finish reads what changed since: {named}." if changed else f"{holds}.")


def _arithmetic(certificate: dict, schedule: Schedule) -> Iterator[Check]:
    sampled = any(event.sampling_prob < 1.0 for _, event in schedule.groups)
    epsilon = _computed("epsilon", lambda: _sampled(schedule) if sampled else _full_batch(schedule))
    yield epsilon
    if not epsilon.passed:
        return  # a false claim settles it, and absurd noise can make the tables take hours
    if schedule.budget.adjacency == "add-remove":
        yield _computed("looser bound", lambda: _looser(schedule))
    yield _computed("epsilons", lambda: _epsilons(certificate, schedule))
    yield _computed("groups", lambda: _groups(certificate, schedule))


def _computed(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (ArithmeticError, MemoryError, TypeError, ValueError):  # a library's answers to absurd noise
        return Check(name, False, "The epsilon of this schedule cannot be computed.")


def _full_batch(schedule: Schedule) -> Check:
    budget, closed = schedule.budget, schedule.epsilon()
    if closed > budget.epsilon * _ROUNDING:
        return _over("cost", closed, schedule)
    if budget.delta < _MIN_PLD_DELTA:
        return _within(schedule, f"closed form {closed:.6g}; no PLD at so small a delta")
    pld = epsilon_pld(schedule.groups, budget.delta, budget.adjacency)
    if abs(closed - pld) > 1e-4 * max(1.0, closed):
        return Check("epsilon", False, f"The closed form gives epsilon={closed:.6g}, the PLD {pld:.6g}: they disagree.")
    return _within(schedule, f"closed form {closed:.6g}, PLD {pld:.6g}")


def _sampled(schedule: Schedule) -> Check:
    budget, groups = schedule.budget, schedule.groups
    lower = epsilon_lower_bound(groups, budget.delta, budget.adjacency)
    if lower > budget.epsilon * _ROUNDING:
        return _over("cost at least", lower, schedule)
    pld = epsilon_pld(groups, budget.delta, budget.adjacency, 2 * discretization_interval(groups, budget.adjacency))
    if pld > budget.epsilon * _TOLERANCE:
        return _over("cost, by the PLD,", pld, schedule)
    return _within(schedule, f"PLD {pld:.6g}, lower bound {lower:.6g}")


def _over(cost: str, epsilon: float, schedule: Schedule) -> Check:
    claim = schedule.budget.epsilon
    return Check("epsilon", False, f"The releases {cost} epsilon={epsilon:.6g}, more than the claimed {claim:.6g}.")


def _within(schedule: Schedule, found: str) -> Check:
    budget = schedule.budget
    return Check("epsilon", True, f"Claimed epsilon={budget.epsilon:.6g} at delta={budget.delta:g}: {found}.")


def _looser(schedule: Schedule) -> Check:
    rdp = epsilon_rdp(schedule.groups, schedule.budget.delta, schedule.budget.adjacency)
    return Check(
        "looser bound", None, f"Renyi accounting gives epsilon <= {rdp:.6g}; it is looser and decides nothing."
    )


def _epsilons(certificate: dict, schedule: Schedule) -> Check:
    return _table("epsilons", certificate, {repr(delta): epsilon for delta, epsilon in schedule.epsilons().items()})


def _groups(certificate: dict, schedule: Schedule) -> Check:
    delta = schedule.budget.delta
    return _table("groups", certificate, {str(k): cert.group_epsilon(schedule, k, delta) for k in cert.GROUP_ROWS})


def _table(name: str, certificate: dict, expected: dict[str, float | None]) -> Check:
    stated = certificate[name]
    differ = stated.keys() ^ expected.keys()
    differ |= {key for key in stated.keys() & expected.keys() if not _agree(stated[key], expected[key])}
    if differ:
        keys = _plain(", ".join(sorted(differ)))
        return Check(name, False, f"The certificate's {name!r} are wrong at {keys}.")
    return Check(name, True, f"All {len(expected)} values of {name!r} agree.")


def _agree(stated: Any, expected: float | None) -> bool:
    if expected is None or not math.isfinite(expected):
        return stated is None
    number = isinstance(stated, int | float) and not isinstance(stated, bool)
    return number and abs(stated - expected) <= 1e-3 * expected + 1e-6
