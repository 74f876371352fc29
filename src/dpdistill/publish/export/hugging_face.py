"""Exports a synthetic set for the `datasets` library: Parquet files with features, and a dataset card."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.folder.layout import CARD
from dpdistill.folder.pictures import to_picture
from dpdistill.folder.save import read_distilled
from dpdistill.publish.export import card
from dpdistill.publish.export.documents import write_text
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report.folder import Folder
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.storage.atomic import write_atomically

DATA = "data/train-00000-of-00001.parquet"


def write(source: Path, to: Path, folder: Folder, publisher: Publisher) -> None:
    """Writes a folder with data/train-00000-of-00001.parquet and README.md, as the Hub shows and loads them.

    Images are structs {bytes, path} of 8-bit PNG, labels a ClassLabel. Sets with expanded records or soft labels export
    those, since networks learn from them. Table rows keep their columns; categories are strings, or bool if they are
    `false` and `true`.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise DataError("The format hf needs PyArrow: pip install 'dpdistill[tables]'.") from None
    columns, features = _table(source, folder.schema) if isinstance(folder.schema, TableSchema) else _images(source)
    table = pa.table(columns)
    about = json.dumps({"info": {"features": features}})
    table = table.replace_schema_metadata({"huggingface": about})
    (to / DATA).parent.mkdir(parents=True)
    write_atomically(to / DATA, lambda file: parquet.write_table(table, file))
    values = f"`{DATA}` holds {table.num_rows:,} records"
    as_pictures = " as images with 8-bit pixels, from 0 to 255" if "image" in features else " in their own columns"
    split = {"name": "train", "num_bytes": table.nbytes, "num_examples": table.num_rows}
    front = {
        **card.configs("data/train-*"),
        "dataset_info": {"features": [_in_card(name, kind) for name, kind in features.items()], "splits": [split]},
    }
    write_text(to / CARD, card.describe(folder, publisher, card.Elsewhere(front, f"{values}{as_pictures}.")))


def _images(source: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    import pyarrow as pa

    distilled = read_distilled(source)
    X, y = distilled.train_set
    images = [{"bytes": _png(x), "path": f"{i:06d}.png"} for i, x in enumerate(X)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {"image": pa.array(images, kind), "label": pa.array(y.astype(np.int64))}
    features = {"image": {"_type": "Image"}, "label": _class_label(distilled.schema.classes)}
    if distilled.soft_labels is not None:
        columns["soft_label"] = pa.array(distilled.soft_labels.tolist(), pa.list_(pa.float32()))
        features["soft_label"] = {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"}
    return columns, features


def _png(x: np.ndarray) -> bytes:
    file = io.BytesIO()
    to_picture(x).save(file, "PNG")
    return file.getvalue()


def _table(source: Path, schema: TableSchema) -> tuple[dict[str, Any], dict[str, Any]]:
    import pyarrow as pa

    from dpdistill.folder.tables import to_frame

    distilled = read_distilled(source)
    frame = to_frame(schema.from_unit(distilled.X), distilled.y, schema)
    columns: dict[str, Any] = {}
    features: dict[str, Any] = {}
    for column in schema.columns:
        dtype = _dtype(column)
        values = frame[column.name]
        values = values.astype(object) if dtype == pa.string() else values
        columns[column.name] = pa.array(values, dtype, from_pandas=True)
        features[column.name] = {"dtype": str(dtype).replace("double", "float64"), "_type": "Value"}
    if schema.label is not None:
        columns[schema.label] = pa.array(distilled.y.astype(np.int64))
        features[schema.label] = _class_label(schema.classes)
    return columns, features


def _dtype(column: Column) -> Any:
    import pyarrow as pa

    from dpdistill.folder.tables import are_truth_values, arrow_type

    texts = pa.bool_() if are_truth_values(column.categories) else pa.string()
    if column.is_time:
        return arrow_type(column)
    return {"integer": pa.int64(), "numeric": pa.float64()}.get(column.kind, texts)


def _class_label(classes: tuple[str, ...]) -> dict[str, Any]:
    return {"names": list(classes), "_type": "ClassLabel"}


def _in_card(name: str, feature: dict[str, Any]) -> dict[str, Any]:
    """Returns a feature in the notation of a card's front matter."""
    if feature["_type"] == "ClassLabel":
        names = {str(k): each for k, each in enumerate(feature["names"])}
        return {"name": name, "dtype": {"class_label": {"names": names}}}
    if feature["_type"] == "List":
        return {"name": name, "list": feature["feature"]["dtype"]}
    return {"name": name, "dtype": feature.get("dtype", "image")}
