"""Reads Hugging Face's image Parquet: a column of images {bytes, path}, a column of labels, and class names."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat, of_single_part
from dpdistill.sources.images.decode import Picture, decode, raw_pictures, require_stated
from dpdistill.storage.files import head, list_files, list_folders, part_of, reading, require_file, show, single_part
from dpdistill.storage.options import Stated
from dpdistill.storage.parsed import Parsed

MAGIC = b"PAR1"
_INSTALL = "Parquet needs PyArrow: pip install 'dpdistill[tables]'."
_LABELS = ("label", "labels")
_LABEL_TYPES = ("integer", "floating", "boolean", "string", "large_string", "binary", "large_binary")
_ROWS, _BUFFER = 64, 1 << 20


class Columns(NamedTuple):
    """Columns of images and labels, with the names of classes if any."""

    image: str
    label: str
    classes: tuple[str, ...] | None


def choose(
    title: str, images: list[str], named: dict[str, tuple[str, ...]], others: list[str], stated: Stated
) -> Columns:
    """Returns the column of images and the column of labels.

    Args:
        title: name of the source in sentences.
        images: columns of images.
        named: columns of labels, with the names of their classes.
        others: further columns.
        stated: `labels` is the column. By default the column is the only one with class names, the one whose names
            include the stated classes, or the one called label or labels.

    Raises:
        DataError: none, or several to choose from.
    """
    if len(images) != 1:
        listed = ", ".join(map(show, images)) or "none"
        raise DataError(f"{title} has {listed} as columns of images; expected one.")
    asked = set(stated.classes or ())
    found = [stated.labels] if stated.labels is not None else [n for n in named if asked and asked <= {*named[n]}]
    found = found or list(named) or [name for name in _LABELS if name in others]
    if len(found) != 1:
        listed = ", ".join(show(name) for name in (found or others)[:8]) or "none"
        raise DataError(f"{title} has several columns of labels, or none: name one of {listed} (--labels NAME).")
    if found[0] not in (*named, *others):
        listed = ", ".join(show(name) for name in (*named, *others)[:8]) or "none"
        raise DataError(f"{title} has no column of labels {found[0][:80]!r}; it has {listed}.")
    return Columns(images[0], found[0], named.get(found[0]))


def class_notes(classes: tuple[str, ...] | None, stated: Stated) -> tuple[str, ...]:
    """Returns a note that classes come from the source, unless the caller states them."""
    if not classes or stated.classes is not None:
        return ()
    listed = f"{', '.join(classes[:20])}{', ...' if len(classes) > 20 else ''}"
    return (f"Classes are the data set's ({listed}): pass --classes to be independent of the data set.",)


def holds_images(path: Path) -> bool:
    """Returns whether a Parquet file has a column of images; otherwise the file is a table."""
    with _opened(path) as file:
        return bool(_images(file.schema_arrow))


def shards(folder: Path) -> list[Path]:
    """Returns the Parquet files of a folder, or of its subfolder `data`, in order."""
    for root in (folder, *(folder / name for name in list_folders(folder) if name == "data")):
        if found := [root / name for name in list_files(root) if name.lower().endswith(".parquet")]:
            return found
    return []


def load_folder(folder: Path, part: str, stated: Stated) -> Parsed:
    """Reads images of one part from a folder of Parquet files such as train-00000-of-00002.parquet.

    Raises:
        DataError: no file of that part, files that do not belong together, and as `load_files`.
    """
    found = shards(folder)
    if not any(part_of(path.name) for path in found):
        return load_files(found, stated, single_part("folder", part))
    chosen = [path for path in found if part_of(path.name) == part]
    if not chosen:
        raise DataError(f"{show(folder)} has no Parquet file of the {part} part ({part}-*.parquet).")
    return load_files(chosen, stated)


def load_files(paths: list[Path], stated: Stated, notes: tuple[str, ...] = ()) -> Parsed:
    """Reads the images of Parquet files in order, decoding some rows at a time.

    Raises:
        DataError: a file that is damaged or no image Parquet, columns that differ from the first file's, a bad image.
    """
    require_stated(stated)
    columns = None
    for path in paths:
        with _opened(path) as file:
            found = _columns(show(path), file.schema_arrow, stated)
        if columns not in (None, found):
            raise DataError(f"{show(path)} has other columns or classes than {show(paths[0])}.")
        columns = found
    assert columns is not None
    pictures = chain(*(_pictures(path, columns, stated) for path in paths))
    return raw_pictures(pictures, stated, columns.classes, (*notes, *class_notes(columns.classes, stated)))


def _decode(content: bytes | None, title: str, stated: Stated) -> np.ndarray:
    if not content:
        raise DataError(f"{title} holds no image, or only its path: write the bytes of images into the file.")
    return decode(io.BytesIO(content), title, stated)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise DataError(_INSTALL) from None
    require_file(path)
    with reading(path):
        try:
            with parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
                yield file
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise DataError(f"{show(path)} is damaged: it cannot be read as Parquet.") from None


def _images(schema: Any) -> list[str]:
    import pyarrow as pa

    def holds_bytes(kind: pa.DataType) -> bool:
        at = kind.get_field_index("bytes") if pa.types.is_struct(kind) else -1
        return at >= 0 and (pa.types.is_binary(kind.field(at).type) or pa.types.is_large_binary(kind.field(at).type))

    return [field.name for field in schema if holds_bytes(field.type)]


def _columns(title: str, schema: Any, stated: Stated) -> Columns:
    import pyarrow as pa

    images = _images(schema)
    kinds: dict[str, Any] = {field.name: _values_of(field.type) for field in schema}
    simple = [name for name, kind in kinds.items() if any(getattr(pa.types, f"is_{k}")(kind) for k in _LABEL_TYPES)]
    named = {name: names for name, names in _class_names(schema).items() if name in simple}
    truths = [name for name in simple if pa.types.is_boolean(kinds[name]) and name not in named]
    for name in truths:
        if name in (*_LABELS, stated.labels):
            named[name] = _truth_values(stated.classes)
    if stated.labels in schema.names and stated.labels not in simple:
        raise DataError(
            f"{title} has no single label per image in the column {stated.labels!r}: expected one integer or text."
        )
    return choose(title, images, named, [name for name in simple if name not in named], stated)


def _values_of(kind: Any) -> Any:
    """Returns the type of a column's values, without dictionary encoding."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _truth_values(classes: tuple[str, ...] | None) -> tuple[str, ...]:
    """Returns the names of false and true in the spelling of the stated classes."""
    lower = {name.lower(): name for name in classes or ()}
    return (lower["false"], lower["true"]) if lower.keys() == {"false", "true"} else ("False", "True")


def _class_names(schema: Any) -> dict[str, tuple[str, ...]]:
    """Returns class names by column, from the metadata of Hugging Face."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            column: tuple(map(str, feature["names"]))
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature["names"], list)
        }
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _pictures(path: Path, columns: Columns, stated: Stated) -> Iterator[Picture]:
    """Yields encoded images and their labels, None for a missing label."""
    number = 0
    with _opened(path) as file:
        for batch in file.iter_batches(_ROWS, columns=[f"{columns.image}.bytes", columns.label], use_threads=False):
            for row, label in zip(batch.column(columns.image), batch.column(columns.label), strict=True):
                content, label, number = (row.as_py() or {}).get("bytes"), label.as_py(), number + 1
                title = f"Row {number} of {show(path)}"
                yield Picture(title, partial(_decode, content, title, stated), label)


FORMAT = ImageFormat(
    name="parquet",
    title="Parquet with images",
    rank=50,
    load_file=lambda path, part, stated: of_single_part(load_files([path], stated), part),
    load_folder=load_folder,
    holds_file=lambda path: head(path, 4) == MAGIC and holds_images(path),
    holds_folder=lambda path, _: bool(shards(path)),
    channels=True,
    labels="Parquet",
)
