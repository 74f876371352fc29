"""Reads a shared folder for the report: the synthetic set, and a certificate of any supported format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.certificate.earlier import in_this_format
from dpdistill.folder.layout import (
    CERTIFICATE,
    IMAGES,
    RECIPE,
    SCORES,
    SYNTHETIC,
    TRAINING,
    read_accuracy,
    read_arrays,
    read_counts,
    read_json,
    read_labelled,
    read_object,
    sha256,
)
from dpdistill.schema import AnySchema, DataError


@dataclass(frozen=True, eq=False)
class Folder:
    """Contents of a shared folder.

    Args:
        X: synthetic records: images in the schema's raw units, (m, height, width, channels), float32, or encoded table
            rows, (m, d), in [-1, 1].
        y: class indices, (m,).
        schema: shape, bounds and class names of images, or the columns of a table.
        certificate: contents of certificate.json, upgraded to the present format if it has an earlier one.
        recipe: contents of recipe.json.
        scores: contents of scores.json, or None without one.
        soft_labels: whether the records that networks are trained on have soft labels in addition to y.
        digest: SHA-256 of certificate.json; empty if unknown.
        counts: released counts by which the kernel was chosen among the recipe's candidates; empty without a choice.
        accuracy: released accuracy of the classifier, as in `Distilled`; None without one.
    """

    X: np.ndarray
    y: np.ndarray
    schema: AnySchema
    certificate: dict[str, Any]
    recipe: dict[str, Any]
    scores: Any = None
    soft_labels: bool = False
    digest: str = ""
    counts: tuple[float, ...] = ()
    accuracy: np.ndarray | None = None

    def has(self, name: str) -> bool:
        """Returns whether the certificate lists a file of that name."""
        files = self.certificate.get("files")
        return isinstance(files, dict) and name in files

    @property
    def pictures(self) -> list[str]:
        """Names of the 8-bit images that the certificate lists, one per training record; none for a table."""
        files = self.certificate.get("files")
        return [name for name in files if name.startswith(f"{IMAGES}/")] if isinstance(files, dict) else []


def read_folder(folder: Path | str) -> Folder:
    """Reads certificate.json, recipe.json, synthetic.npz and, if present, scores.json.

    Raises:
        DataError: a file is missing, cannot be read, or contradicts itself.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"Expected a folder at {folder}; it does not exist.")
    certificate, recipe = (read_object(folder / name) for name in (CERTIFICATE, RECIPE))
    certificate = in_this_format(certificate)
    X, y, schema, arrays = read_labelled(folder / SYNTHETIC)
    scores = read_json(folder / SCORES) if (folder / SCORES).exists() else None
    trained_on = read_arrays(folder / TRAINING) if (folder / TRAINING).exists() else arrays
    digest, soft = sha256(folder / CERTIFICATE), "soft_labels" in trained_on
    counts, accuracy = tuple(read_counts(folder).tolist()), read_accuracy(folder, len(schema.classes))
    return Folder(X, y, schema, certificate, recipe, scores, soft, digest, counts, accuracy)
