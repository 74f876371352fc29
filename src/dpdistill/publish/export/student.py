"""Writes a student network for its receiver: weights, ONNX file, program, and a statement of its guarantee."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpdistill.folder.layout import CARD, CERTIFICATE, PREDICT, RECIPE, sha256
from dpdistill.publish.export import program
from dpdistill.publish.export.documents import write_text
from dpdistill.publish.report.folder import read_folder
from dpdistill.publish.report.guarantee import read_guarantee
from dpdistill.publish.report.words import bound, plain
from dpdistill.publish.templating import environment
from dpdistill.storage.atomic import write_atomically, writing
from dpdistill.storage.safetensors import safetensors_bytes

WEIGHTS, MODEL, STATEMENT = "student.safetensors", "student.onnx", "student.json"
POST_PROCESSING = (
    "Post-processing: this network was computed from the files of the shared folder and from procedurally generated "
    "images alone. The guarantee of certificate.json holds for the network, at no further cost in epsilon."
)
OWN_IMAGES = (
    "This network also learned from images that its maker brought along. The guarantee of certificate.json does not "
    "cover these images."
)
NOTHING = "The shared folder has no privacy guarantee, so the network has none: handle it like the private records."


class Student(NamedTuple):
    """A trained network.

    Args:
        architecture: title of the architecture.
        weights: parameters by name.
        model: contents of student.onnx; None without onnx.
        taught: sentence about teacher and images.
        own_images: whether the teacher scored images that the caller brought along.
        seed: public seed.
    """

    architecture: str
    weights: dict[str, np.ndarray]
    model: bytes | None
    taught: str
    own_images: bool
    seed: int


def statement(source: Path, student: Student) -> dict[str, Any]:
    """Returns the certificate of a student: how it was made, and what guarantee holds."""
    guarantee = read_guarantee(read_folder(source).certificate)
    held = guarantee.holds
    claim = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "unit": plain(guarantee.unit or "one row")}
    return {
        "format": 1,
        "guarantee": (OWN_IMAGES if student.own_images else POST_PROCESSING) if held else NOTHING,
        "claim": claim if held and not student.own_images else None,
        "certificate_sha256": sha256(source / CERTIFICATE),
        "architecture": student.architecture,
        "taught": student.taught,
        "seed": student.seed,
        "not_checked": "dpdistill verify checks the shared folder, not how this network was trained.",
    }


def write_student(to: Path, source: Path, student: Student) -> None:
    """Writes a folder with student.safetensors, student.json, README.md, the certificate and, with onnx, student.onnx.

    Args:
        to: the folder; created.
        source: the shared folder of the teacher.
        student: the network.

    Raises:
        DataError: a folder that cannot be read or written.
    """
    folder, stated = read_folder(source), statement(source, student)
    files = {WEIGHTS: safetensors_bytes(student.weights, {"architecture": student.architecture})}
    if student.model is not None:
        files[MODEL] = student.model
    stated["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    with writing(to):
        to.mkdir(parents=True)
        for name, content in files.items():
            write_atomically(to / name, lambda file, content=content: file.write(content))
        for name in (CERTIFICATE, RECIPE):
            shutil.copyfile(source / name, to / name)
        if student.model is not None:
            write_text(to / PREDICT, program.program_of(folder.schema, MODEL))
        write_text(to / STATEMENT, json.dumps(stated, indent=2, ensure_ascii=False) + "\n")
        claim = stated["claim"]
        page = environment("dpdistill.publish.export").get_template("student.md")
        shown = None if claim is None else f"ε = {bound(claim['epsilon'])}, δ = {claim['delta']:g}, for {claim['unit']}"
        facts = {"stated": stated, "claim": shown, "shape": folder.schema.shape, "model": student.model is not None}
        write_text(to / CARD, page.render(facts))
