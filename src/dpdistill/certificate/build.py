"""The certificate: what a run promises, in a file that anybody can check with `dpdistill verify`."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date as Date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dp_accounting.dp_event import DpEvent, GaussianDpEvent, MixtureOfGaussiansDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from scipy.stats import binom

from dpdistill.accounting.schedule import Schedule, gaussian_epsilon
from dpdistill.query import Event
from dpdistill.schema import AnySchema

FORMAT = 1
CERTIFICATE = "certificate.json"
SYSTEM_NOISE = "operating-system entropy"
SEEDED_NOISE = "insecure: seeded noise"
NO_NOISE = "none"
INFINITE = "infinite: no privacy guarantee"
GROUP_ROWS = (2, 5)

SCOPE = (
    "epsilon covers the releases listed in this certificate. It does not cover: choosing the recipe on these records,"
    " other runs on them (epsilon adds up), or scores on real records."
)
NO_SCOPE = (
    "epsilon is infinite: the releases behind these files carry no noise, and nothing here limits what they reveal"
    " about a record."
)
_FILES = (
    *("synthetic.npz", "training.npz", "classifier.npz", "generator.npz", "synthetic.png"),
    *("synthetic.csv", "synthetic.parquet", "schema.yaml"),
)
_PICTURE = re.compile(r"\d{3,}\.png")
_PACKAGES = ("dpdistill", "jax", "numpy", "scipy", "dp-accounting")
_ORIGINS = ("package default", "selected on ", "caller changed ")


class CertificateError(ValueError):
    """A certificate that cannot be written or read; its text is one sentence."""


@dataclass(frozen=True)
class PublicData:
    """Data a run used as public.

    Args:
        sha256: SHA-256 of its bytes, 64 hexadecimal digits.
        statement: by whose word it is public, for example "the caller says it is public".
    """

    sha256: str
    statement: str

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise CertificateError(f"Expected a SHA-256 of 64 hexadecimal digits; got {self.sha256!r}.")
        if not self.statement:
            raise CertificateError("Expected a statement by whose word the public data is public; got none.")


def group_epsilon(schedule: Schedule, rows: int, delta: float) -> float | None:
    """Epsilon for a person with several rows, at the same delta.

    Full batch: rows * mu by the closed form. Sampled, under add-remove: the mixture of Gaussians whose shift is the
    number of the person's rows in the sample. Sampled, under replace-one: not computed.

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
    if adjacency != "add-remove":
        return None
    s = max(rows / event.noise_multiplier for _, event in schedule.groups)
    # The loss of a round spans about 2 (10.6 s + s^2 / 2): at most 2^17 points, because a mixture costs a search each.
    accountant = PLDAccountant(value_discretization_interval=max(1e-3, (21.2 * s + s * s) / 2**17))
    for rounds, event in schedule.groups:
        accountant.compose(_group_event(event, rows), rounds)
    return float(accountant.get_epsilon(delta))


def _group_event(event: Event, rows: int) -> DpEvent:
    if event.sampling_prob == 1.0:
        return GaussianDpEvent(event.noise_multiplier / rows)
    shifts = list(range(rows + 1))
    in_sample = binom.pmf(shifts, rows, event.sampling_prob)
    return MixtureOfGaussiansDpEvent(event.noise_multiplier, shifts, list(in_sample / in_sample.sum()))


def unit(adjacency: str, schema: Mapping[str, Any]) -> str:
    """The unit of protection, in words.

    Args:
        adjacency: "add-remove" or "replace-one".
        schema: as the certificate has it; a table's says whom a row stands for.
    """
    change = {"add-remove": "adding or removing one row", "replace-one": "replacing one row by another"}[adjacency]
    row = schema.get("unit", "row")
    stands_for = "" if row == "row" or not isinstance(row, str) else f" a row stands for: {row};"
    return f"one row ({change});{stands_for} a person with k rows has k times mu: see groups"


def hash_files(folder: str | Path) -> dict[str, str]:
    """SHA-256 of the files that a run writes and that were computed from its releases.

    They are those of _FILES, and images/*/000.png. Any other file in the folder is the owner's, and no certificate
    speaks of it.

    Args:
        folder: the folder that may be shared.

    Returns:
        Digest by file name, relative to the folder, sorted.
    """
    folder = Path(folder)
    pictures = (path for path in folder.glob("images/*/*.png") if _PICTURE.fullmatch(path.name))
    paths = sorted(path for path in (*map(folder.joinpath, _FILES), *pictures) if path.is_file())
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in paths}


def build_certificate(
    folder: str | Path,
    *,
    schedule: Schedule | None,
    recipe: dict,
    origin: str,
    schema: AnySchema,
    public_seed: int,
    noise: str = SYSTEM_NOISE,
    slack: str | None = None,
    public_data: Sequence[PublicData] = (),
    date: str | None = None,
) -> dict:
    """The certificate of a finished run. It holds functions of releases and public facts only.

    Args:
        folder: the folder that may be shared, with the synthetic files in it.
        schedule: what was paid; None for a run without a privacy guarantee.
        recipe: name of the method and its fields, JSON-able.
        origin: "package default", "selected on ..." or "caller changed ...".
        schema: the public facts of the data set.
        public_seed: seed of everything that is not noise.
        noise: SYSTEM_NOISE, or SEEDED_NOISE for noise that was not secret; NO_NOISE goes with schedule=None.
        slack: what a linear query rounds away, in words, or None.
        public_data: data used as public.
        date: ISO date without a time of day; today by default.

    Returns:
        The certificate, JSON-able.

    Raises:
        CertificateError: a noise kind, origin or date of another form, or no synthetic.npz in the folder.
    """
    noise = NO_NOISE if schedule is None else noise
    if noise not in ((NO_NOISE,) if schedule is None else (SYSTEM_NOISE, SEEDED_NOISE)):
        raise CertificateError(f"Expected noise {SYSTEM_NOISE!r} or {SEEDED_NOISE!r}; got {noise!r}.")
    if not origin.startswith(_ORIGINS):
        raise CertificateError(
            f"Expected an origin 'package default', 'selected on ...' or 'caller changed ...'; got {origin!r}."
        )
    files = hash_files(folder)
    if "synthetic.npz" not in files:
        raise CertificateError(f"Expected synthetic.npz in {folder}.")
    facts = json.loads(json.dumps(schema.to_json()))
    return {
        "format": FORMAT,
        **(no_claim() if schedule is None else _claim(schedule, facts)),
        "noise": noise,
        "slack": slack,
        "recipe": recipe,
        "origin": origin,
        "public_seed": int(public_seed),
        "schema": facts,
        "public_data": [asdict(data) for data in public_data],
        "versions": _versions(),
        "files": files,
        "date": _day(date),
        "scope": NO_SCOPE if schedule is None else SCOPE,
    }


def _claim(schedule: Schedule, schema: dict) -> dict:
    budget = schedule.budget
    return {
        "claim": {"epsilon": budget.epsilon, "delta": budget.delta},
        "relation": budget.adjacency,
        "unit": unit(budget.adjacency, schema),
        "groups": {str(rows): _finite(group_epsilon(schedule, rows, budget.delta)) for rows in GROUP_ROWS},
        "epsilons": {repr(delta): _finite(epsilon) for delta, epsilon in schedule.epsilons().items()},
        "schedule": json.loads(schedule.to_json()),
        "events": schedule.event_tree(),
    }


def _finite(epsilon: float | None) -> float | None:
    return epsilon if epsilon is not None and math.isfinite(epsilon) else None


def no_claim() -> dict:
    """The fields of a certificate that claims nothing: epsilon is infinite, in words."""
    claim = {"epsilon": INFINITE, "delta": None}
    return {
        "claim": claim,
        "relation": None,
        "unit": None,
        "groups": {},
        "epsilons": {},
        "schedule": None,
        "events": None,
    }


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
    path = Path(folder) / CERTIFICATE
    try:
        text = json.dumps(certificate, indent=2, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError):
        raise CertificateError("The certificate cannot be written as JSON.") from None
    aside = path.with_suffix(".json.new")
    aside.write_text(text + "\n", encoding="utf-8")
    os.replace(aside, path)
    return path


def read_certificate(folder: str | Path) -> dict:
    """Read a folder's certificate.

    Args:
        folder: the folder that may be shared.

    Returns:
        The certificate; nothing in it is checked.

    Raises:
        CertificateError: it is not there, or is not a JSON object.
    """
    path = Path(folder) / CERTIFICATE
    try:
        certificate = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise CertificateError(f"There is no {CERTIFICATE} in {folder}.") from None
    except (ValueError, RecursionError):
        raise CertificateError(f"{path} is not JSON.") from None
    if not isinstance(certificate, dict):
        raise CertificateError(f"Expected a JSON object in {path}.")
    return certificate


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _day(date: str | None) -> str:
    try:
        day = Date.today() if date is None else Date.fromisoformat(date)
    except ValueError:
        raise CertificateError(f"Expected an ISO date without a time of day; got {date!r}.") from None
    return day.isoformat()
