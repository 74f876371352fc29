"""The folder to share: its files, those that a certificate lists, and functions that read them.

A folder may come from an untrusted source. JSON is read up to 16 MiB, without duplicate names in an object. Arrays are
read only from archives without compression, as the package writes them: no file grows while it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_STORED

import numpy as np

from dpdistill.schema import AnySchema, DataError, Schema, TableSchema
from dpdistill.sources.images import npz
from dpdistill.storage.files import is_hidden, show

CERTIFICATE, RECIPE, REPORT, SCORES = "certificate.json", "recipe.json", "report.html", "scores.json"
SYNTHETIC, TRAINING, CLASSIFIER, GENERATOR = "synthetic.npz", "training.npz", "classifier.npz", "generator.npz"
CSV, PARQUET, SCHEMA, SCORECARD = "synthetic.csv", "synthetic.parquet", "schema.yaml", "scorecard.csv"
GRID, IMAGES = "synthetic.png", "images"
CROISSANT, CARD, DEPLOYMENT = "croissant.json", "README.md", "deployment.yaml"
MODEL, PREDICT = "classifier.onnx", "predict.py"
MARGINALS = "marginals.npz"

LISTED = (SYNTHETIC, TRAINING, CLASSIFIER, MODEL, GENERATOR, MARGINALS, CSV, PARQUET, SCHEMA, SCORECARD, GRID, RECIPE)
"""Files that a certificate lists by SHA-256, in addition to the 8-bit images images/<class>/000.png."""
UNLISTED = (CERTIFICATE, REPORT, SCORES, CROISSANT, CARD, DEPLOYMENT, PREDICT)
"""Files outside the certificate's list: the certificate itself, page and documents that can be made again from the
folder, and scores, which epsilon does not cover.
"""
SUMS = "documents.sha256"
"""SHA-256 of each file outside the certificate's list, written when a folder is signed; `sha256sum -c` reads it."""
OWNERS = (".run", ".audit")
"""Endings of the owner's folders, which stand next to a shared one and are never shared."""
FINISHED = "finished"
"""File in the owner's folder of a run: the SHA-256 of each certificate made from its releases, one per line."""
MAX_JSON = 16 << 20
MAX_MODEL = 80 << 20
"""Largest size of classifier.onnx that is read."""
ROUNDING = 1e-5
"""Distance by which single precision may leave [-1, 1]."""

_SIGNATURE = re.compile(rf"({re.escape(CERTIFICATE)}|{re.escape(SUMS)})(?:\.([A-Za-z0-9_-]{{1,40}}))?\.sig")
_PICTURE = re.compile(rf"{IMAGES}/[^/]+/\d{{3,}}\.png")
_ENDINGS = {Path(name).suffix for name in (*LISTED, *UNLISTED) if name not in (CARD, PREDICT)} | {
    ".npy",
    ".htm",
    ".yml",
}


def owner_folder(folder: Path) -> Path:
    """Returns the owner's folder DIR.run of the run whose result is in the folder DIR."""
    return folder.with_name(folder.name + ".run")


def is_listed(name: str) -> bool:
    """Returns whether a certificate lists a file of that name, relative to the folder and with slashes."""
    return name in LISTED or _PICTURE.fullmatch(name) is not None


def signature_name(signed: str, signer: str | None) -> str:
    """Returns the name of a detached signature: certificate.json.sig, or certificate.json.NAME.sig of another signer.

    Raises:
        DataError: a name of other characters than letters, digits, "-" and "_", or of more than 40.
    """
    name = f"{signed}.sig" if signer is None else f"{signed}.{signer}.sig"
    if _SIGNATURE.fullmatch(name) is None:
        raise DataError(f"Expected 1 to 40 letters, digits, '-' or '_' as the signer's name; got {signer!r:.80}.")
    return name


def signer_of(name: str) -> tuple[str, str | None] | None:
    """Returns (signed file, name of the signer or None) of a signature's file name; None for any other file."""
    found = _SIGNATURE.fullmatch(name)
    return None if found is None else (found[1], found[2])


def is_signing(name: str) -> bool:
    """Returns whether a file belongs to a signed folder: a detached signature, or the list of the documents' hashes."""
    return name == SUMS or signer_of(name) is not None


def looks_listed(name: str) -> bool:
    """Returns whether a file could be mistaken for a run's file: it lies in images/ or has such an ending."""
    path = Path(name)  # file managers leave hidden files in folders of images
    return (name.startswith(f"{IMAGES}/") and not is_hidden(path.name)) or path.suffix.lower() in _ENDINGS


def list_files(folder: Path) -> list[str]:
    """Returns the names of all entries below a folder that are no folders, sorted, with slashes; a link is a file."""
    return walk(folder)[0]


def walk(folder: Path) -> tuple[list[str], list[str]]:
    """Returns (names of files, names of folders) below a folder, sorted, with slashes; links are files, not followed.

    Raises:
        OSError: a folder that cannot be read.
    """
    files, folders, left = [], [], [folder] if folder.is_dir() else []
    while left:  # no recursion: an untrusted folder may be deep
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                inner = entry.is_dir(follow_symlinks=False)
                (folders if inner else files).append(path.relative_to(folder).as_posix())
                left += [path] if inner else []
    return sorted(files), sorted(folders)


def is_plain(path: Path) -> bool:
    """Returns whether a path is a regular file: no link, which may lead out of the folder, no pipe and no device."""
    return not path.is_symlink() and path.is_file()


def hash_files(folder: str | Path) -> dict[str, str]:
    """Returns the SHA-256 of the files that a certificate lists.

    Args:
        folder: the folder to share.

    Returns:
        Digest by file name, relative to the folder, sorted.
    """
    folder = Path(folder)
    names = [name for name in list_files(folder) if is_listed(name) and is_plain(folder / name)]
    return {name: sha256(folder / name) for name in names}


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """Returns the contents of a JSON file.

    Raises:
        DataError: missing, larger than 16 MiB, no JSON, or a duplicate name in one object.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise DataError(f"Expected each name once in an object of {show(path)}; found a duplicate.")
        return result

    _require(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_JSON + 1)
        if len(content) > MAX_JSON:
            raise DataError(f"Expected at most {MAX_JSON >> 20} MiB of JSON in {show(path)}; it is larger.")
        return json.loads(content.decode("utf-8"), object_pairs_hook=once)
    except DataError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"Expected JSON in {show(path)}; it cannot be read ({type(error).__name__}).") from None


def read_object(path: Path) -> dict[str, Any]:
    """Returns the contents of a JSON file, which must be an object.

    Raises:
        DataError: as `read_json`, or the contents are no object.
    """
    data = read_json(path)
    if not isinstance(data, dict):
        raise DataError(f"Expected a JSON object in {show(path)}; got {type(data).__name__}.")
    return data


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Returns all arrays of a .npz file by name, memory-mapped.

    Raises:
        DataError: missing, compressed, or damaged.
    """
    _require(path)
    with npz.open_archive(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        if any(member.compress_type != ZIP_STORED for member in members):
            raise DataError(f"Expected arrays without compression in {show(path)}; found compressed ones.")
        names = [member.filename for member in members]
        return {name.removesuffix(".npy"): npz.read_member(path, archive, name) for name in names}


def read_counts(folder: Path) -> np.ndarray:
    """Returns the released counts of a recipe's candidates in classifier.npz, float64; none without a choice.

    Raises:
        DataError: a damaged file, or counts of another form.
    """
    counts = read_arrays(folder / CLASSIFIER).get("counts") if (folder / CLASSIFIER).exists() else None
    return np.zeros(0) if counts is None else checked_counts(counts)


def checked_counts(counts: np.ndarray) -> np.ndarray:
    """Returns the released counts of candidates: two or more finite numbers, float64.

    Raises:
        DataError: counts of another form.
    """
    if counts.dtype != np.float64 or counts.ndim != 1 or len(counts) < 2 or not np.isfinite(counts).all():
        raise DataError(f"Expected counts as two or more finite float64 numbers; got {counts.dtype} {counts.shape}.")
    return np.array(counts)


def read_accuracy(folder: Path, classes: int) -> np.ndarray | None:
    """Returns the released accuracy in classifier.npz, (classes + 1, 4), float64; None if there is none.

    Raises:
        DataError: a damaged file, or an accuracy of another form.
    """
    found = read_arrays(folder / CLASSIFIER).get("accuracy") if (folder / CLASSIFIER).exists() else None
    return None if found is None else checked_accuracy(found, classes)


def checked_accuracy(accuracy: np.ndarray, classes: int) -> np.ndarray:
    """Returns a released accuracy: finite numbers, a row per class and one for all, float64.

    Raises:
        DataError: an accuracy of another form.
    """
    shape = (classes + 1, 4)
    if accuracy.dtype != np.float64 or accuracy.shape != shape or not np.isfinite(accuracy).all():
        got = f"{accuracy.dtype} {accuracy.shape}"
        raise DataError(f"Expected accuracy of finite float64 numbers, shape {shape}; got {got}.")
    if (accuracy[:, 2:] < 0).any():
        raise DataError("Expected deviations >= 0 of the noise in accuracy; found one below 0.")
    return np.array(accuracy)


class Labelled(NamedTuple):
    """Labelled records of a .npz file.

    Args:
        X: images in raw units, (m, height, width, channels), or encoded rows of a table, (m, d), in [-1, 1].
        y: class indices, (m,).
        schema: public facts.
        arrays: all arrays of the file.
    """

    X: np.ndarray
    y: np.ndarray
    schema: AnySchema
    arrays: dict[str, np.ndarray]


def read_labelled(path: Path) -> Labelled:
    """Returns the records of synthetic.npz or training.npz.

    Raises:
        DataError: a file that is missing, cannot be read, or contradicts itself.
    """
    arrays = read_arrays(path)
    names = ["X", "y", "schema"] if "schema" in arrays else ["X", "y", "classes", "bounds"]
    if absent := [name for name in names if name not in arrays]:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        raise DataError(f"Expected arrays {listed} in {show(path)}; it has no {', '.join(absent)}.")
    X, y = arrays["X"], arrays["y"]
    schema = _table_schema(X, arrays["schema"], path) if "schema" in arrays else _image_schema(arrays, path)
    classes = len(schema.classes)
    if y.shape != X.shape[:1] or y.dtype.kind not in "ui":
        raise DataError(f"Expected y of shape ({len(X)},), integers, in {show(path)}; got {y.dtype} {y.shape}.")
    if len(y) and not (y.min() >= 0 and y.max() < classes):
        raise DataError(f"Expected labels 0 to {classes - 1} in {show(path)}; got {y.min()} to {y.max()}.")
    return Labelled(X, y, schema, arrays)


def _image_schema(arrays: dict[str, np.ndarray], path: Path) -> Schema:
    X, classes, bounds = arrays["X"], arrays["classes"], arrays["bounds"]
    if X.ndim != 4 or X.dtype.kind not in "uif" or not np.isfinite(X).all():
        expected = f"Expected finite X of shape (m, height, width, channels) in {show(path)}"
        raise DataError(f"{expected}; got {X.dtype} {X.shape}.")
    if bounds.shape != (2,) or bounds.dtype.kind not in "uif":
        raise DataError(f"Expected bounds (low, high) in {show(path)}; got {bounds.dtype} {bounds.shape}.")
    if classes.ndim != 1:
        raise DataError(f"Expected a list of class names in {show(path)}; got shape {classes.shape}.")
    straightened = arrays.get("straightened", np.array(False))
    if straightened.dtype != bool or straightened.shape:
        raise DataError(f"Expected straightened as true or false in {show(path)}; got {straightened.dtype}.")
    inferred = arrays.get("inferred", np.zeros(0, np.str_))
    if inferred.ndim != 1 or inferred.dtype.kind != "U":
        raise DataError(f"Expected inferred as a list of names in {show(path)}; got {inferred.dtype} {inferred.shape}.")
    names, facts = (tuple(str(name) for name in array) for array in (classes, inferred))
    return Schema(X.shape[1:], (float(bounds[0]), float(bounds[1])), names, bool(straightened), facts)


def _table_schema(X: np.ndarray, text: np.ndarray, path: Path) -> TableSchema:
    try:
        if text.nbytes > MAX_JSON:
            raise ValueError
        schema = TableSchema.from_json(json.loads(str(text)))
    except DataError as error:
        raise DataError(f"The schema in {show(path)} contradicts itself: {error}") from None
    except (ValueError, TypeError, RecursionError):
        raise DataError(f"Expected the schema of a table as JSON text in {show(path)}; it cannot be read.") from None
    expected = f"Expected X of shape (m, {schema.dimension}) in [-1, 1] in {show(path)}"
    if X.ndim != 2 or X.shape[1:] != schema.shape or X.dtype.kind not in "uif":
        raise DataError(f"{expected}; got {X.dtype} {X.shape}.")
    if X.size and not (X.min() >= -1 - ROUNDING and X.max() <= 1 + ROUNDING):
        raise DataError(f"{expected}; got {X.min()} to {X.max()}.")
    return schema


def _require(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"Expected {path.name} in {show(path.parent)}; it does not exist.")
