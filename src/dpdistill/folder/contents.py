"""Checks the files of a shared folder: each is reproduced from its arrays, or read to its last byte."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpdistill.folder.layout import (
    CLASSIFIER,
    CSV,
    GENERATOR,
    GRID,
    IMAGES,
    MARGINALS,
    MAX_MODEL,
    MODEL,
    PARQUET,
    RECIPE,
    ROUNDING,
    SCHEMA,
    SCORECARD,
    SYNTHETIC,
    TRAINING,
    read_labelled,
    read_object,
)
from dpdistill.folder.pictures import draw_grid, to_picture
from dpdistill.folder.save import folder_names, labelled_arrays, read_distilled
from dpdistill.folder.scorecard import scorecard_content
from dpdistill.folder.whole_files import is_whole_picture, read_whole_archive
from dpdistill.method import Distilled
from dpdistill.schema import DataError, TableSchema
from dpdistill.schema.counts import ReleasedCounts
from dpdistill.storage.files import reading, show

_OPTIONAL = (TRAINING, CLASSIFIER, MODEL, GENERATOR, MARGINALS)


class Content(NamedTuple):
    """Result of checking a file.

    Args:
        name: name of the file.
        fault: its fault, as a sentence without full stop; None for an intact file.
        packages: packages of which another version may have written the file differently.
    """

    name: str
    fault: str | None
    packages: tuple[str, ...] = ()


def check_contents(
    folder: Path,
    listed: Collection[str],
    generator_of: Callable[[dict, Any], Any],
    is_model: Callable[[bytes, Distilled], bool],
) -> Iterator[Content]:
    """Checks every file that a certificate lists, except the recipe, against the listed records.

    Args:
        folder: the shared folder.
        listed: names of the files that the certificate lists.
        generator_of: returns the generator from its arrays and the schema; raises ValueError if they do not fit.
        is_model: returns whether bytes are the ONNX file of the set's classifier; raises DataError if the file cannot
            be made again here.

    Raises:
        DataError: records that cannot be read.
    """
    distilled = read_distilled(folder)
    training = TRAINING in listed
    yield _archive(folder, SYNTHETIC, distilled, ("targets",) if training else ("targets", "soft_labels"))
    if training:
        yield _archive(folder, TRAINING, distilled, ("soft_labels",))
    if CLASSIFIER in listed:
        arrays = {name: getattr(distilled, name) for name in ("classifier", "counts", "accuracy")}
        yield _named_arrays(folder, CLASSIFIER, {name: array for name, array in arrays.items() if array is not None})
        yield from _released(folder, distilled)
    if MODEL in listed:
        yield _model(folder, distilled, is_model)
    if GENERATOR in listed:
        yield _generator(folder, distilled, generator_of)
    if MARGINALS in listed:
        yield _counts_of_cells(folder, distilled)
    table = isinstance(distilled.schema, TableSchema)
    scorecard = {SCORECARD} if table and distilled.classifier is not None else set()
    names = {CSV, PARQUET, SCHEMA, *scorecard} if table else {GRID, *_picture_names(distilled)}
    yield from _list_of(names | {SYNTHETIC, RECIPE}, listed)
    yield from (_table(folder, distilled) if table else _pictures(folder, distilled))


def _released(folder: Path, distilled: Distilled) -> Iterator[Content]:
    """Checks that there is one released count for each candidate of the recipe, and an accuracy if it releases one."""
    fields = read_object(folder / RECIPE).get("fields")
    candidates = fields.get("candidates") or [] if isinstance(fields, dict) else []
    counts = 0 if distilled.counts is None else len(distilled.counts)
    if counts != len(candidates):
        yield Content(CLASSIFIER, f"{CLASSIFIER} has {counts} counts for the {len(candidates)} candidates of {RECIPE}")
    stated = bool(fields.get("accuracy")) if isinstance(fields, dict) else False
    if stated != (distilled.accuracy is not None):
        has = "an accuracy" if distilled.accuracy is not None else "no accuracy"
        yield Content(CLASSIFIER, f"{CLASSIFIER} has {has}, unlike {RECIPE}")


def _list_of(names: set[str], listed: Collection[str]) -> Iterator[Content]:
    for name in sorted(names - {*listed}):
        yield Content(name, f"{show(name)} is not listed, but such a set must have it")
    for name in sorted({*listed} - names - {*_OPTIONAL}):
        yield Content(name, f"{show(name)} is listed, but such a set has no such file")


def _archive(folder: Path, name: str, made: Distilled, beside: tuple[str, ...]) -> Content:
    """Checks an archive of labelled records, their public facts and further arrays, in the order of writing."""
    labelled = read_labelled(folder / name)
    expected = labelled_arrays(np.asarray(labelled.X, np.float32), np.asarray(labelled.y), made.schema)
    expected |= {key: getattr(made, key) for key in beside if getattr(made, key) is not None}
    result = _named_arrays(folder, name, expected | {"X": labelled.X.astype(np.float32)})
    if result.fault is None and not isinstance(made.schema, TableSchema):
        low, high = made.schema.bounds
        if labelled.X.min() < low - ROUNDING * (high - low) or labelled.X.max() > high + ROUNDING * (high - low):
            return Content(name, f"{name} has values outside of its bounds")
    return result


def _named_arrays(folder: Path, name: str, expected: dict[str, Any]) -> Content:
    try:
        result = read_whole_archive(folder / name)
    except DataError as error:
        return Content(name, str(error).removesuffix("."))
    if [*result] != [*expected]:
        return Content(name, f"{name} has the arrays {', '.join(result)}; expected {', '.join(expected)}")
    for key, array in result.items():
        wanted = np.asarray(expected[key])
        if array.dtype != wanted.dtype or array.shape != wanted.shape or array.tobytes() != wanted.tobytes():
            return Content(name, f"the array {key} of {name} is not as it is written: its type, shape or values")
    return Content(name, None)


def _generator(folder: Path, made: Distilled, generator_of: Callable[[dict, Any], Any]) -> Content:
    try:
        arrays = read_whole_archive(folder / GENERATOR)
        return _named_arrays(folder, GENERATOR, generator_of(arrays, made.schema).to_arrays())
    except ValueError as error:  # a DataError is a ValueError
        return Content(GENERATOR, f"{GENERATOR} cannot be used: {str(error).removesuffix('.')}")


def _counts_of_cells(folder: Path, made: Distilled) -> Content:
    """Checks that the released counts are those of the schema's columns, in the bins of the recipe."""
    if not isinstance(made.schema, TableSchema):
        return Content(MARGINALS, f"{MARGINALS} belongs to no table")
    try:
        counts = ReleasedCounts.from_arrays(read_whole_archive(folder / MARGINALS), made.schema)
    except DataError as error:
        return Content(MARGINALS, f"{MARGINALS} cannot be used: {str(error).removesuffix('.')}")
    fields = read_object(folder / RECIPE).get("fields")
    stated = fields.get("bins") if isinstance(fields, dict) else None
    if counts.intervals != stated:
        return Content(
            MARGINALS, f"{MARGINALS} has {counts.intervals} bins of a number, {RECIPE} states another number"
        )
    return _named_arrays(folder, MARGINALS, counts.to_arrays())


def _model(folder: Path, made: Distilled, is_model: Callable[[bytes, Distilled], bool]) -> Content:
    if made.classifier is None or (folder / MODEL).stat().st_size > MAX_MODEL:
        return Content(MODEL, f"{MODEL} belongs to no classifier, or is too large")
    try:
        same = is_model((folder / MODEL).read_bytes(), made)
    except DataError as error:
        return Content(MODEL, f"{MODEL} was not checked: {str(error).removesuffix('.')}", ("",))
    return Content(MODEL, None if same else f"{MODEL} is not the released classifier", ("dpdistill", "jax", "numpy"))


def _picture_names(made: Distilled) -> dict[str, int]:
    """Returns the names of the 8-bit images, each with the index of its training record."""
    y, names = made.train_set[1], folder_names(made.schema.classes)
    return {
        f"{IMAGES}/{name}/{i:03d}.png": int(row)
        for k, name in enumerate(names)
        for i, row in enumerate(np.flatnonzero(y == k))
    }


def _pictures(folder: Path, made: Distilled) -> Iterator[Content]:
    X = made.train_set[0]
    for name, row in _picture_names(made).items():
        yield _picture(folder, name, to_picture(X[row]))
    yield _picture(folder, GRID, draw_grid(made.X, made.y, made.schema.classes), "pillow")


def _picture(folder: Path, name: str, picture: Any, *packages: str) -> Content:
    try:
        same = is_whole_picture(folder / name, picture)
    except DataError as error:
        return Content(name, str(error).removesuffix("."))
    return Content(name, None) if same else Content(name, f"{show(name)} does not show the records", packages)


def _table(folder: Path, made: Distilled) -> Iterator[Content]:
    try:
        from dpdistill.folder.tables import csv_content
        from dpdistill.folder.whole_parquet import parquet_fault
    except ModuleNotFoundError:  # an optional package, which is not needed to verify
        for name in (CSV, PARQUET):
            yield Content(name, f"{name} needs pip install 'dpdistill[tables]' to be compared", ("",))
        return
    from dpdistill.sources.tables.schema_file import TableFile, schema_content

    schema: Any = made.schema
    raw, y = schema.from_unit(made.X), made.y
    contents = {CSV: csv_content(raw, y, schema), SCHEMA: schema_content(TableFile(schema, reviewed=True))}
    if made.classifier is not None:
        try:
            contents[SCORECARD] = scorecard_content(made.classifier, schema)
        except DataError as error:
            yield Content(CLASSIFIER, f"{CLASSIFIER} cannot be used: {str(error).removesuffix('.')}")
    for name, content in contents.items():
        if not (folder / name).is_file():
            continue  # the list of files reports this case
        with reading(folder / name):
            same = (folder / name).stat().st_size == len(content) and (folder / name).read_bytes() == content
        origin = CLASSIFIER if name == SCORECARD else SYNTHETIC
        yield Content(name, None if same else f"{name} disagrees with {origin}")
    if (folder / PARQUET).is_file():
        fault = parquet_fault(folder / PARQUET, raw, y, schema)
        yield Content(PARQUET, None if fault is None else f"{PARQUET} {fault}")
