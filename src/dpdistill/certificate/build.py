"""Builds the certificate: the promises of a run, in a file that anybody can check with `dpdistill verify`."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from datetime import date as Date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.accounting.attacker import attacker
from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.certificate.format import FORMAT, INFINITE, LISTS, PACKAGES, WHOLE, parse
from dpdistill.certificate.public_inputs import not_covered, public_inputs
from dpdistill.certificate.versions import versions_of
from dpdistill.errors import CertificateError
from dpdistill.folder.layout import CERTIFICATE, RECIPE, SYNTHETIC, hash_files, read_object
from dpdistill.query import Event
from dpdistill.schema import AnySchema, DataError, name_unit
from dpdistill.storage.atomic import write_atomically

if TYPE_CHECKING:
    from dp_accounting import DpEvent

SYSTEM_NOISE = "operating-system entropy"
SEEDED_NOISE = "insecure: seeded noise"
NO_NOISE = "none"
GROUP_ROWS = (2, 5)
MOST_MIXED = 20
"""Largest number of rows of a group under sampling: each row adds a Gaussian to the mixture, which is slow."""
NOT_STATED = "not stated"
OF_THE_RELEASES = "what the certificate of the run that made the releases says: they are used again here"
"""Text for backend and self-test if releases are used again: the ledger does not store them."""

SCOPE = (
    "epsilon covers the releases that certificate.json lists. It does not cover: choosing the recipe on these records,"
    " other runs on them (epsilon adds up), or scores on real records."
)
NO_SCOPE = (
    "epsilon is infinite: the releases behind these files carry no noise, and nothing here limits what they reveal"
    " about a record."
)
_ORIGINS = ("package default", "selected on ", "caller changed ", "recipe ")


@lru_cache(maxsize=64)
def group_epsilon(schedule: Schedule, rows: int, delta: float) -> float | None:
    """Returns epsilon for a person with several rows, or for several units, at the same delta.

    Full batch: rows * mu by the closed form. Sampled, under add-remove: the mixture of Gaussians whose shift is the
    number of the person's rows in the sample, each row sampled by its own coin. Epsilon is not computed for more than
    20 sampled rows, nor for sampling under replace-one.

    Args:
        schedule: the schedule, for one row or one unit.
        rows: rows of the person, >= 1.
        delta: the delta, in (0, 1).

    Returns:
        Epsilon, or None if it is not computed.

    Raises:
        CertificateError: rows < 1.

    Guarantee:
        An upper bound: contributions of several rows are worst when they point the same way.

    Source:
        Arun Ganesh, Tight Group-Level DP Guarantees for DP-SGD with Sampling via Mixture of Gaussians Mechanisms, 2024.
    """
    if rows < 1:
        raise CertificateError(f"Expected rows={rows} >= 1.")
    adjacency = schedule.budget.adjacency
    if all(event.sampling_prob == 1.0 for _, event in schedule.groups):
        mu = math.sqrt(math.fsum(rounds / event.noise_multiplier**2 for rounds, event in schedule.groups))
        return gaussian_epsilon(1.0 / (rows * mu), delta, adjacency)
    if adjacency != "add-remove" or rows > MOST_MIXED:
        return None
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    s = max(rows / event.noise_multiplier for _, event in schedule.groups)
    # The loss of a round spans about 2 (10.6 s + s^2 / 2): at most 2^13 points, as each point costs a search.
    # Epsilon is rounded up between points: in five schedules at most 1e-4 (relative) above the value with 2^17 points.
    accountant = PLDAccountant(value_discretization_interval=max(2e-3, (21.2 * s + s * s) / 2**13))
    for rounds, event in schedule.groups:
        accountant.compose(_group_event(event, rows), rounds)
    return float(accountant.get_epsilon(delta))


def group_epsilons(schedule: Schedule) -> dict[int, float | None]:
    """Returns epsilon at the budget's delta by number of a person's rows, or by number of protected units."""
    return {rows: group_epsilon(schedule, rows, schedule.budget.delta) for rows in GROUP_ROWS}


def _group_event(event: Event, rows: int) -> DpEvent:
    from dp_accounting.dp_event import GaussianDpEvent, MixtureOfGaussiansDpEvent
    from scipy.stats import binom

    if event.sampling_prob == 1.0:
        return GaussianDpEvent(event.noise_multiplier / rows)
    shifts = list(range(rows + 1))
    in_sample = binom.pmf(shifts, rows, event.sampling_prob)
    return MixtureOfGaussiansDpEvent(event.noise_multiplier, shifts, list(in_sample / in_sample.sum()))


def group_privacy(schedule: Schedule) -> float | None:
    """Returns a unit's epsilon if the same noise, relative to the clip norm, protected one row.

    Computed by group privacy for k = rows_per_unit rows, at the budget's delta; None if not computed. This formula
    covers units of at most k rows; the promise of a schedule of units covers all units.
    """
    return group_epsilon(schedule, schedule.budget.rows_per_unit, schedule.budget.delta)


def unit(budget: Budget, schema: Mapping[str, Any]) -> str:
    """Returns the unit of protection in words.

    Args:
        budget: its adjacency and unit are stated.
        schema: schema in the certificate; a table's schema states the meaning of a row.
    """
    if budget.unit is None:
        row = schema.get("unit", "row")
        stands_for = "" if row == "row" or not isinstance(row, str) else f" a row stands for: {row};"
        changes = {"add-remove": "adding or removing one row", "replace-one": "replacing one row by another"}
        return f"one row ({changes[budget.adjacency]});{stands_for} a person with k rows has k times mu: see groups"
    changes = {"add-remove": "adding or removing all rows", "replace-one": "replacing all rows by those"}
    other = {"add-remove": "one", "replace-one": "another"}[budget.adjacency]
    k = budget.rows_per_unit
    used = (
        f"at most {k} row{'' if k == 1 else 's'} of each, drawn at random, {'is' if k == 1 else 'are'} used in a round"
    )
    return (
        f"one {name_unit(budget.unit)}, {changes[budget.adjacency]} of {other}; {used}, the others are not;"
        f" g of them together have g times mu: see groups"
    )


def scope(budget: Budget | None, recipe: Mapping[str, Any]) -> str:
    """Returns a sentence about the coverage of epsilon; without a guarantee, NO_SCOPE.

    Args:
        budget: the spent budget.
        recipe: recipe in the certificate, which may use images or an encoder that somebody declared public.
    """
    if budget is None:
        return NO_SCOPE
    return " ".join(filter(None, (SCOPE, *not_covered(recipe), budget.caution)))


def build_certificate(
    folder: str | Path,
    *,
    schedule: Schedule | None,
    recipe: dict,
    schema: AnySchema,
    noise: str = SYSTEM_NOISE,
    slack: str | None = None,
    backend: str = NOT_STATED,
    self_test: str = NOT_STATED,
    releases: str | None = None,
    ledger_head: str | None = None,
    date: str | None = None,
    owners: tuple[str, ...] = (),
    summation: Mapping[str, Any] | None = None,
) -> dict:
    """Returns the certificate of a finished run; it holds functions of releases and public facts only.

    Args:
        folder: the folder to share, with all files except certificate and report.
        schedule: the schedule that was paid for; None for a run without a privacy guarantee.
        recipe: contents of recipe.json: method, fields, seed, and origin, which is "package default", "selected on
            ...", "recipe ..." or "caller changed ...".
        schema: the public facts of the data set.
        noise: SYSTEM_NOISE, or SEEDED_NOISE for noise that was not secret; NO_NOISE requires schedule=None.
        slack: sentence about rounding in linear queries, or None.
        backend: hardware and software that computed the releases, in words.
        self_test: the checks before the first release, in words.
        releases: id of the releases, shared by all sets made from them; None if unknown. The certificate states the id
            only if the noise is secret: otherwise the id is a function of the records.
        ledger_head: head of the data set's ledger after the run, random digits; None for a run without such a ledger.
        date: ISO date without a time of day; today by default.
        owners: names of several owners, in order; empty for one owner.
        summation: fields of `Summation`, if there are several owners.

    Returns:
        The certificate as JSON values.

    Raises:
        CertificateError: a noise kind, origin or date of another form, or no synthetic.npz or recipe.json.
    """
    noise = NO_NOISE if schedule is None else noise
    if noise not in ((NO_NOISE,) if schedule is None else (SYSTEM_NOISE, SEEDED_NOISE)):
        raise CertificateError(f"Expected noise {SYSTEM_NOISE!r} or {SEEDED_NOISE!r}; got {noise!r}.")
    origin = recipe.get("origin")
    if not isinstance(origin, str) or not origin.startswith(_ORIGINS):
        raise CertificateError(
            f"Expected an origin 'package default', 'selected on ...', 'recipe ...' or 'caller changed ...'; "
            f"got {origin!r}."
        )
    files = hash_files(folder)
    for name in (SYNTHETIC, RECIPE):
        if name not in files:
            raise CertificateError(f"Expected {name} in {folder}.")
    facts = json.loads(json.dumps(schema.to_json()))
    inferred = facts.pop("inferred", [])
    certificate = {
        "format": FORMAT,
        **(no_claim() if schedule is None else _claim(schedule, facts)),
        "noise": noise,
        "slack": slack,
        "backend": backend,
        "self_test": self_test,
        "releases": releases if noise == SYSTEM_NOISE else None,
        "recipe": recipe,
        "schema": facts,
        "inferred": inferred,
        "public_inputs": [each.model_dump() for each in public_inputs(recipe)],
        "ledger_head": ledger_head,
        **{key: [] for key in LISTS},
        "owners": [{"name": name, "part": name} for name in owners],
        "versions": versions(),
        "files": files,
        "date": _day(date),
        "scope": scope(None if schedule is None else schedule.budget, recipe),
        **({} if summation is None else {"summation": dict(summation)}),
    }
    return parse(certificate).to_json()


def _claim(schedule: Schedule, schema: dict) -> dict:
    budget = schedule.budget
    paid = json.loads(schedule.to_json())
    return {
        "claim": {"epsilon": budget.epsilon, "delta": budget.delta},
        "relation": budget.adjacency,
        "unit": unit(budget, schema),
        "group_privacy": None if budget.unit is None else _finite(group_privacy(schedule)),
        "groups": {repr(rows): _finite(epsilon) for rows, epsilon in group_epsilons(schedule).items()},
        "attacker": {str(rate): bound for rate, bound in attacker(schedule).items()},
        "epsilons": {repr(delta): _finite(epsilon) for delta, epsilon in schedule.epsilons().items()},
        "schedule": paid | {"budget": {"unit": None, "rows_per_unit": 1} | paid["budget"]},
        "events": events(schedule),
    }


def events(schedule: Schedule) -> dict[str, Any]:
    """Returns the releases of a schedule as a tree of typed events, each on all records."""
    return {"kind": "composition", "part": WHOLE, "events": [_event(*group) for group in schedule.groups]}


def _event(rounds: int, event: Event) -> dict[str, Any]:
    stated = {"part": WHOLE, "rounds": rounds, "noise_multiplier": event.noise_multiplier}
    if event.sampling_prob == 1.0:
        return {"kind": "gaussian", **stated}
    return {"kind": "poisson-gaussian", **stated, "sampling_prob": event.sampling_prob}


def _finite(epsilon: float | None) -> float | None:
    return epsilon if epsilon is not None and math.isfinite(epsilon) else None


def no_claim() -> dict:
    """Returns the fields of a certificate that claims nothing: epsilon is infinite, in words."""
    claim = {"claim": {"epsilon": INFINITE, "delta": None}, "attacker": {}, "groups": {}, "epsilons": {}}
    return claim | dict.fromkeys(("relation", "unit", "group_privacy", "schedule", "events"))


def write_certificate(folder: str | Path, certificate: dict) -> Path:
    """Writes the certificate into the folder of the files that it covers, in one atomic step.

    Args:
        folder: the folder to share.
        certificate: output of `build_certificate`.

    Returns:
        The path of certificate.json.

    Raises:
        CertificateError: a value cannot be written as JSON.
    """
    path, content = Path(folder) / CERTIFICATE, certificate_content(certificate)
    write_atomically(path, lambda file: file.write(content))
    return path


def certificate_content(certificate: dict) -> bytes:
    """Returns the bytes of certificate.json; each certificate has exactly one text.

    Raises:
        CertificateError: a value cannot be written as JSON.
    """
    try:
        return f"{json.dumps(certificate, indent=2, allow_nan=False, ensure_ascii=False)}\n".encode()
    except (TypeError, ValueError, RecursionError):
        raise CertificateError("The certificate cannot be written as JSON.") from None


def recipe_content(recipe: dict) -> bytes:
    """Returns the bytes of recipe.json; each recipe has exactly one text."""
    return f"{json.dumps(recipe, indent=2)}\n".encode()


def read_certificate(folder: str | Path) -> dict:
    """Reads a folder's certificate.

    Args:
        folder: the shared folder.

    Returns:
        The certificate, unchecked.

    Raises:
        CertificateError: the file does not exist, or is not a JSON object.
    """
    try:
        return read_object(Path(folder) / CERTIFICATE)
    except DataError as error:
        raise CertificateError(str(error)) from None


def versions() -> dict[str, str]:
    """Returns the versions of the packages that a run and its page depend on."""
    result = {package: number or "not installed" for package, number in versions_of(PACKAGES).items()}
    return {"python": platform.python_version(), **result}


def _day(date: str | None) -> str:
    try:
        day = Date.today() if date is None else Date.fromisoformat(date)
    except ValueError:
        raise CertificateError(f"Expected an ISO date without a time of day; got {date!r}.") from None
    return day.isoformat()
