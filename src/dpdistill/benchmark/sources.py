"""Reads the records of a suite's data sets, and splits off held-out records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpdistill.benchmark.suite import OF_IMAGES, Run, Source
from dpdistill.public_images.image_source import PublicImages
from dpdistill.schema import DataError
from dpdistill.sources.load import load
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile, read_reviewed
from dpdistill.storage.files import reading
from dpdistill.storage.records import Records


def open_source(source: Source, data: Path, suite: Path, paper: bool, repeat: int) -> tuple[Records, Records]:
    """Returns the records to distil, and the records to score on.

    Args:
        source: data set of a suite.
        data: folder of the data sets.
        suite: the suite's file.
        paper: split all records randomly, and undersample the majority class of the records to distil, like papers;
            epsilon covers neither.
        repeat: seed of the split.

    Raises:
        DataError: missing or unreadable files, or equal training and test records.
    """
    records = _read(source, source.train, "train", data, suite)
    test = _read(source, source.test, "test", data, suite) if source.test else None
    if test is not None and _same(records.X, test.X):
        raise DataError(
            f"The data set {source.name!r} has equal training and test records: leave out test and state test_share, "
            "or name other records."
        )
    if paper and test is not None:
        records, test = records.joined(test), None
    if test is None:
        records, test = split(records, source.test_share, repeat)
    if paper and source.keep < 1.0:
        records = undersampled(records, source.keep, repeat)
    return records, test


def open_public(run: Run, data: Path) -> PublicImages | None:
    """Returns the training images of the run's public data set; None without one."""
    if run.public is None:
        return None
    images = _read(run.public, run.public.train, "train", data, Path())
    return PublicImages.of_records(images)


def split(records: Records, test_share: float, seed: int) -> tuple[Records, Records]:
    """Returns random training and test parts, each in the order of the records."""
    size, order = round(test_share * len(records)), np.random.default_rng(seed).permutation(len(records))
    return rows(records, np.sort(order[size:])), rows(records, np.sort(order[:size]))


def undersampled(records: Records, keep: float, seed: int) -> Records:
    """Keeps each record of the most frequent class with a probability."""
    majority = np.bincount(records.y[records.y >= 0]).argmax()
    coins = np.random.default_rng(seed).random(len(records)) < keep
    return rows(records, coins | (records.y != majority))


def rows(records: Records, kept: np.ndarray) -> Records:
    """Returns a selection of the records."""
    return Records(records.X[kept], records.y[kept], records.schema)


def _same(X: np.ndarray, other: np.ndarray) -> bool:
    return X.shape == other.shape and np.array_equal(X, other, equal_nan=X.dtype.kind == "f")


def _read(source: Source, stated: str, part: str, data: Path, suite: Path) -> Records:
    path = data / stated
    if not source.schema:
        options = {name: getattr(source, name) for name in OF_IMAGES if getattr(source, name)}
        options |= {"channels": int(source.channels)} if source.channels else {}
        try:
            return load(stated if stated.startswith("digits:") else path, part, **options)
        except DataError as error:
            named = [name for name in ("schema", *OF_IMAGES) if f"--{name}" in str(error)]
            also = f" In a suite: {', '.join(named)} of the data set {source.name}." if named else ""
            raise DataError(f"{error}{also}") from None
    table_file = read_reviewed(suite.parent / source.schema)
    records = load_table(_frame(path, table_file) if path.suffix == ".npz" else path, table_file)
    if source.most_missing >= 0:
        records = rows(records, np.isnan(records.X).sum(1) <= source.most_missing)
    return records


def _frame(path: Path, table_file: TableFile) -> object:
    """Returns a frame from arrays X and y, with columns in the order of the schema."""
    import pandas as pd

    with reading(path), np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    frame = pd.DataFrame(X, columns=[column.name for column in table_file.schema.columns])
    label = table_file.schema.label
    return frame if label is None else frame.assign(**{label: y})
