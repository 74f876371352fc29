"""More records at no further cost: rows or pictures of a generator, or drawn pictures under a classifier's scores."""

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
"""Pictures that DPImageBench trains on; it chooses by those behind them, and stops without any."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """More synthetic records of a result.

    Args:
        X: in the schema's raw units: pictures (n, h, w, c), or rows (n, columns).
        y: class indices, (n,); where there are scores, the class of the largest.
        kind: "rows", "generated", "drawn", "mixed", or several kinds of pictures.
        schema: public facts of the records.
        scores: of the released classifier, (n, classes), centred over the classes; None without them.
        arrays: further arrays by name, a row a picture: margins, slopes and units.
        about: where the records come from, as about.json states it; empty for rows.
        path: the file or folder that was written, or None.
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
            DataError: pictures.
        """
        from dpdistill.folder.tables import to_frame

        if not isinstance(self.schema, TableSchema):
            raise DataError("Expected rows of a table: pictures are in X and y.")
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
    listener: Listener = SILENT,
) -> Sample:
    """Makes more records of a result, at no further cost.

    Args:
        folder: the shared folder. A table's has a generator of rows; that of images has a generator, or a released
            classifier that scores pictures.
        n: records, >= 1.
        out: for rows a .csv or .parquet file, for pictures a .npz file or a folder; nothing may be there. None writes
            nothing.
        kind: of pictures: "generated" (the default where the folder has a generator), "drawn" (otherwise), "mixed" with
            the folder's images, or equal parts of several: "drawn+generated".
        format: "dpimagebench" writes out/gen/gen.npz as that benchmark reads it; None for the package's own files.
        slopes: of scored pictures also how the margin between the two likeliest classes changes with every pixel.
        seed: of what is made; public, 0 to 4294967295.
        listener: receives notes and progress.

    Returns:
        The records, with scores where a classifier gave them.

    Raises:
        DataError: a folder without a generator or classifier, options that contradict each other, a place that cannot
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
        raise DataError(f"Expected n={n!r:.80} as a whole number from 1 on.")
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise DataError(f"Expected seed={seed!r:.80} as a whole number from 0 to {MAX_SEED}.")
    distilled, path = read_distilled(folder), None if out is None else Path(out)
    check_sample(n, distilled.schema)
    if not isinstance(distilled.schema, TableSchema):
        kind = kind or ("generated" if (Path(folder) / GENERATOR).is_file() else "drawn")
        _check_pictures(kind, format, slopes, path)
        return _pictures(_Work(folder, n, seed, distilled, listener), kind, format, slopes, path)
    for name, stated in (("kind", kind is not None), ("format", format is not None), ("slopes", slopes)):
        if stated:
            raise DataError(f"{folder} holds a table: --{name} is for pictures.")
    return _rows(folder, n, seed, distilled, path)


@dataclass(frozen=True)
class _Work:
    """How many records are made, of which folder."""

    folder: str | os.PathLike
    n: int
    seed: int
    distilled: Distilled
    listener: Listener


def _make_room(path: Path) -> None:
    """Makes the folder that a file will lie in, before minutes of work."""
    from dpdistill.storage.files import reading

    with reading(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def _rows(folder: str | os.PathLike, n: int, seed: int, distilled: Distilled, path: Path | None) -> Sample:
    from dpdistill.api.pictures import generate
    from dpdistill.folder.tables import write_rows

    schema: Any = distilled.schema
    if path is not None:
        if path.suffix not in (".csv", ".parquet"):
            raise DataError(f"Expected --out as a .csv or .parquet file; got {path}.")
        if path.exists():
            raise DataError(f"{path} exists: choose another file with --out.")
        _make_room(path)
    X, y = generate(folder, n, distilled, seed)
    X = schema.from_unit(X)
    if path is not None:
        write_rows(path, X, y, schema)
    return Sample(X=X, y=y, kind="rows", schema=schema, path=path)


def _check_pictures(kind: str, format: str | None, slopes: bool, path: Path | None) -> None:
    """Refuses options of pictures that contradict each other, and a place where they cannot be written."""
    from dpdistill.api.pictures import PICTURES, kinds_of
    from dpdistill.folder.labelled import check_target

    if not kinds_of(kind):
        raise DataError(
            f"Unknown kind {kind!r} of pictures: choose among {', '.join(PICTURES)}, or several, each once: "
            "drawn+generated."
        )
    if format not in (None, "dpimagebench"):
        raise DataError(f"Unknown format {format!r}: leave --format out, or say dpimagebench.")
    if slopes and format is not None:
        raise DataError(f"The format {format} has no place for slopes: leave --slopes or --format out.")
    if slopes and kind == "generated":
        raise DataError(
            "Expected --slopes with scored pictures, such as --kind drawn or mixed; generated have classes."
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
                f"DPImageBench trains on the first {LEARNED_FROM:,} pictures and chooses by the rest: take --n 60000."
            )
    elif path is not None:
        write_labelled(path, X, y, scores, schema, about, arrays)
    found = {"scores": scores, "arrays": arrays, "about": about, "path": path}
    return Sample(X=schema.from_unit(X), y=y, kind=kind, schema=schema, **found)


def _generated(work: _Work) -> tuple[Any, Any, None, dict[str, Any], dict[str, Any]]:
    """Returns pictures of the generator, their classes, no scores, where they come from, and no further arrays."""
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
    """Returns pictures, the classes of the largest scores, the scores, where they come from, and slopes if wanted."""
    from dpdistill.api.pictures import MORE_IMAGES, check_generator, kinds_of, make_pictures
    from dpdistill.folder.layout import CLASSIFIER, GENERATOR, SYNTHETIC, TRAINING, sha256

    folder, distilled = work.folder, work.distilled
    if distilled.classifier is None:
        if (Path(folder) / GENERATOR).is_file():
            raise DataError(f"{folder} has no released classifier, but a generator: say --kind generated.")
        raise DataError(f"{folder} has no released classifier: its images are all there are. {MORE_IMAGES}")
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
    """Returns centred scores, the two likeliest classes, and the slope of their margin by a picture's raw numbers."""
    from dpdistill.evaluation.student import likeliest, margin_weights
    from dpdistill.kernels.ridge import centred

    scores, gradients = teacher.sloped(X, lambda scores: margin_weights(centred(scores)), progress=progress)
    scores, (low, high) = centred(scores), teacher.schema.bounds
    margins = likeliest(scores).astype("<i8")
    arrays = {"margins": margins, "slopes": (gradients * (2.0 / (high - low))).astype("<f4")}
    return scores, arrays if (units := teacher.units(X)) is None else {**arrays, "units": units.astype("<f4")}
