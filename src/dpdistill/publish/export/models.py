"""Exports a released classifier, features included, as an ONNX file."""

from __future__ import annotations

from pathlib import Path

from dpdistill.folder.layout import CARD, MODEL, PREDICT
from dpdistill.folder.save import read_distilled
from dpdistill.graphs.released import encoder_in, released_model
from dpdistill.publish.export import card, program
from dpdistill.publish.export.documents import write_text
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report.folder import Folder
from dpdistill.schema import DataError, Schema
from dpdistill.storage.atomic import write_atomically


def write_onnx(source: Path, to: Path, folder: Folder, publisher: Publisher) -> None:
    """Writes a folder with classifier.onnx, predict.py and README.md.

    Raises:
        DataError: a set without a released classifier, onnx is not installed, or the features have no translation.
    """
    distilled = read_distilled(source)
    if not isinstance(distilled.schema, Schema):
        raise DataError("Expected a set of images: the classifier of a table is its scorecard.csv, if it has one.")
    model = released_model(distilled, encoder_in(folder.recipe.get("fields", {}), distilled.counts))
    to.mkdir(parents=True)
    write_atomically(to / MODEL, lambda file: file.write(model))
    write_text(to / PREDICT, program.describe(folder, publisher))
    height, width, channels = distilled.schema.shape
    values = (
        f"`{MODEL}` takes `images`, float32, (n, {height}, {width}, {channels}) in raw values, and returns `scores`, "
        f"(n, {len(distilled.schema.classes)}). `python {PREDICT} IMAGE` classifies image files."
    )
    write_text(to / CARD, card.describe(folder, publisher, card.Elsewhere({}, values)))
