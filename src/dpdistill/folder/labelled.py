"""Writes images with their classes, and a released classifier's scores of them, as files to train on."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np

from dpdistill.folder.pictures import to_picture
from dpdistill.schema import DataError, Schema
from dpdistill.sources.images import npz
from dpdistill.storage.atomic import write_atomically, writing
from dpdistill.storage.files import show

LABELS, ABOUT = "labels.csv", "about.json"


def check_target(path: Path, folder_only: bool = False) -> None:
    """Refuses, before any work, a path to which images cannot be written.

    Raises:
        DataError: the path exists, or is a file other than .npz, or any file with folder_only.
    """
    if folder_only and path.suffix:
        raise DataError(f"Expected --out as a folder with --format; got {show(path)}.")
    if path.suffix not in ("", ".npz"):
        raise DataError(f"Expected --out as a .npz file or a folder; got {show(path)}.")
    if path.exists():
        raise DataError(f"{show(path)} exists: choose another path with --out.")


def write_dpimagebench(folder: Path, X: np.ndarray, y: np.ndarray) -> None:
    """Writes gen/gen.npz in a new folder, the format in which the public benchmark DPImageBench reads synthetic images.

    Args:
        folder: a new folder.
        X: images in [-1, 1], (n, h, w, c); stored as x (n, c, h, w) float32 in [0, 1].
        y: class indices, (n,).

    Raises:
        DataError: the folder exists or cannot be written.
    """
    check_target(folder, folder_only=True)
    with writing(folder):
        (folder / "gen").mkdir(parents=True)
        x = np.clip((np.moveaxis(X, 3, 1) + 1.0) / 2.0, 0.0, 1.0).astype("<f4")
        npz.write_file(folder / "gen" / "gen.npz", {"x": x, "y": y.astype("<i8")})


def write_labelled(
    path: Path,
    X: np.ndarray,
    y: np.ndarray,
    scores: np.ndarray | None,
    schema: Schema,
    about: dict,
    more: dict[str, np.ndarray] | None = None,
) -> None:
    """Writes images and labels as arrays X, y, targets, classes, bounds of a .npz file, or as PNG files and a CSV.

    Args:
        path: a new .npz file, or a new folder: images/000000.png and so on, labels.csv, about.json.
        X: images in [-1, 1], (n, h, w, c).
        y: class indices, (n,).
        scores: scores of the classes, (n, classes), or None.
        schema: public facts.
        about: origin of the images and the scores.
        more: further arrays of a .npz file by name, with a row per image.

    Raises:
        DataError: a path that cannot be written.
    """
    check_target(path)
    text = json.dumps(about | ({"straightened": True} if schema.straightened else {}), indent=2)
    scored = np.zeros((len(X), 0)) if scores is None else scores
    with writing(path):
        if path.suffix == ".npz":
            facts = {"classes": np.array(schema.classes), "bounds": np.array(schema.bounds, "<f8")}
            facts |= {"straightened": np.array(True)} if schema.straightened else {}
            arrays = {"X": schema.from_unit(X), "y": y.astype("<i8"), **facts, "about": np.array(text), **(more or {})}
            npz.write_file(path, arrays if scores is None else {**arrays, "targets": scores.astype("<f4")})
            return
        (path / "images").mkdir(parents=True)
        names = [f"images/{i:06d}.png" for i in range(len(X))]
        for name, x in zip(names, X, strict=True):
            to_picture(x).save(path / name, "PNG")
        rows = io.StringIO(newline="")
        table = csv.writer(rows)
        table.writerow(["file", "class", *(f"score of {name}" for name in schema.classes[: scored.shape[1]])])
        table.writerows([name, k, *(f"{s:.6g}" for s in row)] for name, k, row in zip(names, y, scored, strict=True))
        write_atomically(path / LABELS, lambda file: file.write(rows.getvalue().encode()))
        write_atomically(path / ABOUT, lambda file: file.write(text.encode()))
