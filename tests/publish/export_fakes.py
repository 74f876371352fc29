"""Small sets, a publisher, and what verify says of documents: for the tests of this folder."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import yaml
from jsonschema import Draft7Validator

from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.certificate.build import SYSTEM_NOISE
from dpdistill.method import Distilled
from dpdistill.publish.export import Publisher
from dpdistill.publish.export.documents import compare
from dpdistill.publish.report.folder import read_folder
from dpdistill.query import Stage
from dpdistill.run import Result
from dpdistill.schema import Column, Schema, TableSchema

REGISTRY = yaml.safe_load((Path(__file__).parent / "registry_schema.yaml").read_text())
STATED = Publisher(
    name="Ward round",
    curator="General Hospital",
    curator_type="Nonprofit",
    license="cc-by-4.0",
    url="https://example.org/ward",
    intended_use="Teaching",
    region="Bavaria",
    sector="Healthcare",
    author="A. Steward",
    justification="Nobody is told from the others",
    date="2027-02-03",
    version="2.0.0",
    cite="General Hospital (2027). Ward round.",
    source="Stays of 2020 to 2022",
    period="2020-01-01/2022-12-31",
    biases="One hospital only",
    sensitive="age, ward",
    social_impact="Students learn without patients",
)
CLASSES = ("cat", "a*b <i>c</i>|d")
SCHEDULE = calibrate((Stage(4),), Budget(1.5, 1e-6))
RECIPE = {
    "method": "dos",
    "fields": {"per_class": 2},
    "seed": 0,
    "origin": "package default",
    "references": ["A. Author (2020). On noise."],
}


def images(**changes) -> Distilled:
    X = np.linspace(-1, 1, 4 * 12, dtype=np.float32).reshape(4, 2, 2, 3)
    schema = Schema((2, 2, 3), (0.0, 255.0), CLASSES)
    return dataclasses.replace(Distilled(X, np.array([0, 0, 1, 1], np.int32), schema), **changes)


def rows() -> Distilled:
    columns = (
        Column("age", "integer", (0.0, 110.0)),
        Column("cost", "numeric", (0.0, 1.0), missing=True),
        Column("ward", "categorical", categories=("A", "B")),
    )
    schema = TableSchema(columns, "outcome", ("well", "ill"), unit="patient")
    raw = np.array([[30, 0.25, 0], [40, np.nan, 1], [50, 0.75, 1]])
    return Distilled(schema.to_unit(raw), np.array([0, 1, 1], np.int32), schema)


def save(folder: Path, distilled: Distilled, schedule=SCHEDULE, noise=SYSTEM_NOISE) -> Path:
    return Result(distilled, RECIPE, schedule, noise if schedule else None).save(folder)


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "copy"))


def errors_of(record: dict) -> list[str]:
    found = Draft7Validator(REGISTRY, format_checker=Draft7Validator.FORMAT_CHECKER).iter_errors(record)
    return sorted(error.message for error in found)


def said_of(folder: Path) -> dict[str, bool | None]:
    return {name: agrees for name, agrees, _ in compare(folder, read_folder(folder))}
