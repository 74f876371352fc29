"""Exports a synthetic set as arrays in PyTorch's layout or as a CSV file."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import numpy as np

from dpdistill.folder.layout import CARD, CSV, TRAINING
from dpdistill.folder.save import read_distilled
from dpdistill.publish.export import card
from dpdistill.publish.export.documents import write_text
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report.folder import Folder
from dpdistill.schema import TableSchema
from dpdistill.sources.images import npz

DATASET = '''"""The records of train.npz as a torch Dataset of (x, y), or of (x, probabilities) with soft=True."""

from pathlib import Path

import numpy as np
import torch


class Synthetic(torch.utils.data.TensorDataset):
    def __init__(self, soft=False, file=Path(__file__).with_name("train.npz")):
        with np.load(file) as arrays:
            super().__init__(torch.from_numpy(arrays["X"]), torch.from_numpy(arrays["soft_labels" if soft else "y"]))
'''


def write_torch(source: Path, to: Path, folder: Folder, publisher: Publisher) -> None:
    """Writes a folder with train.npz, dataset.py and README.md.

    train.npz holds the records that networks are trained on. X is float32: images as (m, channels, height, width) in
    [0, 1], encoded table rows as (m, d) in [-1, 1]. y is int64. `classes` names the classes. Sets with soft labels add
    soft_labels (m, classes).
    """
    distilled = read_distilled(source)
    X, y = distilled.train_set
    if not isinstance(distilled.schema, TableSchema):
        X = (np.moveaxis(X, 3, 1) + np.float32(1.0)) / np.float32(2.0)
    arrays = {"X": np.ascontiguousarray(X, "<f4"), "y": y.astype("<i8"), "classes": np.array(distilled.schema.classes)}
    if distilled.soft_labels is not None:
        arrays["soft_labels"] = distilled.soft_labels.astype("<f4")
    to.mkdir(parents=True)
    npz.write_file(to / "train.npz", arrays)
    write_text(to / "dataset.py", DATASET)
    kind = "encoded rows, (m, d) in [-1, 1]"
    if not isinstance(distilled.schema, TableSchema):
        kind = "images as (m, channels, height, width) in [0, 1]"
    soft = ", `soft_labels` (m, classes)" if distilled.soft_labels is not None else ""
    values = f"`train.npz` holds {len(y):,} records: `X`, float32, {kind}, `y`, `classes`{soft}. `dataset.py` reads it."
    write_text(to / CARD, card.describe(folder, publisher, card.Elsewhere({}, values)))


def write_csv(source: Path, to: Path, folder: Folder, publisher: Publisher) -> None:
    """Writes a CSV file: synthetic.csv of a table, or the columns label and pixel_ROW_COLUMN[_CHANNEL] of images.

    Pixels are raw values. A row is an image that models are trained on: a tile if the set has tiles.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(folder.schema, TableSchema):
        shutil.copyfile(source / CSV, to)
        return
    height, width, channels = folder.schema.shape
    names = [f"pixel_{i}_{j}" for i in range(height) for j in range(width)]
    if channels > 1:
        names = [f"{name}_{k}" for name in names for k in range(channels)]
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["label", *names])
    X, y = folder.X, folder.y
    if folder.has(TRAINING):
        X, y = read_distilled(source).train_set
        X = folder.schema.from_unit(X)
    for x, k in zip(np.asarray(X, np.float32), y, strict=True):
        table.writerow([folder.schema.classes[k], *map(str, x.ravel())])
    write_text(to, text.getvalue())
