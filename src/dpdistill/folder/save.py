"""Writes and reads the public folder's synthetic set: arrays, and 8-bit images or the table as CSV and Parquet."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np

from dpdistill.folder.layout import (
    CERTIFICATE,
    CLASSIFIER,
    CSV,
    GENERATOR,
    GRID,
    IMAGES,
    MARGINALS,
    MODEL,
    OWNERS,
    PARQUET,
    RECIPE,
    SCHEMA,
    SCORECARD,
    SYNTHETIC,
    TRAINING,
    checked_accuracy,
    checked_counts,
    is_listed,
    read_accuracy,
    read_arrays,
    read_counts,
    read_labelled,
)
from dpdistill.folder.pictures import draw_grid, to_picture
from dpdistill.folder.scorecard import scorecard_content
from dpdistill.method import Distilled
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema
from dpdistill.schema.counts import ReleasedCounts
from dpdistill.sources.images import npz
from dpdistill.storage.atomic import write_atomically, writing
from dpdistill.storage.files import reading, show

Labelled = tuple[np.ndarray, np.ndarray]

_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def check_output(folder: str | os.PathLike, overwrite: bool = False) -> Path:
    """Tests, without writing, that a public folder can be written at a path.

    Args:
        folder: the folder; it need not exist.
        overwrite: allow a folder with an earlier result of this program in it (recipe.json or certificate.json).

    Returns:
        Its absolute path, links resolved.

    Raises:
        DataError: not writable, not empty, no result of this program, named like a folder that is never shared, or the
            root, home or working folder or one that contains them.
    """
    text = os.fspath(folder)
    if not text or "\0" in text:
        raise DataError("Expected a folder for the output; got an empty or impossible path.")
    with reading(text):
        path = _resolve(text)
        if path.suffix in OWNERS:
            raise DataError(
                f"{show(path)} has the name of an owner's folder, which is never shared: choose an output folder "
                f"whose name does not end in {path.suffix}."
            )
        for kept in (Path("/"), Path.home(), Path.cwd()):
            if kept.resolve().is_relative_to(path):
                raise DataError(f"{show(path)} is or holds your home or working folder: choose another output folder.")
        existing = check_writable(path)
        names = os.listdir(path) if existing == path else []
    if names and not overwrite:
        raise DataError(f"{show(path)} is not empty: choose another folder, or pass --overwrite.")
    if names and not any((path / name).is_file() for name in (RECIPE, CERTIFICATE)):
        raise DataError(f"{show(path)} holds files that are not an earlier result: choose another folder.")
    return path


def check_writable(path: Path) -> Path:
    """Tests, without writing, that a folder exists or can be created; returns the nearest existing folder.

    Raises:
        DataError: the folder cannot be created or written to.
    """
    existing = next(p for p in (path, *path.parents) if p.exists())
    if not existing.is_dir():
        raise DataError(f"{show(existing)} is a file; expected a folder for the output.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise DataError(f"{show(existing)} cannot be written to.")
    return existing


def audit_folder(folder: str | os.PathLike) -> Path:
    """Returns the folder of the owner's pages about a folder, DIR.audit; it need not exist.

    Raises:
        DataError: a folder without a name, or a path that cannot be written to.
    """
    with reading(folder):
        path = Path(folder).resolve()
        if not path.name:
            raise DataError("Expected a name for the page's folder, NAME.audit; got the root of all folders.")
        pages = path.with_name(f"{path.name}.audit")
        check_writable(pages)
    return pages


def _resolve(text: str) -> Path:
    try:
        return Path(text).resolve()
    except RuntimeError:
        raise DataError(f"{show(text)} is a loop of links.") from None


def write_distilled(folder: str | os.PathLike, distilled: Distilled, model: bytes | None = None) -> None:
    """Writes a synthetic set: arrays, and a grid and 8-bit images of the training records, or the table and its schema.

    Files of earlier results (images/<class>/000.png, training.npz, synthetic.csv and so on) are removed if the new
    result has no such file. Other files stay. Equal input gives equal bytes, and each file is written atomically. Call
    check_output first.

    Args:
        folder: the public folder; created if missing.
        distilled: at least one record; all values finite. Images are stored in raw units. Table rows are stored encoded
            in synthetic.npz and with their own columns in synthetic.csv and synthetic.parquet.
        model: contents of classifier.onnx, or None for a set without it.

    Raises:
        DataError: arrays that do not fit the schema, or a folder that cannot be written.
    """
    path, schema, classes = Path(folder), distilled.schema, len(distilled.schema.classes)
    X, y = _checked(distilled.X, distilled.y, schema)
    contents = {SYNTHETIC: labelled_arrays(X, y, schema)}
    if distilled.targets is not None:
        contents[SYNTHETIC]["targets"] = _checked_columns("targets", distilled.targets, len(X), classes)
    trained_on, train_set = SYNTHETIC, (X, y)
    if distilled.training is not None:
        trained_on, train_set = TRAINING, _checked(*distilled.training, schema)
        contents[TRAINING] = labelled_arrays(*train_set, schema)
    if distilled.soft_labels is not None:
        rows = len(contents[trained_on]["y"])
        contents[trained_on]["soft_labels"] = _checked_probabilities(distilled.soft_labels, rows, classes)
    if distilled.classifier is not None:
        contents[CLASSIFIER] = {
            "classifier": _checked_columns("classifier", distilled.classifier, None, outputs_of(schema))
        }
        if distilled.counts is not None:
            contents[CLASSIFIER]["counts"] = checked_counts(distilled.counts)
        if distilled.accuracy is not None:
            contents[CLASSIFIER]["accuracy"] = checked_accuracy(distilled.accuracy, classes)
    if distilled.generator is not None:
        contents[GENERATOR] = distilled.generator.to_arrays()
    if distilled.marginals is not None:
        contents[MARGINALS] = distilled.marginals.to_arrays()
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        _remove_pictures(path)
        for name, arrays in contents.items():
            npz.write_file(path / name, arrays)
        if model is not None:
            write_atomically(path / MODEL, lambda file: file.write(model))
        absent = {TRAINING, CLASSIFIER, GENERATOR, MARGINALS, CSV, PARQUET, SCHEMA, SCORECARD, GRID}
        absent |= {MODEL} if model is None else set()
        for name in absent - contents.keys():
            (path / name).unlink(missing_ok=True)
        if isinstance(schema, TableSchema):
            _write_table(path, X, y, schema)
            if distilled.classifier is not None:
                content = scorecard_content(contents[CLASSIFIER]["classifier"], schema)
                write_atomically(path / SCORECARD, lambda file: file.write(content))
        else:
            # As they are read back: rounding to the file's units may move a pixel to the next level.
            _write_grid(path, _as_stored(X, schema), y, schema.classes)
            _write_pictures(path, _as_stored(train_set[0], schema), train_set[1], schema.classes)


def _as_stored(X: np.ndarray, schema: Schema) -> np.ndarray:
    return schema.to_unit(schema.from_unit(X))


def _write_table(path: Path, X: np.ndarray, y: np.ndarray, schema: TableSchema) -> None:
    from dpdistill.folder.tables import write_table
    from dpdistill.sources.tables.schema_file import TableFile, write_schema

    write_table(path, schema.from_unit(X), y, schema)
    write_schema(path / SCHEMA, TableFile(schema, reviewed=True))


def _write_grid(path: Path, X: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> None:
    grid = draw_grid(X, y, classes)
    write_atomically(path / GRID, lambda file: grid.save(file, "PNG"))


def _write_pictures(path: Path, X: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> None:
    for k, name in enumerate(folder_names(classes)):
        for i, row in enumerate(np.flatnonzero(y == k)):
            (path / IMAGES / name).mkdir(parents=True, exist_ok=True)
            picture = to_picture(X[row])
            write_atomically(path / IMAGES / name / f"{i:03d}.png", lambda file, p=picture: p.save(file, "PNG"))


def read_distilled(folder: str | os.PathLike) -> Distilled:
    """Returns the synthetic set of a public folder, with records in [-1, 1].

    Raises:
        DataError: a missing or damaged file.
    """
    path = Path(folder)
    with reading(path):
        if not path.is_dir():
            raise DataError(f"{show(path)} is not a folder with a synthetic set.")
        X, y, schema, arrays = read_labelled(path / SYNTHETIC)
        X, y = _in_unit(X, y, schema)
        targets, soft_labels = arrays.get("targets"), arrays.get("soft_labels")
        classifier = training = None
        if (path / TRAINING).exists():
            X_training, y_training, other, beside = read_labelled(path / TRAINING)
            soft_labels = beside.get("soft_labels")
            if other != schema:
                raise DataError(f"{show(path)} has a {TRAINING} that does not belong to its {SYNTHETIC}.")
            training = _in_unit(X_training, y_training, schema)
        if (path / CLASSIFIER).exists():
            classifier = read_arrays(path / CLASSIFIER).get("classifier")
            if classifier is None:
                raise DataError(f"{show(path / CLASSIFIER)} has no array 'classifier'.")
    counts, accuracy = read_counts(path), read_accuracy(path, len(schema.classes))
    if targets is not None:
        targets = _checked_columns("targets", targets, len(X), len(schema.classes))
    if soft_labels is not None:
        rows = len(X if training is None else training[0])
        soft_labels = _checked_probabilities(soft_labels, rows, len(schema.classes))
    if classifier is not None:
        classifier = _checked_columns("classifier", classifier, None, outputs_of(schema))
    released = {"counts": counts if len(counts) else None, "accuracy": accuracy}
    return Distilled(X, y, schema, training, targets, classifier, soft_labels=soft_labels, **released)


def read_generator(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns the arrays of the generator in a public folder.

    Raises:
        DataError: the folder has none, or it is damaged.
    """
    path = Path(folder) / GENERATOR
    if not path.is_file():
        raise DataError(f"{show(folder)} has no generator, so no more records can be made.")
    return read_arrays(path)


def read_counts_of_cells(folder: str | os.PathLike, schema: TableSchema) -> ReleasedCounts | None:
    """Returns the released counts of a table's cells in a public folder; None without any.

    Raises:
        DataError: a damaged file.
    """
    path = Path(folder) / MARGINALS
    return ReleasedCounts.from_arrays(read_arrays(path), schema) if path.is_file() else None


def _in_unit(X: np.ndarray, y: np.ndarray, schema: AnySchema) -> Labelled:
    """Returns stored records in [-1, 1]."""
    X = X if isinstance(schema, TableSchema) else schema.to_unit(X)
    X, y = _checked(X, y, schema)
    return X, y.astype(np.int32)


def _checked(X: np.ndarray, y: np.ndarray, schema: AnySchema) -> Labelled:
    X, y = np.asarray(X, np.float32), np.asarray(y, np.int64)
    if X.ndim == 0 or X.shape[1:] != schema.shape or len(X) == 0:
        expected = ", ".join(map(str, ("m", *schema.shape)))
        raise DataError(f"Expected synthetic X of shape ({expected}), m >= 1; got {X.shape}.")
    if not np.isfinite(X).all():
        raise DataError("Expected a synthetic set of finite values; got NaN or infinity.")
    X = np.clip(X, -1.0, 1.0)
    if y.shape != X.shape[:1] or y.min() < 0 or y.max() >= len(schema.classes):
        raise DataError(f"Expected one class index from 0 to {len(schema.classes) - 1} for each synthetic record.")
    return X, y


def _checked_columns(name: str, M: np.ndarray, rows: int | None, classes: int) -> np.ndarray:
    """Returns a finite matrix with a column per class, float32; without stated rows, any number of rows but 0."""
    if np.asarray(M).dtype.kind not in "uif":
        raise DataError(f"Expected {name} of numbers; got {np.asarray(M).dtype}.")
    with np.errstate(over="ignore"):
        M = np.array(M, np.float32)
    if M.ndim != 2 or M.shape != (rows or max(1, len(M)), classes):
        raise DataError(f"Expected {name} of shape ({rows or 'd'}, {classes}); got {M.shape}.")
    if not np.isfinite(M).all():
        raise DataError(f"Expected finite {name}; got NaN or infinity.")
    return M


def outputs_of(schema: AnySchema) -> int:
    """Returns the number of outputs of a released classifier: one per class, or two for a number to predict."""
    return schema.outputs if isinstance(schema, TableSchema) else len(schema.classes)


def _checked_probabilities(M: np.ndarray, rows: int, classes: int) -> np.ndarray:
    M = _checked_columns("soft_labels", M, rows, classes)
    if (M < 0).any() or np.abs(M.sum(1) - 1).max(initial=0.0) > 1e-3:
        raise DataError("Expected soft_labels whose rows are probabilities: >= 0, of sum 1.")
    return M


def labelled_arrays(X: np.ndarray, y: np.ndarray, schema: AnySchema) -> dict[str, np.ndarray]:
    """Returns labelled records as they are stored, with the public facts that give them a meaning."""
    if isinstance(schema, TableSchema):
        return {"X": X, "y": y.astype("<i8"), "schema": np.array(json.dumps(schema.to_json()))}
    return {
        "X": schema.from_unit(X),
        "y": y.astype("<i8"),
        "classes": np.array(schema.classes),
        "bounds": np.array(schema.bounds, "<f8"),
        **({"straightened": np.array(True)} if schema.straightened else {}),
        **({"inferred": np.array(schema.inferred)} if schema.inferred else {}),
    }


def _remove_pictures(path: Path) -> None:
    images = path / IMAGES
    if not images.is_dir() or images.is_symlink():
        return
    for folder in sorted(p for p in images.iterdir() if p.is_dir() and not p.is_symlink()):
        for file in sorted(folder.iterdir()):
            if is_listed(file.relative_to(path).as_posix()):
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def folder_names(classes: tuple[str, ...]) -> list[str]:
    """Returns class names that are valid in every file system, and distinct in any case of letters."""
    names: list[str] = []
    taken: set[str] = set()
    for name in classes:
        safe = re.sub(r"[^\w.-]", "_", name)[:60].strip(".") or "class"
        safe = f"{safe}_" if _RESERVED.fullmatch(safe) else safe
        candidate, number = safe, 2
        while candidate.casefold() in taken:
            candidate, number = f"{safe}-{number}", number + 1
        taken.add(candidate.casefold())
        names.append(candidate)
    return names
