"""Format 3 of the certificate: types and meanings of all fields, as docs/certificate.md explains them.

The models check types only: an unknown field, a missing field or a value of another type is refused, and nothing is
converted. `verify` checks the values.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from dpdistill.certificate.check import plain
from dpdistill.errors import CertificateError

FORMAT = 3
SCHEMA_FILE = Path(__file__).with_name("certificate-3.schema.json")
WHOLE = "all"
"""Name of the part that contains all records."""
INFINITE = "infinite: no privacy guarantee"
CANNOT_CHECK = ("choices", "scores", "attestations")
"""Fields of the format that no version writes or checks yet."""
LISTS = ("choices", "owners", "scores", "attestations")
"""Fields that are empty lists in a certificate of one owner's run."""

Number = Annotated[float, Field(allow_inf_nan=False)]
Epsilon = Annotated[Number, Field(ge=0)]
Delta = Annotated[Number, Field(gt=0, lt=1)]
NoiseMultiplier = Annotated[Number, Field(gt=0, description="Standard deviation of the noise / clip norm.")]
Sampling = Annotated[Number, Field(gt=0, le=1, description="Poisson sampling probability; 1 is the full batch.")]
Count = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="64 hexadecimal digits in lower case.")]
Version = Annotated[str, Field(pattern="^(not installed|[0-9][0-9A-Za-z.+!-]{0,63})$")]
Table = Annotated[dict[str, Epsilon | None], Field(description="null where the value is infinite or not computed.")]
Object = dict[str, Any]
PACKAGES = ("dpdistill", "jax", "numpy", "scipy", "dp-accounting", "pillow", "jinja2")
"""Packages whose versions a certificate states, in addition to Python's."""
_VERSIONS = ("python", *PACKAGES)


def _are_of_packages(versions: dict[str, str]) -> dict[str, str]:
    if versions.keys() != {*_VERSIONS}:
        raise ValueError
    return versions


Versions = Annotated[
    dict[str, Version],
    AfterValidator(_are_of_packages),
    Field(json_schema_extra={"required": [*_VERSIONS], "propertyNames": {"enum": [*_VERSIONS]}}),
]


class Model(BaseModel):
    """A part of a certificate: strict types, unknown fields refused, frozen."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)


class Claim(Model):
    """The guarantee in two numbers."""

    epsilon: Epsilon | Literal["infinite: no privacy guarantee"]
    delta: Delta | None


class StageEntry(Model):
    """Rounds of one kind, as the recipe promised them."""

    rounds: Count
    sampling_prob: Sampling
    weight: Annotated[Number, Field(gt=0, description="Precision of a round compared with those of other stages.")]


class BudgetEntry(Model):
    """The budget for which the noise was calibrated."""

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Delta
    adjacency: Literal["add-remove", "replace-one"]
    unit: Annotated[Text | None, Field(description="Name of the protected unit; null protects single rows.")]
    rows_per_unit: Annotated[Count, Field(description="Most rows of a unit used in a round; 1 without a unit.")]


class ScheduleEntry(Model):
    """The plan, and the noise of each of its stages."""

    stages: Annotated[list[StageEntry], Field(min_length=1)]
    noise_multipliers: Annotated[list[NoiseMultiplier], Field(min_length=1)]
    budget: BudgetEntry


class Gaussian(Model):
    """Rounds of the Gaussian mechanism on all records of a part."""

    kind: Literal["gaussian"]
    part: Annotated[Text, Field(description="The records that the event reads: 'all', or the name of a part.")]
    rounds: Count
    noise_multiplier: NoiseMultiplier


class PoissonGaussian(Model):
    """Rounds of the Gaussian mechanism, each on a Poisson sample of a part."""

    kind: Literal["poisson-gaussian"]
    part: Text
    rounds: Count
    noise_multiplier: NoiseMultiplier
    sampling_prob: Annotated[Number, Field(gt=0, lt=1)]


class Composition(Model):
    """A sequence of events; each may depend on the releases of earlier ones."""

    kind: Literal["composition"]
    part: Text
    events: list[EventEntry]


EventEntry = Annotated[Gaussian | PoissonGaussian | Composition, Field(discriminator="kind")]


class Choice(Model):
    """A choice made from the records by releases which the events contain."""

    field: Annotated[Text, Field(description="What was chosen: the recipe's field.")]
    chosen: JsonValue
    candidates: Annotated[list[JsonValue], Field(min_length=1)]
    part: Text


class Owner(Model):
    """One of several owners whose records were distilled together."""

    name: Text
    part: Annotated[Text, Field(description="The owner's records.")]


class Summation(Model):
    """Formation of the sums of several owners; present if and only if the certificate has owners."""

    mode: Annotated[Literal["summed unseen"], Field(description="No party saw the sum of one owner's records.")]
    plan: Annotated[Sha256, Field(description="SHA-256 of the plan that all owners had before anything was paid.")]
    keys: Annotated[list[Text], Field(description="Fingerprints of the owners' keys, in the order of the owners.")]
    dropouts: Annotated[int, Field(ge=0, description="Owners that may be missing in the sum of a round.")]
    colluders: Annotated[Count, Field(description="Owners that may collude with the coordinator.")]
    persons_at: Annotated[Count, Field(description="Largest number of owners at which a person may have records.")]
    aliasing: Annotated[
        Number | None, Field(description="log10 of a bound of what delta grows by; null for no growth at all.")
    ]


class PublicInput(Model):
    """Data that is not private, by declaration: epsilon does not cover it."""

    kind: Literal["generated images", "declared images", "shipped filters", "pre-trained encoder"]
    sha256: Annotated[Sha256 | None, Field(description="null for procedurally generated images.")]
    source: Annotated[Text, Field(description="Where the data come from.")]
    declared_by: Annotated[Text, Field(description="Who says that the data are public.")]


class Score(Model):
    """A score measured on records by releases which the events contain."""

    name: Text
    value: Number
    part: Text


class Attestation(Model):
    """An opaque file of a third party that vouches for the run, such as a trusted platform's report."""

    kind: Text
    sha256: Sha256


class Certificate(Model):
    """The promises of a run: certificate.json."""

    format: Literal[3]
    claim: Claim
    relation: Annotated[Literal["add-remove", "replace-one"] | None, Field(description="The neighbouring relation.")]
    unit: Annotated[Text | None, Field(description="The unit of protection, in words.")]
    group_privacy: Annotated[
        Epsilon | None, Field(description="Epsilon of rows_per_unit rows, had the same noise protected single rows.")
    ]
    groups: Annotated[Table, Field(description="Epsilon at the claim's delta by number of rows or units.")]
    attacker: Annotated[
        dict[str, Epsilon],
        Field(description="Largest true-positive rate by false-positive rate, and the largest advantage."),
    ]
    epsilons: Annotated[Table, Field(description="Epsilon by delta.")]
    schedule: ScheduleEntry | None
    events: Annotated[Composition | None, Field(description="Everything that was released.")]
    noise: Annotated[str, Field(description="Where the noise comes from.")]
    slack: Annotated[Text | None, Field(description="What the sums of linear queries round away, in words.")]
    backend: Annotated[str, Field(description="What the releases were computed on, in words.")]
    self_test: Annotated[str, Field(description="What the run tested before its first release, in words.")]
    releases: Annotated[Sha256 | None, Field(description="Id of the releases.")]
    ledger_head: Annotated[
        Sha256 | None, Field(description="Head of the data set's ledger after the run; null without one.")
    ]
    recipe: Annotated[Object, Field(description="What recipe.json holds.")]
    facts: Annotated[Object, Field(alias="schema", description="Public facts of the data set.")]
    inferred: Annotated[list[Text], Field(description="Public facts that were taken from the records.")]
    public_inputs: list[PublicInput]
    choices: Annotated[list[Choice], Field(description="Not used: empty.")]
    owners: Annotated[list[Owner], Field(description="Several owners, in the order of names; empty for one owner.")]
    scores: Annotated[list[Score], Field(description="Not used: empty.")]
    attestations: Annotated[list[Attestation], Field(description="Not used: empty.")]
    versions: Versions
    files: Annotated[dict[str, Sha256], Field(description="SHA-256 by file name.")]
    date: Annotated[str, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    scope: Annotated[str, Field(description="What epsilon covers and what it does not, in words.")]

    summation: Summation = None  # type: ignore[assignment]  # only in a certificate of several owners; never null

    def to_json(self) -> dict[str, Any]:
        """Returns the certificate as plain data, in the order of writing; `summation` only if it is stated."""
        result = self.model_dump(mode="json", by_alias=True)
        return result if self.summation is not None else {k: v for k, v in result.items() if k != "summation"}


_NOT_SUCH = {
    "schedule": "The certificate's 'schedule' is not a schedule.",
    "releases": "The certificate's 'releases' is not an id: 64 hexadecimal digits.",
    "date": "The certificate's 'date' is not a date as 2026-01-31.",
    "versions": "The certificate's 'versions' are not those of Python and the packages that matter.",
}


def parse(content: object) -> Certificate:
    """Returns a certificate of format 3 from the contents of its file.

    Raises:
        CertificateError: an unknown or missing field, or a value of another type, in one sentence.
    """
    try:
        return Certificate.model_validate(content, by_alias=True, by_name=False)
    except ValidationError as error:
        raise CertificateError(_sentence(content, error.errors(include_url=False)[0])) from None
    except RecursionError:
        raise CertificateError("certificate.json is nested more deeply than any certificate.") from None


def _sentence(content: Any, fault: Any) -> str:
    kind, place = fault["type"], _place(content, fault["loc"], fault["type"])
    if not place:
        return "The certificate is not a JSON object."
    name, where = place[0], plain(".".join(place))
    if kind == "missing":
        return f"The certificate has no {where!r}."
    if kind == "extra_forbidden":
        return f"The certificate has a field that this version does not know: {where}."
    if name in _NOT_SUCH and (kind in ("string_pattern_mismatch", "value_error") or len(place) > 1):
        return _NOT_SUCH[name]
    return f"The certificate's {where!r} is of the wrong type or out of its bounds."


def _place(content: object, loc: tuple[Any, ...], kind: str) -> list[str]:
    """Returns the path of a fault without pydantic's tags for members of a union."""
    result: list[str] = []
    for k, part in enumerate(loc):
        if isinstance(content, dict | list) and part in (content if isinstance(content, dict) else range(len(content))):
            content = content[part]
        elif kind != "missing" or k < len(loc) - 1:
            continue
        result.append(str(part))
    return result


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) of certificate.json, as stored in certificate-3.schema.json."""
    result = Certificate.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **result}


def schema_text() -> str:
    """Returns the text of certificate-3.schema.json: `SCHEMA_FILE.write_text(schema_text())` writes the file again."""
    return json.dumps(json_schema(), indent=2) + "\n"
