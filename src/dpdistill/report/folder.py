"""The shared folder as the report reads it: the synthetic set, and the certificate under whatever words it uses."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.schema import AnySchema, DataError, Schema, TableSchema

SCORES = "scores.json"
ROUNDING = 1e-5
"""By how much single precision may leave [-1, 1]."""


@dataclass(frozen=True, eq=False)
class Folder:
    """What a shared folder holds.

    Args:
        X: synthetic records: images in the schema's raw units, (m, height, width, channels), float32, or rows of a
            table as they are encoded, (m, d), in [-1, 1].
        y: class indices, (m,).
        schema: shape, bounds and class names of images, or the columns of a table.
        certificate: contents of certificate.json.
        recipe: contents of recipe.json.
        scores: contents of scores.json, or None without one.
    """

    X: np.ndarray
    y: np.ndarray
    schema: AnySchema
    certificate: dict[str, Any]
    recipe: dict[str, Any]
    scores: Any = None

    def has(self, name: str) -> bool:
        """Whether the certificate lists a file of that name."""
        files = self.certificate.get("files")
        return isinstance(files, dict) and name in files


def read_folder(folder: Path | str) -> Folder:
    """Reads certificate.json, recipe.json, synthetic.npz and, where there is one, scores.json.

    Raises:
        DataError: a file that is missing, that cannot be read, or that contradicts itself.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"Expected a folder at {folder}; there is none.")
    certificate, recipe = (_read_object(folder, name) for name in ("certificate.json", "recipe.json"))
    X, y, schema = _read_synthetic(folder / "synthetic.npz")
    scores = _read_json(folder / SCORES) if (folder / SCORES).exists() else None
    return Folder(X, y, schema, certificate, recipe, scores)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"Expected {path.name} in {path.parent}; it is not there.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"Expected JSON in {path}; it cannot be read ({type(error).__name__}).") from None


def _read_object(folder: Path, name: str) -> dict[str, Any]:
    data = _read_json(folder / name)
    if not isinstance(data, dict):
        raise DataError(f"Expected a JSON object in {folder / name}; got {type(data).__name__}.")
    return data


def _read_synthetic(path: Path) -> tuple[np.ndarray, np.ndarray, AnySchema]:
    names = ["X", "y", "classes", "bounds"]
    try:
        with np.load(path, allow_pickle=False) as file:
            names = ["X", "y", "schema"] if "schema" in file else names
            arrays = {name: np.asarray(file[name]) for name in names}
    except FileNotFoundError:
        raise DataError(f"Expected {path.name} in {path.parent}; it is not there.") from None
    except KeyError as error:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        raise DataError(f"Expected arrays {listed} in {path}; {error.args[0]}.") from None
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"Expected NumPy arrays in {path}; it cannot be read ({type(error).__name__}).") from None
    X, y = arrays["X"], arrays["y"]
    if "schema" in arrays:
        schema = _table_schema(X, arrays["schema"], path)
    else:
        schema = _image_schema(X, arrays["classes"], arrays["bounds"], path)
    classes = len(schema.classes)
    if y.shape != X.shape[:1] or not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"Expected y of shape ({len(X)},), integers, in {path}; got {y.dtype} {y.shape}.")
    if len(y) and not (y.min() >= 0 and y.max() < classes):
        raise DataError(f"Expected labels 0 to {classes - 1} in {path}; got {y.min()} to {y.max()}.")
    return X, y, schema


def _image_schema(X: np.ndarray, classes: np.ndarray, bounds: np.ndarray, path: Path) -> Schema:
    if X.ndim != 4 or not np.issubdtype(X.dtype, np.number) or not np.isfinite(X).all():
        raise DataError(f"Expected finite X of shape (m, height, width, channels) in {path}; got {X.dtype} {X.shape}.")
    if bounds.shape != (2,) or not np.issubdtype(bounds.dtype, np.number):
        raise DataError(f"Expected bounds (low, high) in {path}; got {bounds.dtype} {bounds.shape}.")
    if classes.ndim != 1:
        raise DataError(f"Expected a list of class names in {path}; got shape {classes.shape}.")
    return Schema(X.shape[1:], (float(bounds[0]), float(bounds[1])), tuple(str(name) for name in classes))


def _table_schema(X: np.ndarray, text: np.ndarray, path: Path) -> TableSchema:
    try:
        schema = TableSchema.from_json(json.loads(str(text)))
        readable = _is_typed(schema)
    except DataError as error:
        raise DataError(f"The schema in {path} contradicts itself: {error}") from None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
        readable = False
    if not readable:
        raise DataError(f"Expected the schema of a table as JSON text in {path}; it cannot be read.")
    expected = f"Expected X of shape (m, {schema.dimension}) in [-1, 1] in {path}"
    if X.ndim != 2 or X.shape[1:] != schema.shape or X.dtype.kind not in "uif":
        raise DataError(f"{expected}; got {X.dtype} {X.shape}.")
    if X.size and not (X.min() >= -1 - ROUNDING and X.max() <= 1 + ROUNDING):
        raise DataError(f"{expected}; got {X.min()} to {X.max()}.")
    return schema


def _is_typed(schema: TableSchema) -> bool:
    """Whether names are texts and what is yes or no is true or false: JSON can say anything."""
    texts, flags = [schema.label, schema.unit, *schema.classes], []
    for column in schema.columns:
        texts += [column.name, *column.categories]
        flags.append(column.missing)
    return all(isinstance(text, str) for text in texts) and all(isinstance(flag, bool) for flag in flags)


def number(value: Any) -> float | None:
    """A float from JSON, where infinity may be the word; None where there is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        value = float({"∞": "inf", "infinity": "inf"}.get(str(value).lower(), value))
    except ValueError:
        return None
    return None if math.isnan(value) else value
