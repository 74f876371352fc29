"""The certificate: what a run promises, in a file that anybody can check with `dpdistill verify`."""

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
from dpdistill.certificate.format import CANNOT_CHECK, FORMAT, INFINITE, PACKAGES, WHOLE, parse
from dpdistill.certificate.public_inputs import DECLARED, declared_by, public_inputs
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
"""Rows of a group under sampling whose mixture is computed: a Gaussian for each of them takes its time."""
NOT_STATED = "not stated"
OF_THE_RELEASES = "what the certificate of the run that made the releases says: they are used again here"
"""Of backend and self-test where releases are used again: the ledger does not keep them."""

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
    """Epsilon for a person with several rows, at the same delta; or for several units of a schedule that protects one.

    Full batch: rows * mu by the closed form. Sampled, under add-remove: the mixture of Gaussians whose shift is the
    number of the person's rows in the sample, each by a coin of its own; not computed for more than 20 of them, nor
    under replace-one.

    Args:
        schedule: the schedule, for one row.
        rows: rows of the person, >= 1.
        delta: the delta, in (0, 1).

    Returns:
        Epsilon, or None where it is not computed.

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
    # The loss of a round spans about 2 (10.6 s + s^2 / 2): at most 2^13 points, because a mixture costs a search each.
    # Between the points epsilon is rounded up: in five schedules by at most 1e-4 of itself more than with 2^17.
    accountant = PLDAccountant(value_discretization_interval=max(2e-3, (21.2 * s + s * s) / 2**13))
    for rounds, event in schedule.groups:
        accountant.compose(_group_event(event, rows), rounds)
    return float(accountant.get_epsilon(delta))


def group_epsilons(schedule: Schedule) -> dict[int, float | None]:
    """Epsilon at the budget's delta by number of rows of a person, or by number of units where one is protected."""
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
    """What a unit would have if the same noise, relative to the clip norm, protected one row: the other formula.

    By group privacy for k = rows_per_unit rows, at the budget's delta; None where it is not computed. That formula
    speaks of units of at most k rows; what a schedule of units promises holds for all.
    """
    return group_epsilon(schedule, schedule.budget.rows_per_unit, schedule.budget.delta)


def unit(budget: Budget, schema: Mapping[str, Any]) -> str:
    """The unit of protection, in words.

    Args:
        budget: whose adjacency and unit are stated.
        schema: as the certificate has it; a table's says whom a row stands for.
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
    """Returns what epsilon covers and what it does not, in words; None without a guarantee.

    Args:
        budget: what was spent.
        recipe: as the certificate has it: it may rest on images that are public by somebody's word.
    """
    if budget is None:
        return NO_SCOPE
    return " ".join(filter(None, (SCOPE, *_public_images(recipe), budget.caution)))


def _public_images(recipe: Mapping[str, Any]) -> list[str]:
    fields = recipe.get("fields")
    parts = [value for value in (fields.values() if isinstance(fields, dict) else ()) if isinstance(value, dict)]
    return [
        f"Nor does it cover the {value.get('pictures')} images with sha256 {value.get('sha256')}: by the word of"
        f" {declared_by(value)} they are public."
        for value in parts
        if value.get("kind") == DECLARED
    ]


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
    date: str | None = None,
) -> dict:
    """The certificate of a finished run. It holds functions of releases and public facts only.

    Args:
        folder: the folder that may be shared, with all files but certificate and report in it.
        schedule: what was paid; None for a run without a privacy guarantee.
        recipe: what recipe.json holds: method, fields, seed, and its origin: "package default", "selected on ...",
            "recipe ..." or "caller changed ...".
        schema: the public facts of the data set.
        noise: SYSTEM_NOISE, or SEEDED_NOISE for noise that was not secret; NO_NOISE goes with schedule=None.
        slack: what a linear query rounds away, in words, or None.
        backend: what the releases were computed on, in words.
        self_test: what the run had checked before its first release, in words.
        releases: the id of the releases, which all sets that are made of them share; None where it is not known.
            It is stated where noise is secret alone: without, it is a function of the records.
        date: ISO date without a time of day; today by default.

    Returns:
        The certificate, JSON-able.

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
        **{key: None if key == "ledger_head" else [] for key in CANNOT_CHECK},
        "versions": versions(),
        "files": files,
        "date": _day(date),
        "scope": scope(None if schedule is None else schedule.budget, recipe),
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
    """The releases of a schedule as a tree of typed events, each on all records."""
    return {"kind": "composition", "part": WHOLE, "events": [_event(*group) for group in schedule.groups]}


def _event(rounds: int, event: Event) -> dict[str, Any]:
    stated = {"part": WHOLE, "rounds": rounds, "noise_multiplier": event.noise_multiplier}
    if event.sampling_prob == 1.0:
        return {"kind": "gaussian", **stated}
    return {"kind": "poisson-gaussian", **stated, "sampling_prob": event.sampling_prob}


def _finite(epsilon: float | None) -> float | None:
    return epsilon if epsilon is not None and math.isfinite(epsilon) else None


def no_claim() -> dict:
    """The fields of a certificate that claims nothing: epsilon is infinite, in words."""
    claim = {"claim": {"epsilon": INFINITE, "delta": None}, "attacker": {}, "groups": {}, "epsilons": {}}
    return claim | dict.fromkeys(("relation", "unit", "group_privacy", "schedule", "events"))


def write_certificate(folder: str | Path, certificate: dict) -> Path:
    """Write the certificate beside the files it covers, in one step.

    Args:
        folder: the folder that may be shared.
        certificate: what `build_certificate` returned.

    Returns:
        The path of certificate.json.

    Raises:
        CertificateError: something in it cannot be written as JSON.
    """
    path, content = Path(folder) / CERTIFICATE, certificate_content(certificate)
    write_atomically(path, lambda file: file.write(content))
    return path


def certificate_content(certificate: dict) -> bytes:
    """The bytes of certificate.json: there is one text for each certificate.

    Raises:
        CertificateError: something in it cannot be written as JSON.
    """
    try:
        return f"{json.dumps(certificate, indent=2, allow_nan=False, ensure_ascii=False)}\n".encode()
    except (TypeError, ValueError, RecursionError):
        raise CertificateError("The certificate cannot be written as JSON.") from None


def recipe_content(recipe: dict) -> bytes:
    """The bytes of recipe.json: there is one text for each recipe."""
    return f"{json.dumps(recipe, indent=2)}\n".encode()


def read_certificate(folder: str | Path) -> dict:
    """Read a folder's certificate.

    Args:
        folder: the folder that may be shared.

    Returns:
        The certificate; nothing in it is checked.

    Raises:
        CertificateError: it is not there, or is not a JSON object.
    """
    try:
        return read_object(Path(folder) / CERTIFICATE)
    except DataError as error:
        raise CertificateError(str(error)) from None


def versions() -> dict[str, str]:
    """The packages that a run and its page depend on."""
    found = {package: number or "not installed" for package, number in versions_of(PACKAGES).items()}
    return {"python": platform.python_version(), **found}


def _day(date: str | None) -> str:
    try:
        day = Date.today() if date is None else Date.fromisoformat(date)
    except ValueError:
        raise CertificateError(f"Expected an ISO date without a time of day; got {date!r}.") from None
    return day.isoformat()
