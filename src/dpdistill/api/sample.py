"""Makes more records at no further cost: generated rows or images, or images scored by a classifier."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import MAX_SEED
from dpdistill.schema import AnySchema, DataError, TableSchema

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from dpdistill.method import Distilled

LEARNED_FROM = 55_000
"""Number of training images of DPImageBench; the following images are its validation set, which must not be empty."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """More synthetic records of a result.

    Args:
        X: records in the schema's raw units: images (n, h, w, c), or rows (n, columns).
        y: class indices, (n,); with scores, the class of the largest score.
        kind: "rows", "generated", "drawn", "mixed", or several kinds of images.
        schema: public facts of the records.
        scores: scores of the released classifier, (n, classes), centred over the classes; None without a classifier.
        arrays: further arrays by name, one row per image: margins, slopes and units.
        about: origin of the records, as in about.json; empty for rows.
        path: written file or folder, or None.
    """

    X: np.ndarray
    y: np.ndarray
    kind: str
    schema: AnySchema
    scores: np.ndarray | None = None
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Sample({len(self):,} {self.kind}{'' if self.kind == 'rows' else ' pictures'})"

    def to_frame(self) -> pd.DataFrame:
        """Returns the rows of a table as a frame with the schema's columns, then the label.

        Raises:
            DataError: the sample holds images.
        """
        from dpdistill.folder.tables import to_frame

        if not isinstance(self.schema, TableSchema):
            raise DataError("Expected rows of a table: images are in X and y.")
        return to_frame(self.X, self.y, self.schema)


def sample(
    folder: str | os.PathLike,
    n: int,
    out: str | os.PathLike | None = None,
    *,
    kind: str | None = None,
    format: str | None = None,
    slopes: bool = False,
    seed: int = 1,
    where: str | None = None,
    sort: str | None = None,
    listener: Listener = SILENT,
) -> Sample:
    """Makes more records of a result, at no further cost.

    Args:
        folder: the shared folder. A folder of a table has a generator; a folder of images has a generator, or a
            released classifier that scores images.
        n: number of records, >= 1.
        out: new .csv, .parquet, .feather or .arrow file for rows; new .npz file or folder for images. None writes no
            file.
        kind: kind of images: "generated" (the default where the folder has a generator), "drawn" (procedurally
            generated; the default otherwise), "mixed" with the folder's images, or several: "drawn+generated".
        format: "dpimagebench" writes out/gen/gen.npz as that benchmark reads it; None for the package's own files.
        slopes: for scored images also the gradient of the margin between the two likeliest classes.
        seed: public seed of the records, 0 to 4294967295.
        where: condition on rows, such as "age > 60 and ward = B"; rows are made until n fulfil it, up to a bound.
        sort: column by which rows are sorted: numbers and times increase, categories as the schema lists them.
        listener: receives notes and progress.

    Returns:
        The records, with scores where a classifier computed them.

    Raises:
        DataError: a folder without a generator or classifier, options that contradict each other, a path that cannot
            be written, or more records than half of the memory holds.

    Guarantee:
        Post-processing of the release: the guarantee of the folder's certificate.

    Example:
        >>> sample("shared", 1000).X.shape  # doctest: +SKIP
        (1000, 28, 28, 1)
    """
    from dpdistill.folder.layout import GENERATOR
    from dpdistill.folder.save import read_distilled
    from dpdistill.storage.memory import check_sample

    if type(n) is not int or n < 1:
        raise DataError(f"Expected n={n!r:.80} as a whole number >= 1.")
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise DataError(f"Expected seed={seed!r:.80} as a whole number from 0 to {MAX_SEED}.")
    distilled, path = read_distilled(folder), None if out is None else Path(out)
    check_sample(n, distilled.schema)
    if not isinstance(distilled.schema, TableSchema):
        for name, asked in (("where", where), ("sort", sort)):
            if asked is not None:
                raise DataError(f"{folder} holds images: --{name} is for the rows of a table.")
        kind = kind or ("generated" if (Path(folder) / GENERATOR).is_file() else "drawn")
        _check_pictures(kind, format, slopes, path)
        return _pictures(_Work(folder, n, seed, distilled, listener), kind, format, slopes, path)
    for name, stated in (("kind", kind is not None), ("format", format is not None), ("slopes", slopes)):
        if stated:
            raise DataError(f"{folder} holds a table: --{name} is for images.")
    from dpdistill.api.rows import make_rows

    X, y = make_rows(folder, n, seed, distilled, where, path, sort)
    return Sample(X=X, y=y, kind="rows", schema=distilled.schema, path=path)


@dataclass(frozen=True)
class _Work:
    """Number of records to make, and their folder."""

    folder: str | os.PathLike
    n: int
    seed: int
    distilled: Distilled
    listener: Listener


def _make_room(path: Path) -> None:
    """Creates the parent folder of a file before minutes of work."""
    from dpdistill.storage.files import reading

    with reading(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def _check_pictures(kind: str, format: str | None, slopes: bool, path: Path | None) -> None:
    """Refuses options of images that contradict each other, and a path that cannot be written."""
    from dpdistill.api.pictures import PICTURES, kinds_of
    from dpdistill.folder.labelled import check_target

    if not kinds_of(kind):
        raise DataError(
            f"Unknown kind {kind!r} of images: choose among {', '.join(PICTURES)}, or several kinds, each once: "
            "drawn+generated."
        )
    if format not in (None, "dpimagebench"):
        raise DataError(f"Unknown format {format!r}: leave out --format, or use dpimagebench.")
    if slopes and format is not None:
        raise DataError(f"The format {format} has no slopes: leave out --slopes or --format.")
    if slopes and kind == "generated":
        raise DataError(
            "Expected --slopes with scored images, such as --kind drawn or mixed; generated images have no scores."
        )
    if path is None:
        if format is not None:
            raise DataError("Expected --out as a folder with --format.")
        return
    if slopes and path.suffix != ".npz":
        raise DataError(f"Expected --out as a .npz file with --slopes; got {path}.")
    check_target(path, folder_only=format is not None)
    _make_room(path)


def _pictures(work: _Work, kind: str, format: str | None, slopes: bool, path: Path | None) -> Sample:
    from dpdistill.api.pictures import PICTURES, kinds_of
    from dpdistill.folder.labelled import write_dpimagebench, write_labelled

    schema: Any = work.distilled.schema
    X, y, scores, about, arrays = _generated(work) if kind == "generated" else _scored(work, kind, slopes)
    what = "; ".join(PICTURES[each] for each in kinds_of(kind))
    about = {"pictures": what, "seed": work.seed, **about}
    if format is not None and path is not None:
        write_dpimagebench(path, X, y)
        if work.n <= LEARNED_FROM:
            work.listener.note(
                f"DPImageBench trains on the first {LEARNED_FROM:,} images and validates on the rest: take --n 60000."
            )
    elif path is not None:
        write_labelled(path, X, y, scores, schema, about, arrays)
    found = {"scores": scores, "arrays": arrays, "about": about, "path": path}
    return Sample(X=schema.from_unit(X), y=y, kind=kind, schema=schema, **found)


def _generated(work: _Work) -> tuple[Any, Any, None, dict[str, Any], dict[str, Any]]:
    """Returns generated images, their classes, no scores, their origin, and no further arrays."""
    from dpdistill.api.pictures import generate
    from dpdistill.folder.layout import GENERATOR, sha256

    X, y = generate(work.folder, work.n, work.distilled, work.seed)
    about = {
        "classes": "by the released shares",
        "generator_sha256": sha256(Path(work.folder) / GENERATOR),
        "guarantee": "post-processing of the release: that of the certificate in the folder of the generator",
    }
    return X, y, None, about, {}


def _scored(work: _Work, kind: str, slopes: bool) -> tuple[Any, Any, Any, dict[str, Any], dict[str, Any]]:
    """Returns images, the classes of the largest scores, the scores, their origin, and slopes on request."""
    from dpdistill.api.pictures import MORE_IMAGES, check_generator, kinds_of, make_pictures
    from dpdistill.folder.layout import CLASSIFIER, GENERATOR, SYNTHETIC, TRAINING, sha256

    folder, distilled = work.folder, work.distilled
    if distilled.classifier is None:
        if (Path(folder) / GENERATOR).is_file():
            raise DataError(f"{folder} has no released classifier, but a generator: use --kind generated.")
        raise DataError(f"{folder} has no released classifier, so it cannot make more images. {MORE_IMAGES}")
    from dpdistill.evaluation.teacher import teacher_in
    from dpdistill.kernels.ridge import centred

    if "generated" in kinds_of(kind):
        check_generator(folder, distilled.schema)
    teacher: Any = teacher_in(os.fspath(folder), distilled)
    X = make_pictures(kind, work.n, folder, distilled, work.seed, work.listener)
    with work.listener.progress() as bar:
        scores, arrays = _sloped(teacher, X, bar) if slopes else (centred(teacher(X, progress=bar)), {})
    about = {
        "targets": "scores of the released classifier, centred over the classes; y is the largest",
        "classifier_sha256": sha256(Path(folder) / CLASSIFIER),
        "guarantee": "post-processing of the release: that of the certificate in the folder of the classifier",
    }
    if "mixed" in kinds_of(kind):
        about["images_sha256"] = sha256(Path(folder) / (SYNTHETIC if distilled.training is None else TRAINING))
    if "generated" in kinds_of(kind):
        about["generator_sha256"] = sha256(Path(folder) / GENERATOR)
    if slopes:
        about["slopes"] = "gradient of targets[margins[0]] - targets[margins[1]] by the numbers of X"
        if "units" in arrays:
            about["units"] = "multiply a network's gradients and slopes by these before they are compared"
    return X, scores.argmax(1), scores, about, arrays


def _sloped(teacher: Any, X: Any, progress: Any) -> tuple[Any, dict[str, Any]]:
    """Returns centred scores, the two likeliest classes, and the gradient of their margin in raw pixel units."""
    from dpdistill.evaluation.student import likeliest, margin_weights
    from dpdistill.kernels.ridge import centred

    scores, gradients = teacher.sloped(X, lambda scores: margin_weights(centred(scores)), progress=progress)
    scores, (low, high) = centred(scores), teacher.schema.bounds
    margins = likeliest(scores).astype("<i8")
    arrays = {"margins": margins, "slopes": (gradients * (2.0 / (high - low))).astype("<f4")}
    return scores, arrays if (units := teacher.units(X)) is None else {**arrays, "units": units.astype("<f4")}
